// Attention by plain loops over the whole matrix of weights, from the words of the contract.
//
// In double it is what the kernel is compared with; in float it is the eager computation whose
// error the kernel's error is measured against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "regard/attention.h"

namespace by_hand {

using regard::Problem;

// One row of weights: query i of head h in batch b.
struct Query {
    std::int64_t b, h, i;
};

// Calls act(query, n) for each query; n is where it stands in a contiguous (batch, heads, queries).
template <typename Act>
void for_each_query(const Problem& p, Act act) {
    std::int64_t n = 0;
    for (std::int64_t b = 0; b < p.batch; ++b)
        for (std::int64_t h = 0; h < p.heads; ++h)
            for (std::int64_t i = 0; i < p.queries; ++i) act(Query{b, h, i}, n++);
}

inline const float* row_of(const regard::Rows& rows, std::int64_t b, std::int64_t h,
                           std::int64_t n) {
    return rows.data + b * rows.step[0] + h * rows.step[1] + n * rows.step[2];
}

template <typename Number>
Number cell_of(const regard::Cells<Number>& cells, Query q, std::int64_t j) {
    return cells
        .data[q.b * cells.step[0] + q.h * cells.step[1] + q.i * cells.step[2] + j * cells.step[3]];
}

inline std::int64_t kv_head(const Problem& p, std::int64_t h) { return h / (p.heads / p.kv_heads); }

inline bool may_attend(const Problem& p, Query q, std::int64_t j) {
    const std::int64_t ahead = j - (q.i + p.position);
    if (p.causal && ahead > 0) return false;
    if (p.left >= 0 && ahead < -p.left) return false;
    if (p.right >= 0 && ahead > p.right) return false;
    if (p.lengths != nullptr && j >= p.lengths[q.b]) return false;
    if (p.mask.data != nullptr && cell_of(p.mask, q, j) == 0) return false;
    if (p.bias.data != nullptr) {
        const float bias = cell_of(p.bias, q, j);
        if (std::isinf(bias) && bias < 0) return false;
    }
    return true;
}

// An infinity must not vanish in tanh or in exp(−inf), so it becomes a NaN.
template <typename Number>
Number score(const Problem& p, Query q, std::int64_t j) {
    const float* query = row_of(p.q, q.b, q.h, q.i);
    const float* key = row_of(p.k, q.b, kv_head(p, q.h), j);
    Number sum = 0;
    for (std::int64_t d = 0; d < p.width; ++d) sum += Number(query[d]) * Number(key[d]);
    sum *= Number(p.scale);
    if (!std::isfinite(sum)) sum = std::numeric_limits<Number>::quiet_NaN();
    if (p.softcap > 0) sum = Number(p.softcap) * std::tanh(sum / Number(p.softcap));
    if (p.bias.data != nullptr) sum += Number(cell_of(p.bias, q, j));
    return sum;
}

template <typename Number>
struct Attended {
    std::vector<std::uint8_t> allowed;  // (batch, heads, queries, keys)
    std::vector<Number> weights;        // (batch, heads, queries, keys)
    std::vector<Number> lse;            // (batch, heads, queries)
    std::vector<Number> output;         // (batch, heads, queries, value_width)
    Number largest_score = 0;           // of the finite ones that count, sinks included
    Number largest_value = 0;           // of the finite ones
};

template <typename Number>
Attended<Number> attend(const Problem& p) {
    const auto larger = [](Number a, Number b) {
        return std::isfinite(b) ? std::max(a, std::abs(b)) : a;
    };
    const std::int64_t rows = p.batch * p.heads * p.queries;
    Attended<Number> all;
    all.allowed.assign(rows * p.keys, 0);
    all.weights.assign(rows * p.keys, 0);
    all.lse.assign(rows, -std::numeric_limits<Number>::infinity());
    all.output.assign(rows * p.value_width, 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        std::uint8_t* allowed = all.allowed.data() + n * p.keys;
        Number* weights = all.weights.data() + n * p.keys;
        Number* output = all.output.data() + n * p.value_width;

        Number largest = -std::numeric_limits<Number>::infinity();
        bool any = false;
        for (std::int64_t j = 0; j < p.keys; ++j) {
            if (!may_attend(p, q, j)) continue;
            any = true;
            allowed[j] = 1;
            weights[j] = score<Number>(p, q, j);
            if (weights[j] > largest) largest = weights[j];
            all.largest_score = larger(all.largest_score, weights[j]);
        }
        if (!any) return;

        Number sum = 0;
        if (p.sinks != nullptr) {
            const Number sink = p.sinks[q.h];
            if (sink > largest) largest = sink;
            all.largest_score = larger(all.largest_score, sink);
            sum += std::exp(sink - largest);
        }
        for (std::int64_t j = 0; j < p.keys; ++j) {
            if (!allowed[j]) continue;
            weights[j] = std::exp(weights[j] - largest);
            sum += weights[j];
        }
        all.lse[n] = largest + std::log(sum);
        for (std::int64_t j = 0; j < p.keys; ++j) {
            if (!allowed[j]) continue;
            weights[j] /= sum;
            if (p.value_width == 0) continue;
            const float* value = row_of(p.v, q.b, kv_head(p, q.h), j);
            for (std::int64_t e = 0; e < p.value_width; ++e) {
                output[e] += weights[j] * Number(value[e]);
                all.largest_value = larger(all.largest_value, Number(value[e]));
            }
        }
    });
    return all;
}

// −Σ w ln w of each query, over the keys alone.
template <typename Number>
std::vector<Number> entropy(const Problem& p, const Attended<Number>& all) {
    std::vector<Number> out(all.lse.size(), 0);
    for_each_query(p, [&](Query, std::int64_t n) {
        for (std::int64_t j = 0; j < p.keys; ++j) {
            const Number w = all.weights[n * p.keys + j];
            if (w != 0) out[n] -= w * std::log(w);
        }
    });
    return out;
}

// Σ w |p − j| of each query.
template <typename Number>
std::vector<Number> distance(const Problem& p, const Attended<Number>& all) {
    std::vector<Number> out(all.lse.size(), 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        for (std::int64_t j = 0; j < p.keys; ++j)
            out[n] += all.weights[n * p.keys + j] * Number(std::abs(q.i + p.position - j));
    });
    return out;
}

inline std::int64_t allowed_keys(const std::uint8_t* allowed, std::int64_t keys) {
    return std::count(allowed, allowed + keys, std::uint8_t{1});
}

inline bool counts(const regard::Seen& seen, Query q) {
    return seen.counted == nullptr ||
           seen.counted[q.b * seen.counted_step[0] + q.i * seen.counted_step[1]] != 0;
}

// (batch, heads, map_rows, map_columns): the mean over a row's queries that have a key and count.
template <typename Number>
std::vector<Number> map(const Problem& p, const Attended<Number>& all, const regard::Seen& seen) {
    const std::int64_t rows = seen.map_rows, columns = seen.map_columns;
    std::vector<Number> out(p.batch * p.heads * rows * columns, 0);
    std::vector<std::int64_t> queries(p.batch * p.heads * rows, 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        if (!counts(seen, q) || allowed_keys(all.allowed.data() + n * p.keys, p.keys) == 0) return;
        const std::int64_t row = (q.b * p.heads + q.h) * rows + q.i * rows / p.queries;
        ++queries[row];
        for (std::int64_t j = 0; j < p.keys; ++j)
            out[row * columns + j * columns / p.keys] += all.weights[n * p.keys + j];
    });
    for (std::size_t cell = 0; cell < out.size(); ++cell)
        if (queries[cell / columns] > 0) out[cell] /= Number(queries[cell / columns]);
    return out;
}

// (batch, heads, keys): the sum over the queries that count.
template <typename Number>
std::vector<Number> received(const Problem& p, const Attended<Number>& all,
                             const regard::Seen& seen) {
    std::vector<Number> out(p.batch * p.heads * p.keys, 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        if (!counts(seen, q)) return;
        for (std::int64_t j = 0; j < p.keys; ++j)
            out[(q.b * p.heads + q.h) * p.keys + j] += all.weights[n * p.keys + j];
    });
    return out;
}

// (batch, heads, rows, keys) of a rectangle.
template <typename Number>
std::vector<Number> weights(const Problem& p, const Attended<Number>& all,
                            const regard::Rectangle& r) {
    std::vector<Number> out;
    for_each_query(p, [&](Query q, std::int64_t n) {
        if (q.i < r.row || q.i >= r.row + r.rows) return;
        const auto row = all.weights.begin() + n * p.keys;
        out.insert(out.end(), row + r.key, row + r.key + r.keys);
    });
    return out;
}

// (batch, heads, pixel_rows, pixel_columns): the mean or the maximum of the weights in each pixel.
template <typename Number>
std::vector<Number> pooled(const Problem& p, const Attended<Number>& all,
                           const regard::Rectangle& r, std::int64_t pixel_rows,
                           std::int64_t pixel_columns, regard::Reduce reduce) {
    std::vector<Number> out(p.batch * p.heads * pixel_rows * pixel_columns, 0);
    std::vector<std::int64_t> cells(out.size(), 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        if (q.i < r.row || q.i >= r.row + r.rows) return;
        const std::int64_t row =
            (q.b * p.heads + q.h) * pixel_rows + (q.i - r.row) * pixel_rows / r.rows;
        for (std::int64_t j = 0; j < r.keys; ++j) {
            const Number w = all.weights[n * p.keys + r.key + j];
            const std::int64_t pixel = row * pixel_columns + j * pixel_columns / r.keys;
            ++cells[pixel];
            if (reduce == regard::Reduce::mean)
                out[pixel] += w;
            else if (!(w <= out[pixel]) && !std::isnan(out[pixel]))
                out[pixel] = w;
        }
    });
    if (reduce == regard::Reduce::mean)
        for (std::size_t pixel = 0; pixel < out.size(); ++pixel)
            if (cells[pixel] > 0) out[pixel] /= Number(cells[pixel]);
    return out;
}

}  // namespace by_hand
