// Few queries: K and V are read once where they lie, for all heads of a group, and the keys are
// split into parts of a fixed size, whose results are merged in order.
#pragma once

#include "plan.h"

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kFew = 4;            // queries at most
constexpr Index kPart = 8 * kBlock;  // keys of a part

// scores[j] = q · k[j] for keys [first, last): kGroup keys at a time, whose sums are made together.
template <typename Number>
inline void score_row(const float* q, const Number* k, Index stride, Index width, Index first,
                      Index last, float* scores) {
    const Index whole = width / kLanes * kLanes;
    for (Index j = first; j < last; j += kGroup) {
        const Index count = smaller(kGroup, last - j);
        const Number* key[kGroup];
        for (Index n = 0; n < kGroup; ++n) key[n] = k + (j + smaller(n, count - 1)) * stride;
        Vector total[kGroup] = {};
        for (Index d = 0; d < whole; d += kLanes) {
            const Vector query = load(q + d);
            REGARD_UNROLL(16)
            for (int n = 0; n < kGroup; ++n) {
                total[n] = multiply_add(query, load_floats(key[n] + d), total[n]);
            }
        }
        float score[kGroup];
        sum_each(total, score);
        for (Index d = whole; d < width; ++d) {
            for (Index n = 0; n < kGroup; ++n) score[n] += q[d] * to_float(key[n][d]);
        }
        for (Index n = 0; n < count; ++n) scores[j + n] = score[n];
    }
}

// sums[0 … kVectors · kLanes) = Σ_j weights[j] · v[j] over keys [first, last).
template <int kVectors, typename Number>
inline void sum_values(const float* weights, const Number* v, Index stride, Index first, Index last,
                       float* sums) {
    Vector total[kVectors] = {};
    for (Index j = first; j < last; ++j) {
        const Vector weight = all(weights[j]);
        REGARD_UNROLL(16)
        for (int n = 0; n < kVectors; ++n) {
            total[n] = multiply_add(weight, load_floats(v + j * stride + n * kLanes), total[n]);
        }
    }
    for (int n = 0; n < kVectors; ++n) store(sums + n * kLanes, total[n]);
}

template <typename Number>
inline void sum_value_rows(const float* weights, const Number* v, Index stride, Index width,
                           Index first, Index last, float* sums) {
    Index d = 0;
    for (; d + 8 * kLanes <= width; d += 8 * kLanes) {
        sum_values<8>(weights, v + d, stride, first, last, sums + d);
    }
    for (; d + kLanes <= width; d += kLanes) {
        sum_values<1>(weights, v + d, stride, first, last, sums + d);
    }
    for (; d < width; ++d) {
        float total = 0;
        for (Index j = first; j < last; ++j) total += weights[j] * to_float(v[j * stride + d]);
        sums[d] = total;
    }
}

// Rows of a block as they lie, or, once told to, in a copy in which those that are not finite are
// 0.
struct BlockRows {
    const void* data;
    Type type;
    Index stride, width, start;
    Interval allowed;
    float* copy;
    std::int32_t bad_keys[kBlock];
    BadKeys bad{bad_keys, 0};

    BlockRows(const Rows& rows, Index b, Index kv_head, Index row_width, Index first_key,
              Interval keys, float* room)
        : data(row_of(rows, b, kv_head, first_key)),
          type(rows.type),
          stride(rows.strides[2]),
          width(row_width),
          start(first_key),
          allowed(keys),
          copy(room) {}

    // Whether there were any.
    bool clean() {
        with_numbers(type, data, [&](const auto* numbers) {
            for (Index j = allowed.first; j < allowed.last; ++j) {
                const bool spoilt = pack_query(numbers + j * stride, width, 1.0f, copy + j * width);
                if (spoilt) bad_keys[bad.count++] = static_cast<std::int32_t>(start + j);
            }
        });
        if (bad.count == 0) return false;
        data = copy;
        type = Type::float32;
        stride = width;
        return true;
    }
};

// Through the keys of one part.
inline void attend_part(const Call& call, Tile& tile, Index kv_head, Index part, Scratch& scratch) {
    const Problem& problem = call.problem;
    const Index b = tile.b;
    check_interrupt();
    auto* clean_k = scratch.take<float>(kBlock * problem.width);
    auto* clean_v = scratch.take<float>(kBlock * problem.value_width);
    auto* sums = scratch.take<float>(problem.value_width);
    clear_state(call, tile);
    const Interval keys = allowed_keys(call, tile);
    const Index from = larger(keys.first, part * kPart) / kBlock;
    const Index to = smaller(keys.last, (part + 1) * kPart);
    for (Index block = from; block * kBlock < to; ++block) {
        const Index start = block * kBlock, end = smaller(start + kBlock, problem.keys);
        const Interval allowed = allowed_part(tile, 0, tile.rows, start, end);
        if (allowed.empty()) continue;
        BlockRows key_rows(problem.k, b, kv_head, problem.width, start, allowed, clean_k);
        for (Index r = 0; r < tile.rows; ++r) {
            float* scores = tile.scores + r * kScoreStride;
            const auto score = [&] {
                with_numbers(key_rows.type, key_rows.data, [&](const auto* k) {
                    score_row(tile.q + r * problem.width, k, key_rows.stride, problem.width,
                              allowed.first, allowed.last, scores);
                });
            };
            score();
            // Something that is not finite in K makes every query's score not finite.
            if (r == 0 && any_not_finite(scores + allowed.first, allowed.last - allowed.first) &&
                key_rows.clean()) {
                score();
            }
        }
        for (Index row = 0; row < tile.rows; row += kStrip) {
            soften_strip(call, tile, row, smaller(kStrip, tile.rows - row), key_rows.bad, block,
                         end, allowed);
        }
        BlockRows value_rows(problem.v, b, kv_head, problem.value_width, start, allowed, clean_v);
        for (Index r = 0; r < tile.rows; ++r) {
            const auto sum = [&] {
                with_numbers(value_rows.type, value_rows.data, [&](const auto* v) {
                    sum_value_rows(tile.scores + r * kScoreStride, v, value_rows.stride,
                                   problem.value_width, allowed.first, allowed.last, sums);
                });
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
            packed.values = row_of(problem.v, b, kv_head, 0);
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
