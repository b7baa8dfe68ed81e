// The functions that put lanes in another order, in GNU vectors of any width.
#pragma once

namespace regard::REGARD_KERNEL {
namespace {

// The same of four comparisons, to[0 … 4). Returns one bit for each that held anywhere.
inline unsigned bits_of_four(Integers a, Integers b, Integers c, Integers d, Pattern* to) {
    const Integers four[] = {a, b, c, d};
    unsigned some = 0;
    for (int n = 0; n < 4; ++n) {
        to[n] = static_cast<Pattern>(bits(four[n]));
        some |= static_cast<unsigned>(to[n] != 0) << n;
    }
    return some;
}

// Each half with the other, until there is one lane.
template <int kHalf = kLanes / 2>
inline Real sum(Vector vector) {
    vector = vector + swap_lanes<kHalf>(vector);
    if constexpr (kHalf > 1) return sum<kHalf / 2>(vector);
    return vector[0];
}

template <int kHalf = kLanes / 2>
inline Real maximum(Vector vector) {
    vector = larger(vector, swap_lanes<kHalf>(vector));
    if constexpr (kHalf > 1) return maximum<kHalf / 2>(vector);
    return vector[0];
}

// to[n] = sum of vectors[n], for kGroup of them.
inline void sum_each(const Vector* vectors, Real* to) {
    for (int n = 0; n < kGroup; ++n) to[n] = sum(vectors[n]);
}

constexpr int even_lane(int lane) { return 2 * lane; }
constexpr int odd_lane(int lane) { return 2 * lane + 1; }
inline Vector add_pairs(Vector a, Vector b) {
    return shuffle<even_lane>(a, b) + shuffle<odd_lane>(a, b);
}

// The sums of two numbers each, and of four, from `from` on.
inline Vector sums_of_pairs(const Real* from) { return add_pairs(load(from), load(from + kLanes)); }

inline Vector sums_of_fours(const Real* from) {
    return add_pairs(sums_of_pairs(from), sums_of_pairs(from + 2 * kLanes));
}

constexpr int low_lane(int lane) { return lane / 2 + lane % 2 * kLanes; }
constexpr int high_lane(int lane) { return low_lane(lane) + kLanes / 2; }

// kLanes rows of kLanes numbers, turned: to[d][r] = from[r][d].
[[gnu::always_inline]] inline void transpose(const Real* from, Index stride, Real* to,
                                             Index to_stride) {
    Vector rows[kLanes], turned[kLanes];
    for (int n = 0; n < kLanes; ++n) rows[n] = load(from + n * stride);
    // The lanes of each row and of the one half of them further, by turns: once for every bit of a
    // row's number.
    for (int bit = 1; bit < kLanes; bit *= 2) {
        for (int n = 0; n < kLanes / 2; ++n) {
            turned[2 * n] = shuffle<low_lane>(rows[n], rows[n + kLanes / 2]);
            turned[2 * n + 1] = shuffle<high_lane>(rows[n], rows[n + kLanes / 2]);
        }
        for (int n = 0; n < kLanes; ++n) rows[n] = turned[n];
    }
    for (int n = 0; n < kLanes; ++n) store(to + n * to_stride, rows[n]);
}

// Those of kLanes numbers whose bit is set, one after the other, and where they are, counted from
// `first`. Returns how many; up to kLanes may be written.
inline Index compress(const Real* from, Whole first, unsigned pattern, Real* numbers,
                      Whole* places) {
    Index count = 0;
    for (; pattern; pattern &= pattern - 1, ++count) {
        const int lane = __builtin_ctz(pattern);
        numbers[count] = from[lane];
        places[count] = first + lane;
    }
    return count;
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
