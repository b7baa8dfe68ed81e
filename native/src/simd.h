// The vectors that the kernel is written in: with its sections, all that knows the instruction set.
//
// A kernel is built once for each instruction set from the same source; REGARD_KERNEL names the
// build and its namespace. Everything but its table of entry points has internal linkage, and no
// inline function of the standard library is used in it: the linker keeps one copy of those, which
// might be one that this processor cannot run.
//
// An instruction set has a section, simd_….h, with the functions that simd_portable.h has, and the
// shape of its register tiles below. All else is written for any kLanes that is a power of two, 4
// or more, and for numbers of either width: REGARD_DOUBLE makes it a kernel for float64.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "regard/type.h"

// Before a loop: so many of its rounds at a time, all if there are no more.
#define REGARD_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define REGARD_UNROLL(rounds) REGARD_PRAGMA(unroll rounds)
#else
#define REGARD_UNROLL(rounds) REGARD_PRAGMA(GCC unroll rounds)
#endif

namespace regard::REGARD_KERNEL {
namespace {

using Index = std::int64_t;

// What is computed in, and integers as wide.
#if defined(REGARD_DOUBLE)
using Real = double;
using Whole = std::int64_t;
#else
using Real = float;
using Whole = std::int32_t;
#endif
constexpr Type kType = sizeof(Real) == 8 ? Type::float64 : Type::float32;

// kStrip rows by kPanel columns are a register tile: their sums, one vector of columns and one
// broadcast number have to fit the registers.
#if defined(__AVX512F__) && defined(REGARD_DOUBLE)
constexpr int kLanes = 8, kStrip = 12, kPanel = 16;
#elif defined(__AVX512F__)
constexpr int kLanes = 16, kStrip = 12, kPanel = 32;
#elif defined(__AVX2__) && defined(REGARD_DOUBLE)
constexpr int kLanes = 4, kStrip = 6, kPanel = 8;
#elif defined(__AVX2__)
constexpr int kLanes = 8, kStrip = 6, kPanel = 16;
#elif defined(REGARD_DOUBLE)
constexpr int kLanes = 4, kStrip = 2, kPanel = 8;
#elif defined(REGARD_NEON)
constexpr int kLanes = 4, kStrip = 6, kPanel = 16;
#elif defined(REGARD_LANES)
constexpr int kLanes = REGARD_LANES, kStrip = 2, kPanel = kLanes < 8 ? 16 : 2 * kLanes;
#else
constexpr int kLanes = 4, kStrip = 2, kPanel = 16;
#endif

constexpr int kPanelVectors = kPanel / kLanes;
// Vectors whose sums are made together.
constexpr int kGroup = kLanes < 8 ? 8 : kLanes;

// kCount numbers as one vector; the compiler makes it of as many registers as it takes.
template <typename Number, int kCount>
struct VectorOf {
    typedef Number Type __attribute__((vector_size(sizeof(Number) * kCount)));
};
using Vector = VectorOf<Real, kLanes>::Type;
using Integers = VectorOf<Whole, kLanes>::Type;
using Naturals = VectorOf<std::uint32_t, kLanes>::Type;

// As many numbers of a type as fill a vector.
template <typename Number>
constexpr int kLanesOf = sizeof(Vector) / sizeof(Number);

template <typename Number>
inline auto load(const Number* from) {
    typename VectorOf<Number, kLanesOf<Number>>::Type vector;
    __builtin_memcpy(&vector, from, sizeof vector);
    return vector;
}

template <typename Number, typename Wide>
inline void store(Number* to, Wide vector) {
    __builtin_memcpy(to, &vector, sizeof vector);
}

// The same number in every lane.
inline Vector all(Real number) { return number - Vector{}; }
inline Integers all(Whole number) { return number - Integers{}; }
inline Naturals all(std::uint32_t number) { return number - Naturals{}; }

#if !defined(REGARD_DOUBLE)
// Of float64 there are products alone.
using Doubles = VectorOf<double, kLanes / 2>::Type;
inline Doubles all(double number) { return number - Doubles{}; }

// Numbers of two bytes: they are read and written, never computed with.
using Shorts = VectorOf<std::uint16_t, kLanes>::Type;
struct BFloat16 {
    std::uint16_t bits;
};
struct Float16 {
    std::uint16_t bits;
};
#endif

// Lane n of the result is lane kFrom(n) of a with b behind it. The lanes are as wide as a Real.
template <int (*kFrom)(int), typename Wide, int... kLane>
inline Wide shuffle_lanes(Wide a, Wide b, std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(a, b, kFrom(kLane)...);
}
template <int (*kFrom)(int), typename Wide>
inline Wide shuffle(Wide a, Wide b) {
    return shuffle_lanes<kFrom>(a, b,
                                std::make_integer_sequence<int, sizeof(Wide) / sizeof(Real)>());
}

// Every lane in the place of the one that is kBy, a power of two, further or before.
template <int kBy>
constexpr int swapped_lane(int lane) {
    return lane ^ kBy;
}
template <int kBy, typename Wide>
inline Wide swap_lanes(Wide vector) {
    return shuffle<swapped_lane<kBy>>(vector, vector);
}

// Every lane kBy places later; what moves in are the last lanes of `above`.
template <int kBy, int kCount>
constexpr int earlier_lane(int lane) {
    return kCount + lane - kBy;
}
template <int kBy, typename Wide>
inline Wide shift_lanes(Wide above, Wide vector) {
    return shuffle<earlier_lane<kBy, sizeof(Wide) / sizeof(Real)>>(above, vector);
}

inline Index larger(Index a, Index b) { return a > b ? a : b; }
inline Index smaller(Index a, Index b) { return a < b ? a : b; }
inline Real larger(Real a, Real b) { return a > b ? a : b; }
inline Real smaller(Real a, Real b) { return a < b ? a : b; }

// One bit a lane.
using Pattern = std::conditional_t<kLanes <= 8, std::uint8_t, std::uint16_t>;

// All lanes but the last `count`, as a comparison that held there.
struct FirstLanes {
    alignas(64) Whole lanes[2 * kLanes];
    constexpr FirstLanes() : lanes() {
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = -1;
    }
};
constexpr FirstLanes kFirstLanes;
inline Integers all_but_last(Index count) { return load(kFirstLanes.lanes + count); }

}  // namespace
}  // namespace regard::REGARD_KERNEL

#if defined(__AVX512F__) && defined(REGARD_DOUBLE)
#include "simd_avx512_double.h"
#elif defined(__AVX512F__)
#include "simd_avx512.h"
#elif defined(__AVX2__) && defined(REGARD_DOUBLE)
#include "simd_avx2_double.h"
#elif defined(__AVX2__)
#include "simd_avx2.h"
#elif defined(REGARD_NEON) && !defined(REGARD_DOUBLE)
#include "simd_neon.h"
#else
#include "simd_portable.h"
#endif

namespace regard::REGARD_KERNEL {
namespace {

constexpr Real kLog2E = static_cast<Real>(1.442695040888963407360);

#if defined(REGARD_DOUBLE)
constexpr Real kLeast = -1023;              // 2^x is 0 from there on down
constexpr Real kRounds = 0x1.8p52;          // the low bits of a sum with it are an integer
constexpr Whole kOne = 0x3ff0000000000000;  // the bits of 1
constexpr int kExponent = 52;               // where its exponent begins
inline double logarithm(double x) { return __builtin_log(x); }

// (2^x − 1) / x on [−½, ½]: for 2^x a relative error below 3e-17, before rounding.
inline Vector power_less_one(Vector x) {
    constexpr double kCoefficients[] = {
        0x1.c4a29324a1038p-36, 0x1.e9ec1fcb69a7fp-32, 0x1.e4cf10dec0f59p-28, 0x1.b524ebd13a55fp-24,
        0x1.62c02242b879cp-20, 0x1.ffcbfc6da6ed1p-17, 0x1.430912f86b7dbp-13, 0x1.5d87fe78a3f9cp-10,
        0x1.3b2ab6fba4e79p-7,  0x1.c6b08d704a0c6p-5,  0x1.ebfbdff82c58fp-3,  0x1.62e42fefa39efp-1};
    Vector sum = all(kCoefficients[0]);
    REGARD_UNROLL(16)
    for (int n = 1; n < 12; ++n) sum = multiply_add(sum, x, all(kCoefficients[n]));
    return sum;
}
inline Vector power_of_two(Vector x) { return multiply_add(power_less_one(x), x, all(1.0)); }
constexpr Real kFlat = 20;  // from where on tanh is 1
#else
constexpr Real kLeast = -127;
constexpr Real kRounds = 0x1.8p23f;
constexpr Whole kOne = 0x3f800000;
constexpr int kExponent = 23;
inline float logarithm(float x) { return __builtin_logf(x); }

// The same: a relative error below 2e-8.
inline Vector power_less_one(Vector x) {
    Vector sum = all(0x1.4308fap-13f);
    sum = multiply_add(sum, x, all(0x1.5f07b4p-10f));
    sum = multiply_add(sum, x, all(0x1.3b2ba0p-7f));
    sum = multiply_add(sum, x, all(0x1.c6af6ep-5f));
    sum = multiply_add(sum, x, all(0x1.ebfbdep-3f));
    return multiply_add(sum, x, all(0x1.62e430p-1f));
}

// 2^x on [−½, ½], minimax with the constant fixed at 1: relative error below 1e-7.
inline Vector power_of_two(Vector x) {
    Vector power = all(0x1.5bba14p-10f);
    power = multiply_add(power, x, all(0x1.3cea88p-7f));
    power = multiply_add(power, x, all(0x1.c6b752p-5f));
    power = multiply_add(power, x, all(0x1.ebf9bcp-3f));
    power = multiply_add(power, x, all(0x1.62e42ap-1f));
    return multiply_add(power, x, all(1.0f));
}
constexpr Real kFlat = 10;
#endif

// 2^x for x ≤ −kLeast; exactly 1 at 0, exactly 0 at kLeast and below. NaN stays NaN if its payload
// is 0.
inline Vector exp2(Vector x) {
    x = larger(all(kLeast), x);
    const Vector shifted = x + all(kRounds);  // its low bits are x, rounded to an integer
    const Vector power = power_of_two(x - (shifted - all(kRounds)));
    return reinterpret_cast<Vector>(reinterpret_cast<Integers>(power) +
                                    (reinterpret_cast<Integers>(shifted) << kExponent));
}

inline Real exp2(Real x) { return exp2(all(x))[0]; }

// tanh x = e / (e + 2) with e = exp(2x) − 1, which keeps its digits near 0.
inline Vector tanh(Vector x) {
    x = smaller(all(kFlat), larger(all(-kFlat), x));
    x = x * all(2 * kLog2E);
    const Vector shifted = x + all(kRounds);
    const Vector rest = x - (shifted - all(kRounds));
    const Vector power = power_less_one(rest) * rest;  // 2^rest − 1
    const Vector whole =
        reinterpret_cast<Vector>((reinterpret_cast<Integers>(shifted) << kExponent) + all(kOne));
    const Vector e = multiply_add(power, whole, whole - all(Real{1}));
    return e / (e + all(Real{2}));
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
