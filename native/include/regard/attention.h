// Attention, exact, without ever holding the Nq × Nk matrix, and what it looked at. Computed in
// `Real`: in float64 where q, k, v and output are that, else in float32, whatever their type.
//
//     weights = softmax(scale · Q Kᵀ + bias) over the keys that a query may attend to
//     output  = weights · V
//
// Real is float or double. The functions trust their arguments: shapes, strides and pointers are
// checked by the caller. They are safe to call from several threads at once, and give the same bits
// whatever `threads` is and whatever else is in the batch.
#pragma once

#include <cstdint>

#include "regard/type.h"

namespace regard {

// One number for each (b, h, i, j), with strides in elements; any of them may be 0.
template <typename Number>
struct Cells {
    const Number* data = nullptr;  // null: not given
    std::int64_t strides[4] = {0, 0, 0, 0};
};

// Three numbers for each (b, i), contiguous: the keys [first, end) of its segment, and where it
// stands. Strides are in numbers; any of them may be 0.
struct Segments {
    const std::int64_t* data = nullptr;  // null: not given
    std::int64_t strides[2] = {0, 0};
};

// The keys that each (b, h, i) may attend to, in ascending order, contiguous; what is no key (less
// than 0) does nothing. Strides are in keys; any of them may be 0.
struct KeyLists {
    const std::int64_t* data = nullptr;  // null: not given
    std::int64_t strides[3] = {0, 0, 0};
    std::int64_t count = 0;
};

// Which weights are dropped, by seed, b, h, i and j alone, or as was drawn before; those that are
// kept grow.
struct Dropout {
    double chance = 0;  // in [0, 1); 0: all are kept
    std::uint64_t seed = 0;
    // A bit a key, from the lowest of its byte, 1: kept. Behind those of each (b, h, i) are 8 bytes
    // more that may be read. Strides are in bytes.
    const std::uint8_t* drawn = nullptr;  // null: by the seed
    std::int64_t strides[3] = {0, 0, 0};
};

template <typename Real>
struct ProblemOf {
    std::int64_t batch = 0, heads = 0, kv_heads = 0;  // heads is a multiple of kv_heads
    std::int64_t queries = 0, keys = 0;
    std::int64_t width = 0, value_width = 0;

    Rows q;  // (batch, heads, queries, width)
    Rows k;  // (batch, kv_heads, keys, width)
    Rows v;  // (batch, kv_heads, keys, value_width); unused by weights() and pooled()

    Real scale = 1;
    Real softcap = 0;  // c > 0: a score s becomes c·tanh(s/c) before bias and masks; 0: none

    // Key j stands at j, query i at p = i + position, or where its segment says.
    std::int64_t position = 0;
    Segments segments;                      // only keys of the query's own
    bool causal = false;                    // only j ≤ p
    std::int64_t left = -1, right = -1;     // only p − left ≤ j ≤ p + right; −1: unbounded
    Cells<std::uint8_t> mask;               // 0: may not attend
    KeyLists chosen;                        // only these
    Cells<Real> bias;                       // added to the scaled scores; −inf: may not attend
    const std::int64_t* lengths = nullptr;  // (batch): only j < length; null: all keys
    const Real* sinks = nullptr;            // (heads): one more logit, which gives no value; null
    Dropout dropout;                        // of the output's weights; what is seen knows none
};
using Problem = ProblemOf<float>;

// What is to be seen. What is null is not made. All are contiguous.
template <typename Real>
struct SeenOf {
    Real* lse = nullptr;       // (batch, heads, queries), natural log
    Real* entropy = nullptr;   // (batch, heads, queries), nats
    Real* distance = nullptr;  // (batch, heads, queries), mean |p − j|
    // (batch, heads, queries): the largest logit of a key, sinks aside; −inf without any.
    Real* max_logit = nullptr;

    std::int64_t top = 0;              // how many of the strongest keys of each query
    std::int64_t* top_keys = nullptr;  // (batch, heads, queries, top), −1 where there are fewer
    Real* top_weights = nullptr;       // (batch, heads, queries, top), strongest first

    // The same by weight · ‖v‖, or weight · norm where norms are given. A key of norm 0 is not
    // named; one whose norm is not finite comes first, and its contribution is NaN.
    std::int64_t contribution = 0;              // how many
    std::int64_t* contribution_keys = nullptr;  // (batch, heads, queries, contribution)
    Real* contributions = nullptr;              // (batch, heads, queries, contribution)
    const Real* norms = nullptr;                // (batch, heads, keys), contiguous; null: of v

    // The weight of each span of keys: key j of sequence b is in span labels[b][j], in none if that
    // is −1. Contiguous in the keys.
    std::int64_t span_count = 0;
    Real* spans = nullptr;  // (batch, heads, queries, span_count)
    const std::int64_t* labels = nullptr;
    std::int64_t labels_stride = 0;

    // Query i falls in row ⌊i·map_rows/queries⌋, key j in column ⌊j·map_columns/keys⌋. A row is the
    // mean over its queries that have a key and count.
    std::int64_t map_rows = 0, map_columns = 0;
    Real* map = nullptr;       // (batch, heads, map_rows, map_columns)
    Real* received = nullptr;  // (batch, heads, keys), the sum over the queries that count

    // Which queries count in map and received: (batch, queries), 0: does not. Null: all do.
    const std::uint8_t* counted = nullptr;
    std::int64_t counted_strides[2] = {0, 0};
};
using Seen = SeenOf<float>;

// The output (batch, heads, queries, value_width), and what is asked for in `seen`.
template <typename Real>
void attention(const ProblemOf<Real>& problem, const RowsOut& output, const SeenOf<Real>& seen,
               int threads);

// What attention() found, and what flows back into its output.
template <typename Real>
struct AttendedOf {
    Rows output;                // (batch, heads, queries, value_width)
    const Real* lse = nullptr;  // (batch, heads, queries), contiguous
    Rows gradient;              // of the output
};
using Attended = AttendedOf<float>;

// Where gradients are written, each of the shape of what it belongs to. Null: it is not made.
struct Gradients {
    RowsOut q, k, v;
};

// The gradients of q, k and v. There may be no softcap, and no size may be 0.
//
//     dV = (kept · weights)ᵀ · dO    dS = weights · (kept · (dO · Vᵀ) − Σ dO · output)
//     dQ = scale · dS · K            dK = scale · dSᵀ · Q
//
// with kept as kept() gives it, 1 without dropout.
template <typename Real>
void attention_backward(const ProblemOf<Real>& problem, const AttendedOf<Real>& attended,
                        const Gradients& gradients, int threads);

// Queries [row, row + rows) by keys [key, key + keys).
struct Rectangle {
    std::int64_t row = 0, rows = 0, key = 0, keys = 0;
};

// The weights of a rectangle, out (batch, heads, rows, keys), from the lse (batch, heads, queries)
// of the whole rows; all contiguous.
template <typename Real>
void weights(const ProblemOf<Real>& problem, const Real* lse, const Rectangle& rectangle, Real* out,
             int threads);

// What dropout makes of the weights of a rectangle of sequence b, out (heads, rows, keys): each is
// multiplied by 0, or by 1 / (1 − chance).
void kept(const Dropout& dropout, std::int64_t b, std::int64_t heads, const Rectangle& rectangle,
          float* out, int threads);

enum class Reduce { mean, maximum };

// A picture of a rectangle, out (batch, heads, pixel_rows, pixel_columns): the mean or the maximum
// of the weights in each pixel, 0 for a pixel without any. Row i of the rectangle falls in pixel
// row ⌊i·pixel_rows/rows⌋, and columns alike.
template <typename Real>
void pooled(const ProblemOf<Real>& problem, const Real* lse, const Rectangle& rectangle,
            std::int64_t pixel_rows, std::int64_t pixel_columns, Reduce reduce, Real* out,
            int threads);

// What a call throws when it was interrupted; its results are then not complete.
struct Interrupted {};

// From now on a call asks this a few times a second, in the thread that made it, whether it shall
// end early. Null: never.
void set_interrupt_check(bool (*check)()) noexcept;

// Floating-point operations a second of one thread doing nothing but fused multiply-adds, for about
// `seconds`: what the kernel's speed is measured against.
double measure_peak(double seconds);

}  // namespace regard
