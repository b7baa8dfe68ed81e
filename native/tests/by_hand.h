// Attention by plain loops over the whole matrix of weights, from the words of the contract.
//
// In double it is what the kernel is compared with; in float it is the eager computation whose
// error the kernel's error is measured against.
#pragma once

#include <cstdint>
#include <vector>

#include "regard/attention.h"

namespace by_hand {

// One row of weights: query i of head h in batch b.
struct Query {
    std::int64_t b, h, i;
};

// Calls act(query, n) for each query; n is where it stands in a contiguous (batch, heads, queries).
template <typename Act>
void for_each_query(const regard::Problem& p, Act act) {
    std::int64_t n = 0;
    for (std::int64_t b = 0; b < p.batch; ++b)
        for (std::int64_t h = 0; h < p.heads; ++h)
            for (std::int64_t i = 0; i < p.queries; ++i) act(Query{b, h, i}, n++);
}

const float* row_of(const regard::Rows& rows, std::int64_t b, std::int64_t h, std::int64_t n);

template <typename Number>
Number cell_of(const regard::Cells<Number>& cells, Query q, std::int64_t j) {
    return cells.data[q.b * cells.strides[0] + q.h * cells.strides[1] + q.i * cells.strides[2] +
                      j * cells.strides[3]];
}

std::int64_t kv_head(const regard::Problem& p, std::int64_t h);

bool may_attend(const regard::Problem& p, Query q, std::int64_t j);

// Whether dropout keeps the weight of key j.
bool keeps(const regard::Dropout& dropout, Query q, std::int64_t j);

// What follows is made for Number = float and double.

template <typename Number>
struct Attended {
    std::vector<std::uint8_t> allowed;  // (batch, heads, queries, keys)
    std::vector<Number> weights;        // (batch, heads, queries, keys), before dropout
    std::vector<Number> lse;            // (batch, heads, queries)
    std::vector<Number> max_logit;      // (batch, heads, queries), sinks aside
    std::vector<Number> output;         // (batch, heads, queries, value_width)
    Number largest_score = 0;           // before and after softcap and bias; sinks, too
    Number largest_value = 0;           // both of what is finite and counts
};

template <typename Number>
Attended<Number> attend(const regard::Problem& p);

// The gradients of q, k and v, contiguous, from that of the output; there may be no softcap.
template <typename Number>
struct Backward {
    std::vector<Number> dq, dk, dv;
};

template <typename Number>
Backward<Number> backward(const regard::Problem& p, const Attended<Number>& all,
                          const regard::Rows& gradient);

// How many keys query n may attend to.
template <typename Number>
std::int64_t allowed_keys(const regard::Problem& p, const Attended<Number>& all, std::int64_t n);

// −Σ w ln w of each query, over the keys alone.
template <typename Number>
std::vector<Number> entropy(const regard::Problem& p, const Attended<Number>& all);

// Σ w |p − j| of each query.
template <typename Number>
std::vector<Number> distance(const regard::Problem& p, const Attended<Number>& all);

// (batch, heads, map_rows, map_columns): the mean over a row's queries that have a key and count.
template <typename Number>
std::vector<Number> map(const regard::Problem& p, const Attended<Number>& all,
                        const regard::Seen& seen);

// (batch, heads, keys): the sum over the queries that count.
template <typename Number>
std::vector<Number> received(const regard::Problem& p, const Attended<Number>& all,
                             const regard::Seen& seen);

// (batch, heads, queries, span_count): the sum over the keys with each label.
template <typename Number>
std::vector<Number> spans(const regard::Problem& p, const Attended<Number>& all,
                          const regard::Seen& seen);

// ‖v‖ of key j, as head h of q sees it.
double norm(const regard::Problem& p, std::int64_t b, std::int64_t h, std::int64_t j);

// (batch, heads, queries, keys): weight · ‖v‖.
template <typename Number>
std::vector<Number> contribution(const regard::Problem& p, const Attended<Number>& all);

// (batch, heads, rows, keys) of a rectangle.
template <typename Number>
std::vector<Number> weights(const regard::Problem& p, const Attended<Number>& all,
                            const regard::Rectangle& r);

// (batch, heads, pixel_rows, pixel_columns): the mean or the maximum of the weights in each pixel.
template <typename Number>
std::vector<Number> pooled(const regard::Problem& p, const Attended<Number>& all,
                           const regard::Rectangle& r, std::int64_t pixel_rows,
                           std::int64_t pixel_columns, regard::Reduce reduce);

}  // namespace by_hand
