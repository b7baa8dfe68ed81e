// The backward pass of one part of the keys: weights once more from q, k and lse, and from them the
// gradients of q, k and v.
//
//     dV = (Z · P)ᵀ · dO    dS = P · (Z · (dO · Vᵀ) − δ)    dK = scale · dSᵀ · Q    dQ = scale · dS
//     · K
//
// with P the weights, Z what dropout multiplies them by, and δ = Σ dO · output of each row. Where a
// query may not attend to a key, both P and dS are exactly 0, so that nothing flows there.
#pragma once

#include "backward_tile.h"

namespace regard::REGARD_KERNEL {
namespace {

// Scores become weights, or what dropout leaves of them, and dO · Vᵀ becomes dS, for keys [first,
// last) of the block at `start`.
template <bool kDrops>
inline void backward_row(const BackwardCall& back, BackwardTile& work, Index r, const KeyPart& part,
                         Index start, Index first, Index last) {
    Tile& tile = work.tile;
    const Index wide_first = first / kLanes * kLanes, wide_last = round_up(last, kLanes);
    Real* scores = tile.scores + r * kScoreStride;
    Real* d_scores = work.d_scores + r * kScoreStride;
    const Scale scale = work.scales[r];
    const Real delta = work.delta[r];
    finish_scores(back.call, tile, r, part.bad_k, start, first, last, wide_first, wide_last,
                  scores);
    const Vector maximum = all(scale.maximum), inverse = all(scale.inverse);
    const Drops& drops = back.call.drops;
    const Vector growth = all(drops.growth);
    const RowDrops row = kDrops ? RowDrops(drops, tile.b, tile.head[r], tile.query[r]) : RowDrops();
    Naturals keys = kDrops ? row.begin(start + wide_first) : Naturals{};
    const bool no_weights = is_nan(scale.maximum) || is_nan(scale.inverse);
    if (no_weights || delta - delta != 0.0f) {
        const Vector nan = all(not_a_number());
        for (Index n = wide_first; n < wide_last; n += kLanes, keys = row.next(keys)) {
            const Vector score = load(scores + n);
            const Vector t = smaller(Vector{}, score - maximum);
            Vector weight = no_weights ? nan : smaller(all(1.0f), exp2(t) * inverse);
            if (kDrops && !no_weights) weight = row.dropped(keys) ? Vector{} : weight * growth;
            store(scores + n, score == all(-infinity()) ? Vector{} : weight);
            store(d_scores + n, score == all(-infinity()) ? Vector{} : nan);
        }
        return;
    }
    const Vector subtract = all(delta);
    alignas(64) Real weights[kBlock];
    Vector excess{};
    for (Index n = wide_first; n < wide_last; n += kLanes, keys = row.next(keys)) {
        const Vector t = smaller(Vector{}, load(scores + n) - maximum);
        const Vector weight = smaller(all(1.0f), exp2(t) * inverse);
        Vector left = weight, flowing = load(d_scores + n);
        if (kDrops) {
            const Integers dropped = row.dropped(keys);
            left = dropped ? Vector{} : weight * growth;
            flowing = dropped ? Vector{} : flowing * growth;
        }
        // What a key that is not allowed holds may have made dO · Vᵀ infinite.
        const Vector d_score = weight == Vector{} ? Vector{} : weight * (flowing - subtract);
        excess = excess + d_score;
        store(scores + n, left);
        store(d_scores + n, d_score);
        store(weights + n, weight);
    }
    // The dS of a row sum to 0, but for the rounding of δ and of dO · Vᵀ. Where all its keys are in
    // this block that is known, and put right. With a sink the sum is another.
    const bool is_whole = tile.keys[r].first >= start && tile.keys[r].last <= start + kBlock;
    const Real rest = sum(excess);
    if (!is_whole || back.problem.sinks || rest == 0.0f || rest - rest != 0.0f) return;
    for (Index n = wide_first; n < wide_last; n += kLanes) {
        store(d_scores + n, load(d_scores + n) - load(weights + n) * all(rest));
    }
}

// Weights and dS of a strip of rows in the block at `start`; 0 in the rest of columns `shown`.
inline void backward_strip(const BackwardCall& back, BackwardTile& work, const KeyPart& part,
                           Index row, Index rows, Interval allowed, Index start, Index end,
                           Interval shown) {
    const Problem& problem = back.problem;
    Tile& tile = work.tile;
    score_rows(tile, row, rows, allowed, part.k + (start - part.first) * problem.width,
               problem.width);
    if (back.want_scores) {
        const Index width = problem.value_width;
        const Real* panels = part.v + (start - part.first) * width;
        for (Index n = allowed.first / kPanel * kPanel; n < allowed.last; n += kPanel) {
            strip<Score>(rows, work.gradient + row * width, width, panels + n * width, width,
                         work.d_scores + row * kScoreStride + n);
        }
    }
    for (Index r = row; r < row + rows; ++r) {
        const Index first = larger(tile.keys[r].first, start) - start;
        const Index last = smaller(tile.keys[r].last, end) - start;
        Index from = first / kLanes * kLanes, to = round_up(last, kLanes);
        if (first >= last || work.scales[r].none()) {
            from = to = shown.last;
        } else {
            back.call.drops.any ? backward_row<true>(back, work, r, part, start, first, last)
                                : backward_row<false>(back, work, r, part, start, first, last);
        }
        // Where it may not look in these vectors, the row itself wrote 0.
        for (Real* cells : {tile.scores, work.d_scores}) {
            clear_cells(cells + r * kScoreStride, shown.first, from);
            clear_cells(cells + r * kScoreStride, to, shown.last);
        }
    }
}

// What the rows of a tile give to keys [n, n + keys) of a block: sums += cellsᵀ · columns.
inline void gather(const BackwardTile& work, const Real* cells, const Real* columns, Index n,
                   Index keys, Index first_row, Index last_row, Real* sums, Index width) {
    for (Index d = 0; d < width; d += kPanel) {
        strip<Gather>(keys, cells + first_row * kScoreStride + n,
                      columns + d * work.capacity + first_row * kPanel, last_row - first_row,
                      sums + n * width + d, width);
    }
}

// Gradients that are not finite were packed as 0: add them to the keys that they flow into.
inline void add_bad_gradients(const BackwardCall& back, BackwardTile& work, const KeyPart& part,
                              Index start, Index end) {
    const Problem& problem = back.problem;
    const Tile& tile = work.tile;
    for (Index r = 0; r < tile.rows; ++r) {
        if (!work.spoilt[r]) continue;
        const Index h = tile.head[r], i = tile.query[r];
        const Index width = problem.value_width;
        const Real* gradient =
            reals_of(back.attended.gradient, tile.b, h, i, width, work.gradient_rows + r * width);
        const Index last = smaller(tile.keys[r].last, end);
        for (Index j = larger(tile.keys[r].first, start); j < last; ++j) {
            if (!allowed_by_mask(problem, tile.b, h, i, j)) continue;
            const Real weight = tile.scores[r * kScoreStride + j - start];
            Real* to = part.dv + (j - part.first) * back.call.padded_width;
            for (Index e = 0; e < width; ++e) to[e] += weight * gradient[e];
        }
    }
}

// A tile and the block of keys at `start`.
inline void backward_block(const BackwardCall& back, BackwardTile& work, const KeyPart& part,
                           Index start, Index end) {
    Tile& tile = work.tile;
    Interval shown{end - start, 0};
    for (Index row = 0; row < tile.rows; row += kStrip) {
        const Interval allowed =
            allowed_part(tile, row, smaller(kStrip, tile.rows - row), start, end);
        work.allowed[row / kStrip] = allowed;
        if (allowed.empty()) continue;
        shown.first = smaller(shown.first, allowed.first / kStrip * kStrip);
        shown.last = larger(shown.last, smaller(round_up(allowed.last, kStrip), end - start));
    }
    if (shown.empty()) return;
    for (Index row = 0; row < tile.rows; row += kStrip) {
        const Index rows = smaller(kStrip, tile.rows - row);
        const Interval allowed = work.allowed[row / kStrip];
        backward_strip(back, work, part, row, rows, allowed, start, end, shown);
        if (!back.gradients.q.data || allowed.empty()) continue;
        for (Index d = 0; d < back.padded_width; d += kPanel) {
            strip<Weigh>(
                rows, work.d_scores + row * kScoreStride + allowed.first,
                part.k_columns + d * part.padded + (start - part.first + allowed.first) * kPanel,
                allowed.last - allowed.first, work.ones, work.dq + row * back.padded_width + d,
                back.padded_width);
        }
    }
    const Index value_width = back.call.padded_width;
    for (Index n = shown.first; n < shown.last; n += kStrip) {
        const Index keys = smaller(kStrip, shown.last - n);
        Index first_row = tile.rows, last_row = 0;
        for (Index row = 0; row < tile.rows; row += kStrip) {
            const Interval allowed = work.allowed[row / kStrip];
            if (allowed.empty() || allowed.first >= n + keys || allowed.last <= n) continue;
            first_row = smaller(first_row, row);
            last_row = smaller(row + kStrip, tile.rows);
        }
        if (first_row >= last_row) continue;
        if (back.gradients.v.data) {
            gather(work, tile.scores, work.gradient_columns, n, keys, first_row, last_row,
                   part.dv + (start - part.first) * value_width, value_width);
        }
        if (back.gradients.k.data) {
            gather(work, work.d_scores, work.q_columns, n, keys, first_row, last_row,
                   part.dk + (start - part.first) * back.padded_width, back.padded_width);
        }
    }
    if (back.gradients.v.data) add_bad_gradients(back, work, part, start, end);
}

// to += from
inline void add_row(const Real* from, Index count, Real* to) {
    Index n = 0;
    for (; n + kLanes <= count; n += kLanes) store(to + n, load(to + n) + load(from + n));
    for (; n < count; ++n) to[n] += from[n];
}

// All queries of a key head and one part of its keys. What flows into q is written to `dq`, or
// added to what is there, which is then of type Real.
inline void backward_part(const BackwardCall& back, Index b, Index kv_head, Index first, Index last,
                          const RowsOut& dq, bool add, Scratch& scratch) {
    const Problem& problem = back.problem;
    const Index head = kv_head * back.call.group;
    KeyPart part(back, b, kv_head, first, last, scratch);
    BackwardTile work(back, scratch);
    for (Index row = 0; row < back.rows; row += kTile) {
        begin(back, work, b, head, row, smaller(kTile, back.rows - row));
        for (Index start = first; start < last; start += kBlock) {
            check_interrupt();
            backward_block(back, work, part, start, smaller(start + kBlock, last));
        }
        for (Index r = 0; dq.data && r < work.tile.rows; ++r) {
            const Index h = work.tile.head[r], i = work.tile.query[r];
            Real* row = work.dq + r * back.padded_width;
            if (add) {
                write_scaled(row, problem.width, problem.scale, row);
                add_row(row, problem.width, static_cast<Real*>(row_of(dq, b, h, i)));
            } else {
                write_row(row, problem.width, problem.scale, dq, b, h, i);
            }
        }
    }
    const auto write = [&](const RowsOut& to, const Real* from, Index width, Index padded_width,
                           Real factor) {
        for (Index j = first; to.data && j < last; ++j) {
            write_row(from + (j - first) * padded_width, width, factor, to, b, kv_head, j);
        }
    };
    // The tile's q holds the scale already, and log2(e).
    write(back.gradients.k, part.dk, problem.width, back.padded_width, kLn2);
    write(back.gradients.v, part.dv, problem.value_width, back.call.padded_width, 1.0f);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
