// What simd_portable.h says, for float64, by the instructions of AVX-512 (F, BW, DQ and VL).
#pragma once

#include <immintrin.h>

namespace regard::REGARD_KERNEL {
namespace {

inline Vector load_first(const double* from, Index count) {
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), from);
}

inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_pd(a, b, c); }

inline Vector held(Vector vector) {
    asm("" : "+v"(vector));
    return vector;
}

inline Vector larger(Vector a, Vector b) { return _mm512_max_pd(a, b); }
inline Vector smaller(Vector a, Vector b) { return _mm512_min_pd(a, b); }

inline unsigned bits(Integers comparison) {
    return _mm512_movepi64_mask(reinterpret_cast<__m512i>(comparison));
}

}  // namespace
}  // namespace regard::REGARD_KERNEL

#include "simd_shuffles.h"
