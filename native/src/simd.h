// The vectors that the kernel is written in: with its sections, all that knows the instruction set.
//
// A kernel is built once for each instruction set from the same source; REGARD_KERNEL names the
// build and its namespace. Everything but its table of entry points has internal linkage, and no
// inline function of the standard library is used in it: the linker keeps one copy of those, which
// might be one that this processor cannot run.
//
// An instruction set has a section, simd_….h, with the functions that simd_portable.h has, and the
// shape of its register tiles below. All else is written for any kLanes that is a power of two, 4
// or more.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

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

// kStrip rows by kPanel columns are a register tile: their sums, one vector of columns and one
// broadcast number have to fit the registers.
#if defined(__AVX2__)
constexpr int kLanes = 8, kStrip = 6, kPanel = 16;
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
using Vector = VectorOf<float, kLanes>::Type;
using Integers = VectorOf<std::int32_t, kLanes>::Type;
using Naturals = VectorOf<std::uint32_t, kLanes>::Type;
using Doubles = VectorOf<double, kLanes / 2>::Type;
using Shorts = VectorOf<std::uint16_t, kLanes>::Type;

// Numbers of two bytes: they are read and written, never computed with.
struct BFloat16 {
    std::uint16_t bits;
};
struct Float16 {
    std::uint16_t bits;
};

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
inline Vector all(float number) { return number - Vector{}; }
inline Doubles all(double number) { return number - Doubles{}; }
inline Integers all(std::int32_t number) { return number - Integers{}; }
inline Naturals all(std::uint32_t number) { return number - Naturals{}; }

// Lane n of the result is lane kFrom(n) of a with b behind it. The lanes are of 4 bytes.
template <int (*kFrom)(int), typename Wide, int... kLane>
inline Wide shuffle_lanes(Wide a, Wide b, std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(a, b, kFrom(kLane)...);
}
template <int (*kFrom)(int), typename Wide>
inline Wide shuffle(Wide a, Wide b) {
    return shuffle_lanes<kFrom>(a, b, std::make_integer_sequence<int, sizeof(Wide) / 4>());
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
    return shuffle<earlier_lane<kBy, sizeof(Wide) / 4>>(above, vector);
}

inline Index larger(Index a, Index b) { return a > b ? a : b; }
inline Index smaller(Index a, Index b) { return a < b ? a : b; }
inline float larger(float a, float b) { return a > b ? a : b; }
inline float smaller(float a, float b) { return a < b ? a : b; }

// One bit a lane.
using Pattern = std::conditional_t<kLanes <= 8, std::uint8_t, std::uint16_t>;

// All lanes but the last `count`, as a comparison that held there.
struct FirstLanes {
    alignas(64) std::int32_t lanes[2 * kLanes];
    constexpr FirstLanes() : lanes() {
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = -1;
    }
};
constexpr FirstLanes kFirstLanes;
inline Integers all_but_last(Index count) { return load(kFirstLanes.lanes + count); }

}  // namespace
}  // namespace regard::REGARD_KERNEL

#if defined(__AVX2__)
#include "simd_avx2.h"
#elif defined(REGARD_NEON)
#include "simd_neon.h"
#else
#include "simd_portable.h"
#endif

namespace regard::REGARD_KERNEL {
namespace {

// 2^x for x ≤ 128; exactly 1 at 0, exactly 0 at −127 and below. NaN stays NaN if its payload is 0.
inline Vector exp2(Vector x) {
    x = larger(all(-127.0f), x);
    const Vector shifted = x + all(0x1.8p23f);  // its low bits are x, rounded to an integer
    const Vector rest = x - (shifted - all(0x1.8p23f));
    // Minimax on [−½, ½] with the constant fixed at 1: relative error below 1e-7.
    Vector power = all(0x1.5bba14p-10f);
    power = multiply_add(power, rest, all(0x1.3cea88p-7f));
    power = multiply_add(power, rest, all(0x1.c6b752p-5f));
    power = multiply_add(power, rest, all(0x1.ebf9bcp-3f));
    power = multiply_add(power, rest, all(0x1.62e42ap-1f));
    power = multiply_add(power, rest, all(1.0f));
    return reinterpret_cast<Vector>(reinterpret_cast<Integers>(power) +
                                    (reinterpret_cast<Integers>(shifted) << 23));
}

inline float exp2(float x) { return exp2(all(x))[0]; }

// tanh x = e / (e + 2) with e = exp(2x) − 1, which keeps its digits near 0.
inline Vector tanh(Vector x) {
    x = smaller(all(10.0f), larger(all(-10.0f), x));
    x = x * all(0x1.715476p+1f);  // 2·log2(e)
    const Vector shifted = x + all(0x1.8p23f);
    const Vector rest = x - (shifted - all(0x1.8p23f));
    // Minimax for 2^rest − 1 on [−½, ½]: relative error below 2e-8, before rounding.
    Vector power = all(0x1.4308fap-13f);
    power = multiply_add(power, rest, all(0x1.5f07b4p-10f));
    power = multiply_add(power, rest, all(0x1.3b2ba0p-7f));
    power = multiply_add(power, rest, all(0x1.c6af6ep-5f));
    power = multiply_add(power, rest, all(0x1.ebfbdep-3f));
    power = multiply_add(power, rest, all(0x1.62e430p-1f));
    power = power * rest;  // 2^rest − 1
    const Vector whole = reinterpret_cast<Vector>((reinterpret_cast<Integers>(shifted) << 23) +
                                                  all(std::int32_t{0x3f800000}));
    const Vector e = multiply_add(power, whole, whole - all(1.0f));
    return e / (e + all(2.0f));
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
