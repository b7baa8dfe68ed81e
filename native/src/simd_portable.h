// The functions that differ from one instruction set to another, in GNU vectors of any width: what
// each of them does.
#pragma once

namespace regard::REGARD_KERNEL {
namespace {

// The first `count` numbers, fewer than kLanes, and 0 for the others, which are not read.
inline Vector load_first(const float* from, Index count) {
    Vector vector{};
    for (Index lane = 0; lane < count; ++lane) vector[lane] = from[lane];
    return vector;
}

// a·b + c: rounded once where the processor has that instruction.
inline Vector multiply_add(Vector a, Vector b, Vector c) { return a * b + c; }
inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return a * b + c; }

// kLanes numbers of two bytes, each as an integer of four, and back.
template <typename Number>
inline Naturals load_wide(const Number* from) {
    Shorts numbers;
    __builtin_memcpy(&numbers, from, sizeof numbers);
    return __builtin_convertvector(numbers, Naturals);
}
inline Shorts narrow(Naturals numbers) { return __builtin_convertvector(numbers, Shorts); }

// kLanes numbers of type float16.
inline Vector floats_of_halves(const Float16* from) {
    const Naturals half = load_wide(from), magnitude = half & all(0x7fffu);
    // Where it stands now its exponent counts from 127, not from 15.
    const Vector number = reinterpret_cast<Vector>(magnitude << 13) * all(0x1p112f);
    const Naturals special = magnitude > all(0x7bffu) ? all(0x7f800000u) : Naturals{};
    return reinterpret_cast<Vector>(reinterpret_cast<Naturals>(number) | special |
                                    (half & all(0x8000u)) << 16);
}

// Rounded to the nearest, to the even one of two.
inline void store_halves(Float16* to, Vector vector) {
    const Naturals given = reinterpret_cast<Naturals>(vector);
    const Naturals magnitude = given & all(0x7fffffffu);
    Naturals half = (magnitude - all(112u << 23) + all(0xfffu) + (magnitude >> 13 & all(1u))) >> 13;
    // Below 2⁻¹⁴ what is left is a multiple of 2⁻²⁴, as it is in a sum with ½.
    const Vector sum = reinterpret_cast<Vector>(magnitude) + all(0.5f);
    half = magnitude < all(113u << 23) ? reinterpret_cast<Naturals>(sum) - all(126u << 23) : half;
    half = magnitude > all(0x477fffffu) ? all(0x7c00u) : half;
    half = magnitude > all(0x7f800000u) ? all(0x7e00u) : half;
    store(to, narrow(half | (given >> 16 & all(0x8000u))));
}

// The same vector in a register: else what is used twice may be loaded twice.
inline Vector held(Vector vector) {
#if defined(REGARD_LANES)  // which need not fit a register
#elif defined(__x86_64__)
    asm("" : "+x"(vector));
#elif defined(__aarch64__)
    asm("" : "+w"(vector));
#endif
    return vector;
}

// The larger and the smaller of each pair; the second where either is NaN.
inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }
inline Vector smaller(Vector a, Vector b) { return a < b ? a : b; }

// One bit a lane, set where the comparison held.
inline unsigned bits(Integers comparison) {
    unsigned result = 0;
    for (int lane = 0; lane < kLanes; ++lane) result |= (comparison[lane] & 1u) << lane;
    return result;
}

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
inline float sum(Vector vector) {
    vector = vector + swap_lanes<kHalf>(vector);
    if constexpr (kHalf > 1) return sum<kHalf / 2>(vector);
    return vector[0];
}

template <int kHalf = kLanes / 2>
inline float maximum(Vector vector) {
    vector = larger(vector, swap_lanes<kHalf>(vector));
    if constexpr (kHalf > 1) return maximum<kHalf / 2>(vector);
    return vector[0];
}

// to[n] = sum of vectors[n], for kGroup of them.
inline void sum_each(const Vector* vectors, float* to) {
    for (int n = 0; n < kGroup; ++n) to[n] = sum(vectors[n]);
}

constexpr int even_lane(int lane) { return 2 * lane; }
constexpr int odd_lane(int lane) { return 2 * lane + 1; }
inline Vector add_pairs(Vector a, Vector b) {
    return shuffle<even_lane>(a, b) + shuffle<odd_lane>(a, b);
}

// The sums of two numbers each, and of four, from `from` on.
inline Vector sums_of_pairs(const float* from) {
    return add_pairs(load(from), load(from + kLanes));
}

inline Vector sums_of_fours(const float* from) {
    return add_pairs(sums_of_pairs(from), sums_of_pairs(from + 2 * kLanes));
}

constexpr int low_lane(int lane) { return lane / 2 + lane % 2 * kLanes; }
constexpr int high_lane(int lane) { return low_lane(lane) + kLanes / 2; }

// kLanes rows of kLanes numbers, turned: to[d][r] = from[r][d].
[[gnu::always_inline]] inline void transpose(const float* from, Index stride, float* to,
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
inline Index compress(const float* from, std::int32_t first, unsigned pattern, float* numbers,
                      std::int32_t* places) {
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
