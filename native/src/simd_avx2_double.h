// What simd_portable.h says, for float64, by the instructions of AVX2 and FMA.
#pragma once

#include <immintrin.h>

namespace regard::REGARD_KERNEL {
namespace {

inline Vector load_first(const double* from, Index count) {
    return _mm256_maskload_pd(from,
                              reinterpret_cast<__m256i>(Integers{0, 1, 2, 3} < all(Whole{count})));
}

inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }

inline Vector held(Vector vector) {
    asm("" : "+x"(vector));
    return vector;
}

inline Vector larger(Vector a, Vector b) { return _mm256_max_pd(a, b); }
inline Vector smaller(Vector a, Vector b) { return _mm256_min_pd(a, b); }

inline unsigned bits(Integers comparison) {
    return static_cast<unsigned>(_mm256_movemask_pd(reinterpret_cast<__m256d>(comparison)));
}

}  // namespace
}  // namespace regard::REGARD_KERNEL

#include "simd_shuffles.h"
