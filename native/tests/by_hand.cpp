// The loops themselves, for float and double.
#include "by_hand.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace by_hand {

using regard::Problem;
using regard::Rectangle;
using regard::Reduce;
using regard::Rows;
using regard::Seen;

const float* row_of(const Rows& rows, std::int64_t b, std::int64_t h, std::int64_t n) {
    return static_cast<const float*>(rows.data) + b * rows.strides[0] + h * rows.strides[1] +
           n * rows.strides[2];
}

std::int64_t kv_head(const Problem& p, std::int64_t h) { return h / (p.heads / p.kv_heads); }

const std::int64_t* segment_of(const Problem& p, Query q) {
    return p.segments.data + q.b * p.segments.strides[0] + q.i * p.segments.strides[1];
}

std::int64_t position_of(const Problem& p, Query q) {
    return p.segments.data == nullptr ? q.i + p.position : segment_of(p, q)[2];
}

bool is_chosen(const regard::KeyLists& chosen, Query q, std::int64_t j) {
    const std::int64_t* keys =
        chosen.data + q.b * chosen.strides[0] + q.h * chosen.strides[1] + q.i * chosen.strides[2];
    return std::find(keys, keys + chosen.count, j) != keys + chosen.count;
}

bool may_attend(const Problem& p, Query q, std::int64_t j) {
    const std::int64_t ahead = j - position_of(p, q);
    if (p.segments.data != nullptr && (j < segment_of(p, q)[0] || j >= segment_of(p, q)[1])) {
        return false;
    }
    if (p.chosen.data != nullptr && !is_chosen(p.chosen, q, j)) return false;
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

bool keeps(const regard::Dropout& dropout, Query q, std::int64_t j) {
    if (dropout.drawn) {
        const std::int64_t* strides = dropout.strides;
        const std::int64_t row = q.b * strides[0] + q.h * strides[1] + q.i * strides[2];
        return dropout.drawn[row + j / 8] >> j % 8 & 1;
    }
    const auto mixed = [](std::uint64_t x) {
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        return x ^ (x >> 31);
    };
    std::uint64_t row = dropout.seed;
    for (const std::int64_t place : {q.b, q.h, q.i})
        row = mixed(row + (static_cast<std::uint64_t>(place) + 1) * 0x9e3779b97f4a7c15u);
    auto bits = static_cast<std::uint32_t>(j) * 0x9e3779b9u + static_cast<std::uint32_t>(row >> 32);
    bits = (bits ^ (bits >> 16)) * 0x85ebca77u + static_cast<std::uint32_t>(row);
    bits = (bits ^ (bits >> 15)) * 0xc2b2ae3du;
    // Counted from the middle of the numbers on.
    return static_cast<double>(bits ^ 0x80000000u) >= std::round(dropout.chance * 0x1p32);
}

namespace {

// What dropout multiplies a weight by.
template <typename Number>
Number kept(const Problem& p, Query q, std::int64_t j) {
    if (p.dropout.chance == 0) return 1;
    return keeps(p.dropout, q, j) ? Number(1 / (1 - p.dropout.chance)) : 0;
}

// scale · q·k. An infinity must not vanish in tanh or in exp(−inf), so it becomes a NaN.
template <typename Number>
Number scaled_product(const Problem& p, Query q, std::int64_t j) {
    const float* query = row_of(p.q, q.b, q.h, q.i);
    const float* key = row_of(p.k, q.b, kv_head(p, q.h), j);
    Number sum = 0;
    for (std::int64_t d = 0; d < p.width; ++d) sum += Number(query[d]) * Number(key[d]);
    sum *= Number(p.scale);
    return std::isfinite(sum) ? sum : std::numeric_limits<Number>::quiet_NaN();
}

// With softcap and bias.
template <typename Number>
Number score(const Problem& p, Query q, std::int64_t j, Number product) {
    if (p.softcap > 0) product = Number(p.softcap) * std::tanh(product / Number(p.softcap));
    if (p.bias.data != nullptr) product += Number(cell_of(p.bias, q, j));
    return product;
}

bool counts(const Seen& seen, Query q) {
    return seen.counted == nullptr ||
           seen.counted[q.b * seen.counted_strides[0] + q.i * seen.counted_strides[1]] != 0;
}

}  // namespace

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
    all.max_logit = all.lse;
    all.output.assign(rows * p.value_width, 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        std::uint8_t* allowed = all.allowed.data() + n * p.keys;
        Number* weights = all.weights.data() + n * p.keys;
        Number* output = all.output.data() + n * p.value_width;

        Number largest = -std::numeric_limits<Number>::infinity();
        bool any = false, spoilt = false;
        for (std::int64_t j = 0; j < p.keys; ++j) {
            if (!may_attend(p, q, j)) continue;
            any = true;
            allowed[j] = 1;
            const Number product = scaled_product<Number>(p, q, j);
            weights[j] = score(p, q, j, product);
            if (weights[j] > largest) largest = weights[j];
            spoilt = spoilt || std::isnan(weights[j]);
            all.largest_score = larger(larger(all.largest_score, product), weights[j]);
        }
        if (!any) return;
        all.max_logit[n] = spoilt ? std::numeric_limits<Number>::quiet_NaN() : largest;

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
            const Number left = weights[j] * kept<Number>(p, q, j);
            const float* value = row_of(p.v, q.b, kv_head(p, q.h), j);
            for (std::int64_t e = 0; e < p.value_width; ++e) {
                output[e] += left * Number(value[e]);
                all.largest_value = larger(all.largest_value, Number(value[e]));
            }
        }
    });
    return all;
}

template <typename Number>
Backward<Number> backward(const Problem& p, const Attended<Number>& all, const Rows& gradient) {
    Backward<Number> out;
    out.dq.assign(p.batch * p.heads * p.queries * p.width, 0);
    out.dk.assign(p.batch * p.kv_heads * p.keys * p.width, 0);
    out.dv.assign(p.batch * p.kv_heads * p.keys * p.value_width, 0);
    std::vector<Number> products(p.keys);
    for_each_query(p, [&](Query q, std::int64_t n) {
        const std::uint8_t* allowed = all.allowed.data() + n * p.keys;
        const Number* weights = all.weights.data() + n * p.keys;
        const float* flowing = row_of(gradient, q.b, q.h, q.i);
        const float* query = row_of(p.q, q.b, q.h, q.i);
        const std::int64_t head = q.b * p.kv_heads + kv_head(p, q.h);
        Number mean = 0;
        for (std::int64_t j = 0; j < p.keys; ++j) {
            if (!allowed[j]) continue;
            const float* value = row_of(p.v, q.b, kv_head(p, q.h), j);
            const Number factor = kept<Number>(p, q, j);
            products[j] = 0;
            for (std::int64_t e = 0; e < p.value_width; ++e) {
                products[j] += Number(flowing[e]) * Number(value[e]);
                out.dv[(head * p.keys + j) * p.value_width + e] +=
                    weights[j] * factor * Number(flowing[e]);
            }
            products[j] *= factor;
            mean += weights[j] * products[j];
        }
        for (std::int64_t j = 0; j < p.keys; ++j) {
            if (!allowed[j]) continue;
            const float* key = row_of(p.k, q.b, kv_head(p, q.h), j);
            const Number d_score = Number(p.scale) * weights[j] * (products[j] - mean);
            for (std::int64_t d = 0; d < p.width; ++d) {
                out.dq[n * p.width + d] += d_score * Number(key[d]);
                out.dk[(head * p.keys + j) * p.width + d] += d_score * Number(query[d]);
            }
        }
    });
    return out;
}

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

template <typename Number>
std::vector<Number> distance(const Problem& p, const Attended<Number>& all) {
    std::vector<Number> out(all.lse.size(), 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        for (std::int64_t j = 0; j < p.keys; ++j)
            out[n] += all.weights[n * p.keys + j] * Number(std::abs(position_of(p, q) - j));
    });
    return out;
}

template <typename Number>
std::int64_t allowed_keys(const Problem& p, const Attended<Number>& all, std::int64_t n) {
    const std::uint8_t* allowed = all.allowed.data() + n * p.keys;
    return std::count(allowed, allowed + p.keys, std::uint8_t{1});
}

template <typename Number>
std::vector<Number> map(const Problem& p, const Attended<Number>& all, const Seen& seen) {
    const std::int64_t rows = seen.map_rows, columns = seen.map_columns;
    std::vector<Number> out(p.batch * p.heads * rows * columns, 0);
    std::vector<std::int64_t> queries(p.batch * p.heads * rows, 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        if (!counts(seen, q) || allowed_keys(p, all, n) == 0) return;
        const std::int64_t row = (q.b * p.heads + q.h) * rows + q.i * rows / p.queries;
        ++queries[row];
        for (std::int64_t j = 0; j < p.keys; ++j)
            out[row * columns + j * columns / p.keys] += all.weights[n * p.keys + j];
    });
    for (std::size_t cell = 0; cell < out.size(); ++cell)
        if (queries[cell / columns] > 0) out[cell] /= Number(queries[cell / columns]);
    return out;
}

template <typename Number>
std::vector<Number> received(const Problem& p, const Attended<Number>& all, const Seen& seen) {
    std::vector<Number> out(p.batch * p.heads * p.keys, 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        if (!counts(seen, q)) return;
        for (std::int64_t j = 0; j < p.keys; ++j)
            out[(q.b * p.heads + q.h) * p.keys + j] += all.weights[n * p.keys + j];
    });
    return out;
}

template <typename Number>
std::vector<Number> spans(const Problem& p, const Attended<Number>& all, const Seen& seen) {
    std::vector<Number> out(all.lse.size() * static_cast<std::size_t>(seen.span_count), 0);
    for_each_query(p, [&](Query q, std::int64_t n) {
        for (std::int64_t j = 0; j < p.keys; ++j) {
            const std::int64_t label = seen.labels[q.b * seen.labels_stride + j];
            if (label >= 0) out[n * seen.span_count + label] += all.weights[n * p.keys + j];
        }
    });
    return out;
}

double norm(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t j) {
    double sum = 0;
    if (p.value_width == 0) return sum;
    const float* value = row_of(p.v, b, kv_head(p, h), j);
    for (std::int64_t e = 0; e < p.value_width; ++e) sum += double{value[e]} * double{value[e]};
    return std::sqrt(sum);
}

template <typename Number>
std::vector<Number> contribution(const Problem& p, const Attended<Number>& all) {
    std::vector<Number> out(all.weights);
    for_each_query(p, [&](Query q, std::int64_t n) {
        for (std::int64_t j = 0; j < p.keys; ++j) {
            const double size = norm(p, q.b, q.h, j);
            if (all.allowed[n * p.keys + j])
                out[n * p.keys + j] *= Number(std::isfinite(size) ? size : std::nan(""));
        }
    });
    return out;
}

template <typename Number>
std::vector<Number> weights(const Problem& p, const Attended<Number>& all, const Rectangle& r) {
    std::vector<Number> out;
    for_each_query(p, [&](Query q, std::int64_t n) {
        if (q.i < r.row || q.i >= r.row + r.rows) return;
        const auto row = all.weights.begin() + n * p.keys;
        out.insert(out.end(), row + r.key, row + r.key + r.keys);
    });
    return out;
}

template <typename Number>
std::vector<Number> pooled(const Problem& p, const Attended<Number>& all, const Rectangle& r,
                           std::int64_t pixel_rows, std::int64_t pixel_columns, Reduce reduce) {
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
            if (reduce == Reduce::mean)
                out[pixel] += w;
            else if (!(w <= out[pixel]) && !std::isnan(out[pixel]))
                out[pixel] = w;
        }
    });
    if (reduce == Reduce::mean)
        for (std::size_t pixel = 0; pixel < out.size(); ++pixel)
            if (cells[pixel] > 0) out[pixel] /= Number(cells[pixel]);
    return out;
}

template Attended<float> attend(const Problem&);
template Attended<double> attend(const Problem&);

#define FOR(Number)                                                                                \
    template Backward<Number> backward(const Problem&, const Attended<Number>&, const Rows&);      \
    template std::int64_t allowed_keys(const Problem&, const Attended<Number>&, std::int64_t);     \
    template std::vector<Number> entropy(const Problem&, const Attended<Number>&);                 \
    template std::vector<Number> distance(const Problem&, const Attended<Number>&);                \
    template std::vector<Number> map(const Problem&, const Attended<Number>&, const Seen&);        \
    template std::vector<Number> received(const Problem&, const Attended<Number>&, const Seen&);   \
    template std::vector<Number> spans(const Problem&, const Attended<Number>&, const Seen&);      \
    template std::vector<Number> contribution(const Problem&, const Attended<Number>&);            \
    template std::vector<Number> weights(const Problem&, const Attended<Number>&,                  \
                                         const Rectangle&);                                        \
    template std::vector<Number> pooled(const Problem&, const Attended<Number>&, const Rectangle&, \
                                        std::int64_t, std::int64_t, Reduce);
FOR(float)
FOR(double)
#undef FOR

}  // namespace by_hand
