// One row of a block of scores: which keys it may see, what is added, and its online softmax.
#pragma once

#include "pack.h"
#include "regard/attention.h"

namespace regard::REGARD_KERNEL {
namespace {

using Problem = ProblemOf<Real>;
using Seen = SeenOf<Real>;
using Attended = AttendedOf<Real>;

constexpr Real kLargest = sizeof(Real) == 8 ? __DBL_MAX__ : __FLT_MAX__;
constexpr Real kLn2 = static_cast<Real>(0.693147180559945309417);

// Where row n of head h of sequence b begins.
template <typename Tensor>
inline Index place_of(const Tensor& tensor, Index b, Index h, Index n) {
    return b * tensor.strides[0] + h * tensor.strides[1] + n * tensor.strides[2];
}
template <typename Number>
inline const Number* row_of(const Cells<Number>& cells, Index b, Index h, Index n) {
    return cells.data + place_of(cells, b, h, n);
}
inline const void* row_of(const Rows& rows, Index b, Index h, Index n) {
    return static_cast<const char*>(rows.data) + place_of(rows, b, h, n) * bytes_of(rows.type);
}
inline void* row_of(const RowsOut& rows, Index b, Index h, Index n) {
    return static_cast<char*>(rows.data) + place_of(rows, b, h, n) * bytes_of(rows.type);
}

// A row of `count` numbers as floats: where it lies, or else in `room`.
inline const Real* reals_of(const Rows& rows, Index b, Index h, Index n, Index count, Real* room) {
    const void* row = row_of(rows, b, h, n);
    if (rows.type == kType) return static_cast<const Real*>(row);
    with_numbers(rows.type, row, [&](const auto* from) { write_scaled(from, count, 1.0f, room); });
    return room;
}

// Row n of head h of sequence b = from · factor
inline void write_row(const Real* from, Index count, Real factor, const RowsOut& rows, Index b,
                      Index h, Index n) {
    with_numbers(rows.type, row_of(rows, b, h, n),
                 [&](auto* to) { write_scaled(from, count, factor, to); });
}

inline Real infinity() { return __builtin_inff(); }
inline Real not_a_number() { return __builtin_nanf(""); }  // whose payload is 0
inline bool is_nan(Real number) { return number != number; }

// Scores are made in base 2: what q is multiplied by, so that q·k is the score, or the argument of
// the softcap's tanh.
inline Real query_factor(const Problem& problem) {
    return problem.softcap > 0 ? problem.scale / problem.softcap : problem.scale * kLog2E;
}

inline bool has_extras(const Problem& problem) {
    return problem.mask.data || problem.chosen.data || problem.bias.data || problem.softcap > 0;
}

// Keys [first, last); none if first ≥ last.
struct Interval {
    Index first = 0, last = 0;

    bool empty() const { return first >= last; }
};

// First key, end and position.
inline const Index* segment_of(const Segments& segments, Index b, Index i) {
    return segments.data + b * segments.strides[0] + i * segments.strides[1];
}

// Where query i of sequence b stands.
inline Index position_of(const Problem& problem, Index b, Index i) {
    if (!problem.segments.data) return i + problem.position;
    constexpr Index kFurthest = Index{1} << 41;  // so that nothing overflows
    return larger(-kFurthest, smaller(segment_of(problem.segments, b, i)[2], kFurthest));
}

// The keys that query i of sequence b is allowed by position, segment and length.
inline Interval allowed_keys(const Problem& problem, Index b, Index i) {
    const Index p = position_of(problem, b, i);
    Interval keys{0, problem.keys};
    if (problem.segments.data) {
        const Index* segment = segment_of(problem.segments, b, i);
        keys = {larger(0, segment[0]), smaller(segment[1], problem.keys)};
    }
    if (problem.lengths) keys.last = smaller(keys.last, problem.lengths[b]);
    if (problem.causal) keys.last = smaller(keys.last, p + 1);
    // A bound that lies beyond the keys does nothing, and might not fit into an integer.
    if (problem.right >= 0 && problem.right < problem.keys - p) {
        keys.last = smaller(keys.last, p + problem.right + 1);
    }
    if (problem.left >= 0 && problem.left < p) keys.first = larger(keys.first, p - problem.left);
    if (keys.empty()) keys = {0, 0};
    return keys;
}

// The first of the keys chosen for a query that is not before `key`, and where they end.
struct ChosenKeys {
    const Index *at, *end;

    ChosenKeys(const KeyLists& chosen, Index b, Index h, Index i, Index key)
        : at(chosen.data + place_of(chosen, b, h, i)), end(at + chosen.count) {
        at += first_from(at, chosen.count, key);
    }

    // Whether this key is among them; asked for in ascending order.
    bool has(Index key) {
        while (at < end && *at < key) ++at;
        return at < end && *at == key;
    }
};

// Whether one of these keys is also allowed by choice, mask and bias.
inline bool allowed_by_mask(const Problem& problem, Index b, Index h, Index i, Index j) {
    const auto& mask = problem.mask;
    const auto& bias = problem.bias;
    if (mask.data && !row_of(mask, b, h, i)[j * mask.strides[3]]) return false;
    if (problem.chosen.data && !ChosenKeys(problem.chosen, b, h, i, j).has(j)) return false;
    return !bias.data || row_of(bias, b, h, i)[j * bias.strides[3]] != -infinity();
}

// A logit in base 2. The lowest and highest floats, which stand for masks in many programs, stay
// finite; only an infinity is one.
inline Real in_base_2(Real logit) {
    const Real product = logit * kLog2E;
    const Real bounded = product > kLargest ? kLargest : product < -kLargest ? -kLargest : product;
    return logit - logit == 0.0f ? bounded : product;
}

// Whether a query counts in map and received.
inline bool counts(const Seen& seen, Index b, Index query) {
    return !seen.counted ||
           seen.counted[b * seen.counted_strides[0] + query * seen.counted_strides[1]] != 0;
}

// What is added to the scores of keys [first, first + count), in base 2: −inf where masked.
inline void fill_extra(const Problem& problem, Index b, Index h, Index i, Index first, Index count,
                       Real* extra) {
    const auto& mask = problem.mask;
    const auto& bias = problem.bias;
    if (bias.data) {
        const Real* from = row_of(bias, b, h, i) + first * bias.strides[3];
        const Index stride = bias.strides[3];
        if (stride == 1) {
            for (Index n = 0; n < count; ++n) extra[n] = in_base_2(from[n]);
        } else {
            for (Index n = 0; n < count; ++n) extra[n] = in_base_2(from[n * stride]);
        }
    } else {
        for (Index n = 0; n < count; ++n) extra[n] = 0.0f;
    }
    if (mask.data) {
        const std::uint8_t* from = row_of(mask, b, h, i) + first * mask.strides[3];
        const Index stride = mask.strides[3];
        if (stride == 1) {
            for (Index n = 0; n < count; ++n) extra[n] = from[n] ? extra[n] : -infinity();
        } else {
            for (Index n = 0; n < count; ++n) extra[n] = from[n * stride] ? extra[n] : -infinity();
        }
    }
    if (problem.chosen.data) {
        ChosenKeys chosen(problem.chosen, b, h, i, first);
        for (Index n = 0; n < count; ++n) {
            if (!chosen.has(first + n)) extra[n] = -infinity();
        }
    }
}

// Softcap, bias and mask on `count` scores (a multiple of kLanes). What is masked becomes −inf
// whatever it was, and a NaN the one that exp2() keeps.
inline void apply_extra(const Problem& problem, const Real* extra, Index count, Real* scores) {
    const bool cap = problem.softcap > 0;
    const Vector highest = all(problem.softcap * kLog2E);
    for (Index n = 0; n < count; n += kLanes) {
        Vector score = load(scores + n);
        if (cap) score = tanh(score) * highest;
        const Vector added = load(extra + n);
        Vector total = score + added;
        total = larger(all(-kLargest), total);  // a NaN stays one
        total = total == total ? total : all(not_a_number());
        store(scores + n, added == all(-infinity()) ? all(-infinity()) : total);
    }
}

// −inf in the cells of [wide_first, wide_last), whole vectors, that lie outside of [first, last).
inline void shut_out(Real* cells, Index first, Index last, Index wide_first, Index wide_last) {
    const Vector none = all(-infinity());
    if (wide_first < first) {
        Real* from = cells + wide_first;
        store(from, all_but_last(wide_first + kLanes - first) ? none : load(from));
    }
    if (last < wide_last) {
        Real* from = cells + wide_last - kLanes;
        store(from, all_but_last(wide_last - last) ? load(from) : none);
    }
}

// 0 in cells [first, last), and in the rest of the vectors that they lie in.
inline void clear_cells(Real* cells, Index first, Index last) {
    for (Index n = first / kLanes * kLanes; n < last; n += kLanes) store(cells + n, Vector{});
}

// The maximum of each lane, of every fourth vector: vector n counts in vectors[n % 4].
struct LaneMaxima {
    Vector vectors[4];

    Vector lanes() const {
        return larger(larger(vectors[0], vectors[1]), larger(vectors[2], vectors[3]));
    }
};

// Over `count` scores, a multiple of kLanes.
inline LaneMaxima lane_maxima(const Real* scores, Index count) {
    Vector a = all(-infinity()), b = a, c = a, d = a;
    Index n = 0;
    for (; n + 4 * kLanes <= count; n += 4 * kLanes) {
        a = larger(a, load(scores + n));
        b = larger(b, load(scores + n + kLanes));
        c = larger(c, load(scores + n + 2 * kLanes));
        d = larger(d, load(scores + n + 3 * kLanes));
    }
    if (n < count) a = larger(a, load(scores + n));
    if (n + kLanes < count) b = larger(b, load(scores + n + kLanes));
    if (n + 2 * kLanes < count) c = larger(c, load(scores + n + 2 * kLanes));
    return {{a, b, c, d}};
}

// Scores become 2^(score − reference), in place. Returns their sum, and in `moment` the sum of
// 2^t · t with t = score − reference, which the entropy needs.
template <bool kMoment>
inline Real exponentials(Real* scores, Index count, Real reference, Real& moment) {
    const Vector subtract = all(reference);
    Vector a{}, b{};  // two chains: with the constants of exp2() more would not fit the registers
    Vector moments{};
    const auto step = [&](Index n, Vector& total) {
        const Vector t = load(scores + n) - subtract;
        const Vector power = exp2(t);
        store(scores + n, power);
        total += power;
        if (kMoment) moments = multiply_add(power, larger(all(kLeast), t), moments);
    };
    Index n = 0;
    for (; n + 4 * kLanes <= count; n += 4 * kLanes) {
        step(n, a);
        step(n + kLanes, b);
        step(n + 2 * kLanes, a);
        step(n + 3 * kLanes, b);
    }
    for (; n < count; n += kLanes) step(n, a);
    if (kMoment) moment = sum(moments);
    return sum(a + b);
}

// Σ weight · |p − j| over `count` weights (a multiple of kLanes) of the keys from `first` on.
inline Real weighted_distance(const Real* weights, Index count, Index first, Index p) {
    Vector away;
    for (int lane = 0; lane < kLanes; ++lane) away[lane] = static_cast<Real>(first + lane - p);
    Vector total{};
    for (Index n = 0; n < count; n += kLanes, away += all(static_cast<Real>(kLanes))) {
        total = multiply_add(load(weights + n), larger(away, -away), total);
    }
    return sum(total);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
