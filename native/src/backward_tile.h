// What the backward pass reads of a part of the keys, and of a tile of queries: packed, with room
// for what flows into them.
#pragma once

#include "pool.h"

namespace regard::REGARD_KERNEL {
namespace {

// What a backward call asks for, worked out once.
struct BackwardCall {
    const Call& call;
    const Attended& attended;
    const Gradients& gradients;

    const Problem& problem = call.problem;
    Index rows = call.group * problem.queries;  // of one key head: its query heads, one by one
    Index padded_width = round_up(problem.width, kPanel);
    bool want_scores = gradients.q.data || gradients.k.data;  // dS
};

// Some keys of one key head as the tiles read them, and what flows into them.
struct KeyPart {
    Index first, last;
    Index padded;           // how many there are, rounded up to whole panels
    Real* k;                // panels of kPanel keys
    Real* v;                // panels of kPanel keys
    Real* k_columns;        // panels of kPanel columns
    Real* dk;               // [last − first][padded_width]
    Real* dv;               // [last − first][padded value width]
    BadKeys bad_k, bad_v;   // those in bad_v get to dS by δ, which is then not finite
    BadKeys bad_k_columns;  // bad_k, counted from `first`

    KeyPart(const BackwardCall& back, Index b, Index kv_head, Index from, Index to,
            Scratch& scratch)
        : first(from), last(to), padded(round_up(to - from, kPanel)) {
        const Problem& problem = back.problem;
        const Index count = last - first, value_width = back.call.padded_width;
        const auto room = [&](bool wanted, Index size) {
            return scratch.take<Real>(wanted ? size : 0);
        };
        k = room(true, padded * problem.width);
        v = room(back.want_scores, padded * problem.value_width);
        k_columns = room(back.gradients.q.data, padded * back.padded_width);
        dk = room(back.gradients.k.data, count * back.padded_width);
        dv = room(back.gradients.v.data, count * value_width);
        bad_k.keys = scratch.take<std::int32_t>(count);
        bad_v.keys = scratch.take<std::int32_t>(count);
        bad_k_columns.keys = scratch.take<std::int32_t>(count);

        const Rows &ks = problem.k, &vs = problem.v;
        with_numbers(ks.type, row_of(ks, b, kv_head, 0), [&](const auto* keys) {
            pack_keys(keys, ks.strides[2], first, last, problem.width, k, bad_k);
            if (back.gradients.q.data) {
                pack_values(keys + first * ks.strides[2], ks.strides[2], 0, count, problem.width,
                            padded, k_columns, bad_k_columns);
            }
        });
        if (back.want_scores) {
            with_numbers(vs.type, row_of(vs, b, kv_head, 0), [&](const auto* values) {
                pack_keys(values, vs.strides[2], first, last, problem.value_width, v, bad_v);
            });
        }
        if (back.gradients.k.data) clear(dk, count * back.padded_width);
        if (back.gradients.v.data) clear(dv, count * value_width);
    }

    static void clear(Real* numbers, Index count) {
        __builtin_memset(numbers, 0, sizeof(Real) * static_cast<std::size_t>(count));
    }
};

// Queries on their way through a part of the keys. The tile's scores become weights.
struct BackwardTile {
    Tile tile;
    Index capacity;
    Real* gradient;          // [rows][value_width]; 0 in a row with something not finite …
    bool* spoilt;            // … which this marks
    Real* gradient_columns;  // the same in panels of kPanel columns
    Real* q_columns;         // tile.q in panels of kPanel columns
    Real* d_scores;          // [rows][kScoreStride]: dO · Vᵀ, then dS
    Real* dq;                // [rows][padded_width]
    Scale* scales;
    Real* delta;
    Real *gradient_rows, *output_rows;  // as floats, [rows][value_width], if they are not
    Real* ones;                         // [kStrip]
    Interval* allowed;                  // of each strip of rows, in a block
    BadKeys ignored;

    BackwardTile(const BackwardCall& back, Scratch& scratch)
        : tile(back.call, smaller(kTile, back.rows), scratch), capacity(smaller(kTile, back.rows)) {
        const Problem& problem = back.problem;
        gradient = scratch.take<Real>(capacity * problem.value_width);
        spoilt = scratch.take<bool>(capacity);
        gradient_columns = scratch.take<Real>(capacity * back.call.padded_width);
        q_columns = scratch.take<Real>(capacity * back.padded_width);
        d_scores = scratch.take<Real>(capacity * kScoreStride);
        dq = scratch.take<Real>(capacity * back.padded_width);
        scales = scratch.take<Scale>(capacity);
        delta = scratch.take<Real>(capacity);
        const auto rows_of = [&](const Rows& rows) {
            return scratch.take<Real>(rows.type == kType ? 0 : capacity * problem.value_width);
        };
        gradient_rows = rows_of(back.attended.gradient);
        output_rows = rows_of(back.attended.output);
        ones = scratch.take<Real>(kStrip);
        allowed = scratch.take<Interval>((capacity + kStrip - 1) / kStrip);
        ignored.keys = scratch.take<std::int32_t>(capacity);
        for (Index n = 0; n < kStrip; ++n) ones[n] = 1.0f;
    }
};

// δ of kRows rows, each a chain of multiply-adds in the order of a score: where one key has all the
// weight, δ is its dO · Vᵀ to the last bit, and dS exactly 0.
template <int kRows>
inline void sum_products(const Real* const* a, const Real* const* b, Index count, Real* sums) {
    Vector totals[kRows];
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) totals[r] = Vector{};
    for (Index n = 0; n < count; ++n) {
        REGARD_UNROLL(16)
        for (int r = 0; r < kRows; ++r) {
            totals[r] = multiply_add(all(a[r][n]), all(b[r][n]), totals[r]);
        }
    }
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) sums[r] = totals[r][0];
}

// Begin with rows [first, first + rows) of the query heads of a key head, whose first is `head`.
inline void begin(const BackwardCall& back, BackwardTile& work, Index b, Index head, Index first,
                  Index rows) {
    const Problem& problem = back.problem;
    Tile& tile = work.tile;
    tile.rows = 0;
    while (tile.rows < rows) {
        const Index row = first + tile.rows, query = row % problem.queries;
        add_queries(back.call, tile, b, head + row / problem.queries, query,
                    smaller(rows - tile.rows, problem.queries - query));
    }
    Scales scales;
    scales.lse = back.attended.lse;
    const Real *gradients[kTile], *outputs[kTile];
    for (Index r = 0; r < rows; ++r) {
        const Index h = tile.head[r], i = tile.query[r];
        const Index width = problem.value_width;
        gradients[r] =
            reals_of(back.attended.gradient, b, h, i, width, work.gradient_rows + r * width);
        outputs[r] = reals_of(back.attended.output, b, h, i, width, work.output_rows + r * width);
        work.scales[r] = scales.of((b * problem.heads + h) * problem.queries + i);
        work.spoilt[r] = pack_query(gradients[r], problem.value_width, 1.0f,
                                    work.gradient + r * problem.value_width);
    }
    Index r = 0;
    for (; r + 4 <= rows; r += 4) {
        sum_products<4>(gradients + r, outputs + r, problem.value_width, work.delta + r);
    }
    for (; r < rows; ++r) {
        sum_products<1>(gradients + r, outputs + r, problem.value_width, work.delta + r);
    }
    work.ignored.count = 0;
    if (back.gradients.v.data) {
        pack_values(work.gradient, problem.value_width, 0, rows, problem.value_width, work.capacity,
                    work.gradient_columns, work.ignored);
    }
    work.ignored.count = 0;
    if (back.gradients.k.data) {
        pack_values(tile.q, problem.width, 0, rows, problem.width, work.capacity, work.q_columns,
                    work.ignored);
    }
    KeyPart::clear(work.dq, rows * back.padded_width);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
