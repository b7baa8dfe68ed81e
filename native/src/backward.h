// The backward pass of one part of the keys: weights once more from q, k and lse, and from them the
// gradients of q, k and v.
//
//     dV = Pᵀ · dO    dS = P · (dO · Vᵀ − δ)    dK = scale · dSᵀ · Q    dQ = scale · dS · K
//
// with P the weights and δ = Σ dO · output of each row. Where a query may not attend to a key, both
// P and dS are exactly 0, so that nothing flows there.
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
    float* k;               // panels of 16 keys
    float* v;               // panels of 16 keys
    float* k_columns;       // panels of 16 columns
    float* dk;              // [last − first][padded_width]
    float* dv;              // [last − first][padded value width]
    BadKeys bad_k, bad_v;   // those in bad_v reach dS by δ, which is then not finite
    BadKeys bad_k_columns;  // bad_k, counted from `first`

    KeyPart(const BackwardCall& back, Index b, Index kv_head, Index from, Index to,
            Scratch& scratch)
        : first(from), last(to), padded(round_up(to - from, kPanel)) {
        const Problem& problem = back.problem;
        const Index count = last - first, value_width = back.call.padded_width;
        const auto room = [&](bool wanted, Index size) {
            return scratch.take<float>(wanted ? size : 0);
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
        const float* keys = ks.data + b * ks.step[0] + kv_head * ks.step[1];
        const float* values = vs.data + b * vs.step[0] + kv_head * vs.step[1];
        pack_keys(keys, ks.step[2], first, last, problem.width, k, bad_k);
        if (back.want_scores) {
            pack_keys(values, vs.step[2], first, last, problem.value_width, v, bad_v);
        }
        if (back.gradients.q.data) {
            pack_values(keys + first * ks.step[2], ks.step[2], 0, count, problem.width, padded,
                        k_columns, bad_k_columns);
        }
        if (back.gradients.k.data) clear(dk, count * back.padded_width);
        if (back.gradients.v.data) clear(dv, count * value_width);
    }

    static void clear(float* numbers, Index count) {
        __builtin_memset(numbers, 0, sizeof(float) * static_cast<std::size_t>(count));
    }
};

// Queries on their way through a part of the keys. The tile's scores become weights.
struct BackwardTile {
    Tile tile;
    Index capacity;
    float* gradient;          // [rows][value_width]; 0 in a row with something not finite …
    bool* spoilt;             // … which this marks
    float* gradient_columns;  // the same in panels of 16 columns
    float* q_columns;         // tile.q in panels of 16 columns
    float* d_scores;          // [rows][kScoreStep]: dO · Vᵀ, then dS
    float* dq;                // [rows][padded_width]
    Scale* scales;
    float* delta;
    float* ones;   // [kStrip]
    Reach* reach;  // of each strip of rows, in a block
    BadKeys ignored;

    BackwardTile(const BackwardCall& back, Scratch& scratch)
        : tile(back.call, smaller(kTile, back.rows), scratch), capacity(smaller(kTile, back.rows)) {
        const Problem& problem = back.problem;
        gradient = scratch.take<float>(capacity * problem.value_width);
        spoilt = scratch.take<bool>(capacity);
        gradient_columns = scratch.take<float>(capacity * back.call.padded_width);
        q_columns = scratch.take<float>(capacity * back.padded_width);
        d_scores = scratch.take<float>(capacity * kScoreStep);
        dq = scratch.take<float>(capacity * back.padded_width);
        scales = scratch.take<Scale>(capacity);
        delta = scratch.take<float>(capacity);
        ones = scratch.take<float>(kStrip);
        reach = scratch.take<Reach>((capacity + kStrip - 1) / kStrip);
        ignored.keys = scratch.take<std::int32_t>(capacity);
        for (Index n = 0; n < kStrip; ++n) ones[n] = 1.0f;
    }
};

// δ of kRows rows, each a chain of multiply-adds in the order of a score: where one key has all the
// weight, δ is its dO · Vᵀ to the last bit, and dS exactly 0.
template <int kRows>
inline void sum_products(const float* const* a, const float* const* b, Index count, float* sums) {
    Vector totals[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) totals[r] = Vector{};
    for (Index n = 0; n < count; ++n) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            totals[r] = multiply_add(all(a[r][n]), all(b[r][n]), totals[r]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = totals[r][0];
}

inline const float* row_of(const Rows& rows, Index b, Index h, Index n) {
    return rows.data + b * rows.step[0] + h * rows.step[1] + n * rows.step[2];
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
    const float *gradients[kTile], *outputs[kTile];
    for (Index r = 0; r < rows; ++r) {
        const Index h = tile.head[r], i = tile.query[r];
        gradients[r] = row_of(back.attended.gradient, b, h, i);
        outputs[r] = row_of(back.attended.output, b, h, i);
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

// Scores become weights, and dO · Vᵀ becomes dS, for keys [first, last) of the block at `start`.
inline void weigh_and_pull(const BackwardCall& back, BackwardTile& work, Index r,
                           const KeyPart& part, Index start, Index first, Index last) {
    Tile& tile = work.tile;
    const Index wide_first = first / kLanes * kLanes, wide_last = round_up(last, kLanes);
    float* scores = tile.scores + r * kScoreStep;
    float* d_scores = work.d_scores + r * kScoreStep;
    const Scale scale = work.scales[r];
    const float delta = work.delta[r];
    finish_scores(back.call, tile, r, part.bad_k, start, first, last, wide_first, wide_last,
                  scores);
    const Vector maximum = all(scale.maximum), inverse = all(scale.inverse);
    const bool no_weights = is_nan(scale.maximum) || is_nan(scale.inverse);
    if (no_weights || delta - delta != 0.0f) {
        const Vector nan = all(not_a_number());
        for (Index n = wide_first; n < wide_last; n += kLanes) {
            const Vector score = load(scores + n);
            const Vector t = smaller(Vector{}, score - maximum);
            const Vector weight = no_weights ? nan : smaller(all(1.0f), exp2(t) * inverse);
            store(scores + n, score == all(-infinity()) ? Vector{} : weight);
            store(d_scores + n, score == all(-infinity()) ? Vector{} : nan);
        }
        return;
    }
    const Vector subtract = all(delta);
    for (Index n = wide_first; n < wide_last; n += kLanes) {
        const Vector t = smaller(Vector{}, load(scores + n) - maximum);
        const Vector weight = smaller(all(1.0f), exp2(t) * inverse);
        const Vector pulled = weight * (load(d_scores + n) - subtract);
        store(scores + n, weight);
        // What a hidden key holds may have made dO · Vᵀ infinite.
        store(d_scores + n, weight == Vector{} ? Vector{} : pulled);
    }
}

// Weights and dS of a strip of rows in the block at `start`; 0 in the rest of columns `shown`.
inline void pull_strip(const BackwardCall& back, BackwardTile& work, const KeyPart& part, Index row,
                       Index rows, Reach reach, Index start, Index end, Reach shown) {
    const Problem& problem = back.problem;
    Tile& tile = work.tile;
    score_rows(tile, row, rows, reach, part.k + (start - part.first) * problem.width,
               problem.width);
    if (back.want_scores) {
        const Index width = problem.value_width;
        const float* panels = part.v + (start - part.first) * width;
        for (Index n = reach.first / kPanel * kPanel; n < reach.last; n += kPanel) {
            score_strip(rows, work.gradient + row * width, width, panels + n * width, width,
                        work.d_scores + row * kScoreStep + n);
        }
    }
    for (Index r = row; r < row + rows; ++r) {
        Index first = larger(tile.keys[r].lo, start) - start;
        Index last = smaller(tile.keys[r].hi, end) - start;
        if (first >= last || work.scales[r].none()) {
            first = last = shown.last;
        } else {
            weigh_and_pull(back, work, r, part, start, first, last);
        }
        for (float* cells : {tile.scores, work.d_scores}) {
            for (Index n = shown.first; n < first; ++n) cells[r * kScoreStep + n] = 0.0f;
            for (Index n = last; n < shown.last; ++n) cells[r * kScoreStep + n] = 0.0f;
        }
    }
}

// What the rows of a tile give to keys [n, n + keys) of a block: sums += cellsᵀ · columns.
inline void gather(const BackwardTile& work, const float* cells, const float* columns, Index n,
                   Index keys, Index first_row, Index last_row, float* sums, Index width) {
    for (Index d = 0; d < width; d += kPanel) {
        gather_strip(keys, cells + first_row * kScoreStep + n,
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
        const float* gradient = row_of(back.attended.gradient, tile.b, h, i);
        const Index last = smaller(tile.keys[r].hi, end);
        for (Index j = larger(tile.keys[r].lo, start); j < last; ++j) {
            if (!allowed(problem, tile.b, h, i, j)) continue;
            const float weight = tile.scores[r * kScoreStep + j - start];
            float* to = part.dv + (j - part.first) * back.call.padded_width;
            for (Index e = 0; e < problem.value_width; ++e) to[e] += weight * gradient[e];
        }
    }
}

// A tile and the block of keys at `start`.
inline void pull_block(const BackwardCall& back, BackwardTile& work, const KeyPart& part,
                       Index start, Index end) {
    Tile& tile = work.tile;
    Reach shown{end - start, 0};
    for (Index row = 0; row < tile.rows; row += kStrip) {
        const Reach reach = reach_of(tile, row, smaller(kStrip, tile.rows - row), start, end);
        work.reach[row / kStrip] = reach;
        if (reach.first >= reach.last) continue;
        shown.first = smaller(shown.first, reach.first / kStrip * kStrip);
        shown.last = larger(shown.last, smaller(round_up(reach.last, kStrip), end - start));
    }
    if (shown.first >= shown.last) return;
    for (Index row = 0; row < tile.rows; row += kStrip) {
        const Index rows = smaller(kStrip, tile.rows - row);
        const Reach reach = work.reach[row / kStrip];
        pull_strip(back, work, part, row, rows, reach, start, end, shown);
        if (!back.gradients.q.data || reach.first >= reach.last) continue;
        for (Index d = 0; d < back.padded_width; d += kPanel) {
            output_strip(
                rows, work.d_scores + row * kScoreStep + reach.first,
                part.k_columns + d * part.padded + (start - part.first + reach.first) * kPanel,
                reach.last - reach.first, work.ones, work.dq + row * back.padded_width + d,
                back.padded_width);
        }
    }
    const Index value_width = back.call.padded_width;
    for (Index n = shown.first; n < shown.last; n += kStrip) {
        const Index keys = smaller(kStrip, shown.last - n);
        Index first_row = tile.rows, last_row = 0;
        for (Index row = 0; row < tile.rows; row += kStrip) {
            const Reach reach = work.reach[row / kStrip];
            if (reach.first >= reach.last || reach.first >= n + keys || reach.last <= n) continue;
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

// to = from · factor, or to += from · factor.
inline void write_scaled(const float* from, Index count, float factor, bool add, float* to) {
    Index n = 0;
    for (; n + kLanes <= count; n += kLanes) {
        const Vector scaled = load(from + n) * all(factor);
        store(to + n, add ? load(to + n) + scaled : scaled);
    }
    for (; n < count; ++n) to[n] = add ? to[n] + from[n] * factor : from[n] * factor;
}

// All queries of a key head and one part of its keys. What flows into q is written to `dq`, or
// added to what is there.
inline void pull_part(const BackwardCall& back, Index b, Index kv_head, Index first, Index last,
                      const Gradient& dq, bool add, Scratch& scratch) {
    const Problem& problem = back.problem;
    const Index head = kv_head * back.call.group;
    KeyPart part(back, b, kv_head, first, last, scratch);
    BackwardTile work(back, scratch);
    for (Index row = 0; row < back.rows; row += kTile) {
        begin(back, work, b, head, row, smaller(kTile, back.rows - row));
        for (Index start = first; start < last; start += kBlock) {
            check_interrupt();
            pull_block(back, work, part, start, smaller(start + kBlock, last));
        }
        for (Index r = 0; dq.data && r < work.tile.rows; ++r) {
            float* to = dq.data + b * dq.step[0] + work.tile.head[r] * dq.step[1] +
                        work.tile.query[r] * dq.step[2];
            write_scaled(work.dq + r * back.padded_width, problem.width, problem.scale, add, to);
        }
    }
    const auto write = [&](const Gradient& to, const float* from, Index width, Index padded_width,
                           float factor) {
        for (Index j = first; to.data && j < last; ++j) {
            write_scaled(from + (j - first) * padded_width, width, factor, false,
                         to.data + b * to.step[0] + kv_head * to.step[1] + j * to.step[2]);
        }
    };
    // The tile's q holds the scale already, and log2(e).
    write(back.gradients.k, part.dk, problem.width, back.padded_width, kLn2);
    write(back.gradients.v, part.dv, problem.value_width, back.call.padded_width, 1.0f);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
