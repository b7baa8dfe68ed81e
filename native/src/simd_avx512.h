// What simd_portable.h says, by the instructions of AVX-512 (F, BW, DQ and VL). It is built, and
// the tests run it on a processor that has them; none of ours had. So it serves on request alone.
#pragma once

#include <immintrin.h>

namespace regard::REGARD_KERNEL {
namespace {

inline Vector load_first(const float* from, Index count) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
}

inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }

template <typename Number>
inline Naturals load_wide(const Number* from) {
    return reinterpret_cast<Naturals>(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}

inline Shorts narrow(Naturals numbers) {
    return reinterpret_cast<Shorts>(_mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(numbers)));
}

inline Vector floats_of_halves(const Float16* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

inline void store_halves(Float16* to, Vector vector) {
    store(to, _mm512_cvtps_ph(vector, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

inline Vector held(Vector vector) {
    asm("" : "+v"(vector));
    return vector;
}

inline Vector larger(Vector a, Vector b) { return _mm512_max_ps(a, b); }
inline Vector smaller(Vector a, Vector b) { return _mm512_min_ps(a, b); }

inline unsigned bits(Integers comparison) {
    return _mm512_movepi32_mask(reinterpret_cast<__m512i>(comparison));
}

}  // namespace
}  // namespace regard::REGARD_KERNEL

#include "simd_shuffles.h"
