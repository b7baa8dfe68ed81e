// The functions that differ from one instruction set to another, in GNU vectors of any width: with
// simd_shuffles.h, what each of them does.
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

}  // namespace
}  // namespace regard::REGARD_KERNEL

#include "simd_shuffles.h"
