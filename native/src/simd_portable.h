// The functions that differ from one instruction set to another, in GNU vectors of any width: with
// simd_shuffles.h, what each of them does.
#pragma once

namespace regard::REGARD_KERNEL {
namespace {

// The first `count` numbers, fewer than kLanes, and 0 for the others, which are not read.
inline Vector load_first(const Real* from, Index count) {
    Vector vector{};
    for (Index lane = 0; lane < count; ++lane) vector[lane] = from[lane];
    return vector;
}

// a·b + c: rounded once where the processor has that instruction.
inline Vector multiply_add(Vector a, Vector b, Vector c) { return a * b + c; }

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

#if !defined(REGARD_DOUBLE)
#include "simd_halves.h"
#endif
#include "simd_shuffles.h"
