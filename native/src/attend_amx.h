// The way of a tile of queries through the keys where all numbers are bfloat16, by AMX: the scores
// and the output are products of tiles, all between them is what tile.h does.
#pragma once

#include "tile.h"

namespace regard::REGARD_KERNEL {
namespace {

// Scores in which an odd query or an odd key has a part, one by one, as no tile would make them.
inline void score_odd(const Call& call, Tile& tile, Index row, Index rows, Index start, Index end,
                      Interval allowed, const Packed& packed) {
    const Index width = call.problem.width, stride = call.problem.k.strides[2];
    bool any = false;
    for (Index r = row; r < row + rows; ++r) any |= tile.odd[r];
    for (Index n = allowed.first; n < allowed.last; n += kPanel) {
        if (!any && !packed.odd[(start + tile.shift + n) / kPanel]) continue;
        for (Index c = n; c < smaller(n + kPanel, end - start); ++c) {
            const BFloat16* key = packed.keys + (start + c) * stride;
            const Held held = look_at_factor(key, width);
            if (held.bad) continue;
            for (Index r = row; r < row + rows; ++r) {
                if (!held.odd && !tile.odd[r]) continue;
                Real sum = 0;
                for (Index d = 0; d < width; ++d) {
                    sum = __builtin_fmaf(tile.q[r * width + d], to_real(key[d]), sum);
                }
                tile.scores[r * kScoreStride + c] = sum;
            }
        }
    }
}

// The same as score_rows(), of up to kAmxStrip rows; `allowed` are whole tiles.
inline void score_by_tiles(const Call& call, Tile& tile, Index row, Index rows, Index start,
                           Index end, Interval allowed, const Packed& packed) {
    const Index inner = round_up(call.problem.width, kAmxInner);
    const BFloat16* q = tile.q_tiles + row * inner;
    const BFloat16* keys = packed.k_tiles + (start + tile.shift) * inner;
    Real* scores = tile.scores + row * kScoreStride;
    for (Index n = allowed.first; n < allowed.last; n += kAmxInner) {
        if (rows > kAmxRows) {
            score_tiles<true>(q, inner, keys + n * inner, scores + n);
        } else {
            score_tiles<false>(q, inner, keys + n * inner, scores + n);
        }
    }
    const Vector factor = all(call.factor);
    for (Index r = 0; r < rows; ++r) {
        Real* cells = scores + r * kScoreStride;
        for (Index n = allowed.first; n < allowed.last; n += kLanes) {
            store(cells + n, load(cells + n) * factor);
        }
    }
    score_odd(call, tile, row, rows, start, end, allowed, packed);
}

// The same as output_rows(), likewise.
inline void output_by_tiles(const Call& call, Tile& tile, Index row, Index rows, Index start,
                            Interval allowed, const Packed& packed) {
    BFloat16* high = tile.weight_tiles;
    BFloat16* rest = high + kAmxStrip * kBlock;
    for (Index r = 0; r < rows; ++r) {
        split_weights(tile.scores + (row + r) * kScoreStride, allowed.first, allowed.last,
                      high + r * kBlock, rest + r * kBlock);
    }
    const Index groups = (allowed.last - allowed.first) / kAmxInner;
    const BFloat16* values =
        packed.v_tiles + (start + tile.shift + allowed.first) * call.padded_width;
    alignas(64) Real sums[kAmxStrip * 2 * kAmxRows];
    for (Index d = 0; d < call.padded_width; d += 2 * kAmxRows) {
        if (rows > kAmxRows) {
            weigh_tiles<true>(high + allowed.first, rest + allowed.first, values + d * kAmxInner,
                              call.padded_width, groups, sums);
        } else {
            weigh_tiles<false>(high + allowed.first, rest + allowed.first, values + d * kAmxInner,
                               call.padded_width, groups, sums);
        }
        for (Index r = 0; r < rows; ++r) {
            Real* output = tile.output + (row + r) * call.padded_width + d;
            const Vector rescale = all(tile.rescale[row + r]);
            for (Index c = 0; c < 2 * kAmxRows; c += kLanes) {
                store(output + c,
                      multiply_add(rescale, load(output + c), load(sums + r * 2 * kAmxRows + c)));
            }
        }
    }
}

// The same as attend().
inline void attend_by_tiles(const Call& call, Tile& tile, const Packed& packed) {
    check_interrupt();
    clear_state(call, tile);
    const Interval keys = allowed_keys(call, tile);
    const Tiles tiles;
    for (Index block = (keys.first - tile.origin) / kBlock;; ++block) {
        const Index start = tile.origin + block * kBlock;
        if (start >= keys.last) break;
        const Index end = smaller(start + kBlock, call.problem.keys);
        for (Index row = 0; row < tile.rows; row += kAmxStrip) {
            const Index rows = smaller(kAmxStrip, tile.rows - row);
            Interval allowed = allowed_part(tile, row, rows, start, end);
            if (allowed.empty()) continue;
            allowed = {allowed.first / kAmxInner * kAmxInner, round_up(allowed.last, kAmxInner)};
            score_by_tiles(call, tile, row, rows, start, end, allowed, packed);
            for (Index n = 0; n < rows; n += kStrip) {
                soften_strip(call, tile, row + n, smaller(kStrip, rows - n), packed.bad_k, block,
                             end, allowed);
            }
            output_by_tiles(call, tile, row, rows, start, allowed, packed);
        }
        if (packed.bad_v.count) add_bad_values(call, tile, packed, start, end);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
