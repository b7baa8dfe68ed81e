// Few queries: K and V are read once where they lie, for all heads of a group, and the keys are
// split into parts of a fixed size, whose results are merged in order.
#pragma once

#include "plan.h"

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kFew = 4;            // queries at most
constexpr Index kPart = 8 * kBlock;  // keys of a part

// scores[j] = q · k[j] for keys [first, last): kGroup keys at a time, whose sums are made together.
inline void score_row(const float* q, const float* k, Index step, Index width, Index first,
                      Index last, float* scores) {
    const Index whole = width / kLanes * kLanes;
    for (Index j = first; j < last; j += kGroup) {
        const Index count = smaller(kGroup, last - j);
        const float* key[kGroup];
        for (Index n = 0; n < kGroup; ++n) key[n] = k + (j + smaller(n, count - 1)) * step;
        Vector total[kGroup] = {};
        for (Index d = 0; d < whole; d += kLanes) {
            const Vector query = load(q + d);
            REGARD_UNROLL(16)
            for (int n = 0; n < kGroup; ++n) {
                total[n] = multiply_add(query, load(key[n] + d), total[n]);
            }
        }
        float score[kGroup];
        sum_each(total, score);
        for (Index d = whole; d < width; ++d) {
            for (Index n = 0; n < kGroup; ++n) score[n] += q[d] * key[n][d];
        }
        for (Index n = 0; n < count; ++n) scores[j + n] = score[n];
    }
}

// sums[0 … kVectors · kLanes) = Σ_j weights[j] · v[j] over keys [first, last).
template <int kVectors>
inline void sum_values(const float* weights, const float* v, Index step, Index first, Index last,
                       float* sums) {
    Vector total[kVectors] = {};
    for (Index j = first; j < last; ++j) {
        const Vector weight = all(weights[j]);
        REGARD_UNROLL(16)
        for (int n = 0; n < kVectors; ++n) {
            total[n] = multiply_add(weight, load(v + j * step + n * kLanes), total[n]);
        }
    }
    for (int n = 0; n < kVectors; ++n) store(sums + n * kLanes, total[n]);
}

inline void sum_value_rows(const float* weights, const float* v, Index step, Index width,
                           Index first, Index last, float* sums) {
    Index d = 0;
    for (; d + 8 * kLanes <= width; d += 8 * kLanes) {
        sum_values<8>(weights, v + d, step, first, last, sums + d);
    }
    for (; d + kLanes <= width; d += kLanes) {
        sum_values<1>(weights, v + d, step, first, last, sums + d);
    }
    for (; d < width; ++d) {
        float total = 0;
        for (Index j = first; j < last; ++j) total += weights[j] * v[j * step + d];
        sums[d] = total;
    }
}

// Rows of a block as they lie, or, once told to, in a copy in which those that are not finite are
// 0.
struct BlockRows {
    const float* data;
    Index step, width, start;
    Reach reach;
    float* copy;
    std::int32_t bad_keys[kBlock];
    BadKeys bad{bad_keys, 0};

    BlockRows(const float* from, Index from_step, Index row_width, Index first_key, Reach keys,
              float* room)
        : data(from + first_key * from_step),
          step(from_step),
          width(row_width),
          start(first_key),
          reach(keys),
          copy(room) {}

    // Whether there were any.
    bool clean() {
        for (Index j = reach.first; j < reach.last; ++j) {
            if (any_not_finite(data + j * step, width)) {
                bad_keys[bad.count++] = static_cast<std::int32_t>(start + j);
            }
        }
        if (bad.count == 0) return false;
        for (Index j = reach.first, n = 0; j < reach.last; ++j) {
            const bool spoilt = n < bad.count && bad_keys[n] == start + j;
            n += spoilt;
            for (Index d = 0; d < width; ++d) {
                copy[j * width + d] = spoilt ? 0.0f : data[j * step + d];
            }
        }
        data = copy;
        step = width;
        return true;
    }
};

// Through the keys of one part.
inline void attend_part(const Call& call, Tile& tile, Index kv_head, Index part, Scratch& scratch) {
    const Problem& problem = call.problem;
    const Index b = tile.b;
    const float* k = problem.k.data + b * problem.k.step[0] + kv_head * problem.k.step[1];
    const float* v = problem.v.data + b * problem.v.step[0] + kv_head * problem.v.step[1];
    check_interrupt();
    auto* clean_k = scratch.take<float>(kBlock * problem.width);
    auto* clean_v = scratch.take<float>(kBlock * problem.value_width);
    auto* sums = scratch.take<float>(problem.value_width);
    clear_state(call, tile);
    const Interval keys = all_visible(call, tile);
    const Index from = larger(keys.lo, part * kPart) / kBlock;
    const Index to = smaller(keys.hi, (part + 1) * kPart);
    for (Index block = from; block * kBlock < to; ++block) {
        const Index start = block * kBlock, end = smaller(start + kBlock, problem.keys);
        const Reach reach = reach_of(tile, 0, tile.rows, start, end);
        if (reach.first >= reach.last) continue;
        BlockRows key_rows(k, problem.k.step[2], problem.width, start, reach, clean_k);
        for (Index r = 0; r < tile.rows; ++r) {
            float* scores = tile.scores + r * kScoreStep;
            const auto score = [&] {
                score_row(tile.q + r * problem.width, key_rows.data, key_rows.step, problem.width,
                          reach.first, reach.last, scores);
            };
            score();
            // Something that is not finite in K makes every query's score not finite.
            if (r == 0 && any_not_finite(scores + reach.first, reach.last - reach.first) &&
                key_rows.clean()) {
                score();
            }
        }
        for (Index row = 0; row < tile.rows; row += kStrip) {
            soften_strip(call, tile, row, smaller(kStrip, tile.rows - row), key_rows.bad, block,
                         end, reach);
        }
        BlockRows value_rows(v, problem.v.step[2], problem.value_width, start, reach, clean_v);
        for (Index r = 0; r < tile.rows; ++r) {
            const auto sum = [&] {
                sum_value_rows(tile.scores + r * kScoreStep, value_rows.data, value_rows.step,
                               problem.value_width, reach.first, reach.last, sums);
            };
            sum();
            // The same for V: even a weight of 0 shows it.
            if (r == 0 && any_not_finite(sums, problem.value_width) && value_rows.clean()) sum();
            float* output = tile.output + r * call.padded_width;
            for (Index d = 0; d < problem.value_width; ++d) {
                output[d] = tile.rescale[r] * output[d] + sums[d];
            }
        }
        if (value_rows.bad.count) {
            Packed packed;
            packed.bad_v = value_rows.bad;
            packed.values = v;
            packed.values_step = problem.v.step[2];
            add_bad_values(call, tile, packed, start, end);
        }
    }
}

// Add what `part` found to `whole`: a row's sums are relative to its own maximum.
inline void merge(const Call& call, Tile& whole, const Tile& part) {
    const Index listed = call.seen.top ? vectors_of(call.seen.top) * kLanes : 0;
    for (Index r = 0; r < whole.rows; ++r) {
        if (part.total[r] == 0) continue;
        const float a = whole.maximum[r], b = part.maximum[r];
        const float now = a > b ? a : b;
        const float reference = now == -infinity() ? 0.0f : now;
        const float own = a == now ? 1.0f : exp2(a - reference);
        const float other = b == now ? 1.0f : exp2(b - reference);
        const float moment =
            whole.total[r] == 0 ? 0.0f : own * (whole.moment[r] + whole.total[r] * (a - now));
        whole.moment[r] = moment + other * (part.moment[r] + part.total[r] * (b - now));
        whole.total[r] = whole.total[r] * own + part.total[r] * other;
        whole.away[r] = whole.away[r] * own + part.away[r] * other;
        whole.maximum[r] = now;
        for (Index d = 0; d < call.problem.value_width; ++d) {
            float& cell = whole.output[r * call.padded_width + d];
            cell = cell * own + part.output[r * call.padded_width + d] * other;
        }
        for (Index n = 0; n < listed; n += kLanes) {
            Candidates& found = *whole.found;
            for (found.count = 0; found.count < kLanes; ++found.count) {
                found.scores[found.count] = part.best[r * listed + n + found.count];
                found.keys[found.count] = part.best_keys[r * listed + n + found.count];
            }
            insert_all(whole.best + r * listed, whole.best_keys + r * listed, listed / kLanes,
                       found);
        }
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
