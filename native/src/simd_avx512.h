// What simd_portable.h and simd_shuffles.h say, by the instructions of AVX-512 (F, BW, DQ and VL).
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

inline unsigned bits_of_four(Integers a, Integers b, Integers c, Integers d, Pattern* to) {
    const Integers four[] = {a, b, c, d};
    unsigned some = 0;
    REGARD_UNROLL(4)
    for (int n = 0; n < 4; ++n) {
        to[n] = static_cast<Pattern>(bits(four[n]));
        some |= static_cast<unsigned>(to[n] != 0) << n;
    }
    return some;
}

inline float sum(Vector vector) {
    const __m256 eight = _mm512_castps512_ps256(vector) + _mm512_extractf32x8_ps(vector, 1);
    __m128 half = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    half = half + _mm_movehl_ps(half, half);
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

inline float maximum(Vector vector) {
    const __m256 eight =
        _mm256_max_ps(_mm512_castps512_ps256(vector), _mm512_extractf32x8_ps(vector, 1));
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

// Two vectors become one of half the partial sums of each: first those of neighbouring lanes within
// 128 bits, then those of whole 128 bits.
inline void sum_each(const Vector* vectors, float* to) {
    __m512 sums[kGroup];
    REGARD_UNROLL(16)
    for (int n = 0; n < 16; n += 2) {
        const __m512 a = vectors[n], b = vectors[n + 1];
        sums[n / 2] = _mm512_unpacklo_ps(a, b) + _mm512_unpackhi_ps(a, b);
    }
    REGARD_UNROLL(16)
    for (int n = 0; n < 8; n += 2) {
        const __m512d a = _mm512_castps_pd(sums[n]), b = _mm512_castps_pd(sums[n + 1]);
        sums[n / 2] =
            _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)) + _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
    const auto add_quarters = [](__m512 a, __m512 b) {
        return _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
    };
    store(to, add_quarters(add_quarters(sums[0], sums[1]), add_quarters(sums[2], sums[3])));
}

constexpr int even_lane(int lane) { return 2 * lane; }
constexpr int odd_lane(int lane) { return 2 * lane + 1; }
inline Vector add_pairs(Vector a, Vector b) {
    return shuffle<even_lane>(a, b) + shuffle<odd_lane>(a, b);
}

inline Vector sums_of_pairs(const float* from) {
    return add_pairs(load(from), load(from + kLanes));
}

inline Vector sums_of_fours(const float* from) {
    return add_pairs(sums_of_pairs(from), sums_of_pairs(from + 2 * kLanes));
}

// Four numbers of each of four rows, which lie four apart, in one vector: by loads alone.
inline __m512 four_rows(const float* from, Index stride) {
    const auto four = [&](int n) { return _mm_loadu_ps(from + 4 * n * stride); };
    __m512 rows = _mm512_castps128_ps512(four(0));
    rows = _mm512_mask_broadcast_f32x4(rows, 0x00f0, four(1));
    rows = _mm512_mask_broadcast_f32x4(rows, 0x0f00, four(2));
    return _mm512_mask_broadcast_f32x4(rows, 0xf000, four(3));
}

[[gnu::always_inline]] inline void transpose(const float* from, Index stride, float* to,
                                             Index to_stride) {
    REGARD_UNROLL(4)
    for (int d = 0; d < 16; d += 4) {
        const __m512 r0 = four_rows(from + d, stride), r1 = four_rows(from + stride + d, stride);
        const __m512 r2 = four_rows(from + 2 * stride + d, stride);
        const __m512 r3 = four_rows(from + 3 * stride + d, stride);
        // In every 128 bits a matrix of four by four is turned.
        const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
        const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
        const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
        const __m512d e = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
        store(to + d * to_stride, _mm512_castpd_ps(_mm512_unpacklo_pd(a, c)));
        store(to + (d + 1) * to_stride, _mm512_castpd_ps(_mm512_unpackhi_pd(a, c)));
        store(to + (d + 2) * to_stride, _mm512_castpd_ps(_mm512_unpacklo_pd(b, e)));
        store(to + (d + 3) * to_stride, _mm512_castpd_ps(_mm512_unpackhi_pd(b, e)));
    }
}

inline Index compress(const float* from, std::int32_t first, unsigned pattern, float* numbers,
                      std::int32_t* places) {
    const auto chosen = static_cast<__mmask16>(pattern);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    store(numbers, _mm512_maskz_compress_ps(chosen, load(from)));
    store(places,
          _mm512_maskz_compress_epi32(chosen, _mm512_add_epi32(lanes, _mm512_set1_epi32(first))));
    return __builtin_popcount(pattern);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
