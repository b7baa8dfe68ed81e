// Few queries: K and V are read once where they lie, for all heads of a group, and the keys are
// split into parts of a fixed size, whose results are merged in order.
#pragma once

#include "plan.h"

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kFew = 4;            // queries at most
constexpr Index kPart = 8 * kBlock;  // keys of a part
constexpr Index kAheadKeys = 16;     // how many keys before it is needed one is asked of the memory

// Ask the memory for the row of numbers that comes kAheadKeys after this one, if there is one.
template <typename Number>
inline void ask_for(const Number* row, Index stride, Index width) {
    const auto* from = reinterpret_cast<const char*>(row + kAheadKeys * stride);
    for (Index n = 0; n < width * static_cast<Index>(sizeof(Number)); n += 64) {
        __builtin_prefetch(from + n);
    }
}

// scores[r][j] = q[r] · k[j] for kRows rows and keys [first, last), of which each is read once:
// kGroup sums are made together.
template <int kRows, typename Number>
inline void score_keys(const Real* q, const Number* k, Index stride, Index width, Index first,
                       Index last, Real* scores) {
    constexpr int kKeys = kGroup / kRows;
    const Index whole = width / kLanes * kLanes;
    for (Index j = first; j < last; j += kKeys) {
        const Index count = smaller(kKeys, last - j);
        const Number* key[kKeys];
        for (Index n = 0; n < kKeys; ++n) key[n] = k + (j + smaller(n, count - 1)) * stride;
        for (Index n = 0; n < kKeys; ++n) ask_for(key[n], stride, width);
        Vector total[kGroup] = {};
        for (Index d = 0; d < whole; d += kLanes) {
            Vector query[kRows];
            REGARD_UNROLL(16)
            for (int r = 0; r < kRows; ++r) query[r] = load(q + r * width + d);
            REGARD_UNROLL(16)
            for (int n = 0; n < kKeys; ++n) {
                const Vector numbers = load_numbers(key[n] + d);
                REGARD_UNROLL(16)
                for (int r = 0; r < kRows; ++r) {
                    Vector& sum = total[r * kKeys + n];
                    sum = multiply_add(query[r], numbers, sum);
                }
            }
        }
        Real score[kGroup];
        sum_each(total, score);
        for (int r = 0; r < kRows; ++r) {
            for (Index n = 0; n < count; ++n) {
                Real& sum = score[r * kKeys + n];
                for (Index d = whole; d < width; ++d) sum += q[r * width + d] * to_real(key[n][d]);
                scores[r * kScoreStride + j + n] = sum;
            }
        }
    }
}

// sums[r][0 … kVectors · kLanes) = Σ_j weights[r][j] · v[j] over keys [first, last), for kRows
// rows.
template <int kRows, int kVectors, typename Number>
inline void sum_values(const Real* weights, const Number* v, Index stride, Index first, Index last,
                       Real* sums, Index sums_stride) {
    Vector total[kRows][kVectors] = {};
    for (Index j = first; j < last; ++j) {
        Vector weight[kRows];
        REGARD_UNROLL(16)
        for (int r = 0; r < kRows; ++r) weight[r] = all(weights[r * kScoreStride + j]);
        REGARD_UNROLL(16)
        for (int n = 0; n < kVectors; ++n) {
            const Vector numbers = load_numbers(v + j * stride + n * kLanes);
            REGARD_UNROLL(16)
            for (int r = 0; r < kRows; ++r) {
                total[r][n] = multiply_add(weight[r], numbers, total[r][n]);
            }
        }
    }
    for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kVectors; ++n) store(sums + r * sums_stride + n * kLanes, total[r][n]);
    }
}

// The same for values of any width.
template <int kRows, typename Number>
inline void sum_all_values(const Real* weights, const Number* v, Index stride, Index width,
                           Index first, Index last, Real* sums) {
    constexpr int kVectors = 8 / kRows;
    Index d = 0;
    for (; d + kVectors * kLanes <= width; d += kVectors * kLanes) {
        sum_values<kRows, kVectors>(weights, v + d, stride, first, last, sums + d, width);
    }
    for (; d + kLanes <= width; d += kLanes) {
        sum_values<kRows, 1>(weights, v + d, stride, first, last, sums + d, width);
    }
    for (; d < width; ++d) {
        for (int r = 0; r < kRows; ++r) {
            Real total = 0;
            for (Index j = first; j < last; ++j) {
                total += weights[r * kScoreStride + j] * to_real(v[j * stride + d]);
            }
            sums[r * width + d] = total;
        }
    }
}

// work(row, a constant that says how many) for `rows` rows, at most kMost at a time.
template <int kMost, typename Work>
[[gnu::always_inline]] inline void each_few(Index rows, Work work) {
    Index row = 0;
    for (; row + kMost <= rows; row += kMost) work(row, std::integral_constant<int, kMost>());
    if constexpr (kMost > 1) {
        each_few<kMost - 1>(rows - row, [&](Index more, auto count) { work(row + more, count); });
    }
}

// Rows of a block as they lie, or, once told to, in a copy in which those that are not finite are
// 0.
struct BlockRows {
    const void* data;
    Type type;
    Index stride, width, start;
    Interval allowed;
    Real* copy;
    std::int32_t bad_keys[kBlock];
    BadKeys bad{bad_keys, 0};

    BlockRows(const Rows& rows, Index b, Index kv_head, Index row_width, Index first_key,
              Interval keys, Real* room)
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
        type = kType;
        stride = width;
        return true;
    }
};

// Through the keys of one part.
inline void attend_part(const Call& call, Tile& tile, Index kv_head, Index part, Scratch& scratch) {
    const Problem& problem = call.problem;
    const Index b = tile.b;
    check_interrupt();
    auto* clean_k = scratch.take<Real>(kBlock * problem.width);
    auto* clean_v = scratch.take<Real>(kBlock * problem.value_width);
    auto* sums = scratch.take<Real>(4 * problem.value_width);
    clear_state(call, tile);
    const Interval keys = allowed_keys(call, tile);
    const Index from = larger(keys.first, part * kPart) / kBlock;
    const Index to = smaller(keys.last, (part + 1) * kPart);
    for (Index block = from; block * kBlock < to; ++block) {
        const Index start = block * kBlock, end = smaller(start + kBlock, problem.keys);
        const Interval allowed = allowed_part(tile, 0, tile.rows, start, end);
        if (allowed.empty()) continue;
        BlockRows key_rows(problem.k, b, kv_head, problem.width, start, allowed, clean_k);
        each_few<4>(tile.rows, [&](Index row, auto count) {
            Real* scores = tile.scores + row * kScoreStride;
            const auto score = [&] {
                with_numbers(key_rows.type, key_rows.data, [&](const auto* k) {
                    score_keys<count()>(tile.q + row * problem.width, k, key_rows.stride,
                                        problem.width, allowed.first, allowed.last, scores);
                });
            };
            score();
            // Something that is not finite in K makes every query's score not finite.
            if (row == 0 && any_not_finite(scores + allowed.first, allowed.last - allowed.first) &&
                key_rows.clean()) {
                score();
            }
        });
        for (Index row = 0; row < tile.rows; row += kStrip) {
            soften_strip(call, tile, row, smaller(kStrip, tile.rows - row), key_rows.bad, block,
                         end, allowed);
        }
        BlockRows value_rows(problem.v, b, kv_head, problem.value_width, start, allowed, clean_v);
        const auto weigh = [&](Index row, auto count) {
            const auto sum = [&] {
                with_numbers(value_rows.type, value_rows.data, [&](const auto* v) {
                    sum_all_values<count()>(tile.scores + row * kScoreStride, v, value_rows.stride,
                                            problem.value_width, allowed.first, allowed.last, sums);
                });
            };
            sum();
            // The same for V: even a weight of 0 shows it.
            if (row == 0 && any_not_finite(sums, problem.value_width) && value_rows.clean()) sum();
            for (Index r = 0; r < count(); ++r) {
                Real* output = tile.output + (row + r) * call.padded_width;
                for (Index d = 0; d < problem.value_width; ++d) {
                    output[d] =
                        tile.rescale[row + r] * output[d] + sums[r * problem.value_width + d];
                }
            }
        };
        // Several rows at a time pass over V as often, in parts: that pays where numbers are
        // converted.
        if (value_rows.type == kType) {
            each_few<1>(tile.rows, weigh);
        } else {
            each_few<4>(tile.rows, weigh);
        }
        if (value_rows.bad.count) {
            Packed packed;
            packed.bad_v = value_rows.bad;
            packed.values = row_of(problem.v, b, kv_head, 0);
            add_bad_values(call, tile, packed, start, end);
        }
    }
}

// Add the strongest keys that a part has found in row r to those of the whole.
inline void merge(const Lists& whole, const Lists& part, Index r, Candidates& found) {
    for (Index n = 0; n < whole.listed; n += kLanes) {
        for (found.count = 0; found.count < kLanes; ++found.count) {
            found.scores[found.count] = part.best[r * whole.listed + n + found.count];
            found.keys[found.count] = part.keys[r * whole.listed + n + found.count];
        }
        insert_all(whole.best + r * whole.listed, whole.keys + r * whole.listed,
                   whole.listed / kLanes, found);
    }
}

// Add what `part` found to `whole`: a row's sums are relative to its own maximum.
inline void merge(const Call& call, Tile& whole, const Tile& part) {
    const Index spans = call.seen.spans ? call.seen.span_count : 0;
    for (Index r = 0; r < whole.rows; ++r) {
        if (part.total[r] == 0) continue;
        const Real a = whole.maximum[r], b = part.maximum[r];
        const Real now = a > b ? a : b;
        const Real reference = now == -infinity() ? 0.0f : now;
        const Real own = a == now ? 1.0f : exp2(a - reference);
        const Real other = b == now ? 1.0f : exp2(b - reference);
        const Real moment =
            whole.total[r] == 0 ? 0.0f : own * (whole.moment[r] + whole.total[r] * (a - now));
        whole.moment[r] = moment + other * (part.moment[r] + part.total[r] * (b - now));
        whole.total[r] = whole.total[r] * own + part.total[r] * other;
        whole.away[r] = whole.away[r] * own + part.away[r] * other;
        whole.maximum[r] = now;
        for (Index d = 0; d < call.problem.value_width; ++d) {
            Real& cell = whole.output[r * call.padded_width + d];
            cell = cell * own + part.output[r * call.padded_width + d] * other;
        }
        merge(whole.top, part.top, r, *whole.found);
        merge(whole.contribution, part.contribution, r, *whole.found);
        for (Index n = r * spans; n < (r + 1) * spans; ++n) {
            whole.spans.scale(n, own);
            whole.spans.add(n, part.spans[n] * other);
        }
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
