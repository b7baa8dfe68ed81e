// What simd_portable.h says, by the instructions of AVX2 and FMA.
#pragma once

#if !defined(__FMA__) || !defined(__F16C__)
#error "the AVX2 build needs -mfma and -mf16c, too"
#endif
#include <immintrin.h>

namespace regard::REGARD_KERNEL {
namespace {

inline Vector load_first(const float* from, Index count) {
    const Integers wanted = Integers{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<std::int32_t>(count);
    return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(wanted));
}

inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }

template <typename Number>
inline Naturals load_wide(const Number* from) {
    return reinterpret_cast<Naturals>(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

inline Shorts narrow(Naturals numbers) {
    const __m256i wide = reinterpret_cast<__m256i>(numbers);
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    return reinterpret_cast<Shorts>(_mm256_castsi256_si128(halves));
}

inline Vector floats_of_halves(const Float16* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

inline void store_halves(Float16* to, Vector vector) {
    store(to, _mm256_cvtps_ph(vector, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

inline Vector held(Vector vector) {
    asm("" : "+x"(vector));
    return vector;
}

inline Vector larger(Vector a, Vector b) { return _mm256_max_ps(a, b); }
inline Vector smaller(Vector a, Vector b) { return _mm256_min_ps(a, b); }

inline unsigned bits(Integers comparison) {
    return static_cast<unsigned>(_mm256_movemask_ps(reinterpret_cast<__m256>(comparison)));
}

inline unsigned bits_of_four(Integers a, Integers b, Integers c, Integers d, Pattern* to) {
    const auto whole = [](Integers lanes) { return reinterpret_cast<__m256i>(lanes); };
    const __m256i low = _mm256_packs_epi32(whole(a), whole(b));
    const __m256i high = _mm256_packs_epi32(whole(c), whole(d));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const auto four = static_cast<unsigned>(_mm256_movemask_epi8(bytes));
    __builtin_memcpy(to, &four, sizeof four);
    const __m256i none = _mm256_cmpeq_epi64(bytes, _mm256_setzero_si256());
    return ~static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(none))) & 15u;
}

inline float sum(Vector vector) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps(vector, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

inline float maximum(Vector vector) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps(vector, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

inline void sum_each(const Vector* vectors, float* to) {
    const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(vectors[0], vectors[1]),
                                    _mm256_hadd_ps(vectors[2], vectors[3]));
    const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(vectors[4], vectors[5]),
                                    _mm256_hadd_ps(vectors[6], vectors[7]));
    store(to, _mm256_permute2f128_ps(a, b, 0x20) + _mm256_permute2f128_ps(a, b, 0x31));
}

inline Vector sums_of_pairs(const float* from) {
    const __m256 pairs = _mm256_hadd_ps(load(from), load(from + 8));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), 0xd8));
}

inline Vector sums_of_fours(const float* from) {
    const __m256 fours = _mm256_hadd_ps(_mm256_hadd_ps(load(from), load(from + 8)),
                                        _mm256_hadd_ps(load(from + 16), load(from + 24)));
    return _mm256_permutevar8x32_ps(fours, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

[[gnu::always_inline]] inline void transpose(const float* from, Index stride, float* to,
                                             Index to_stride) {
    __m256 r[8], s[8];
    // Two rows a register, four apart, so that one shuffle less is needed.
    for (int n = 0; n < 4; ++n) {
        r[n] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from + n * stride)),
                                    _mm_loadu_ps(from + (n + 4) * stride), 1);
        r[n + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from + n * stride + 4)),
                                        _mm_loadu_ps(from + (n + 4) * stride + 4), 1);
    }
    for (int n = 0; n < 8; n += 4) {
        const __m256 a = _mm256_unpacklo_ps(r[n], r[n + 1]);
        const __m256 b = _mm256_unpackhi_ps(r[n], r[n + 1]);
        const __m256 c = _mm256_unpacklo_ps(r[n + 2], r[n + 3]);
        const __m256 e = _mm256_unpackhi_ps(r[n + 2], r[n + 3]);
        s[n] = _mm256_shuffle_ps(a, c, 0x44);
        s[n + 1] = _mm256_shuffle_ps(a, c, 0xee);
        s[n + 2] = _mm256_shuffle_ps(b, e, 0x44);
        s[n + 3] = _mm256_shuffle_ps(b, e, 0xee);
    }
    for (int n = 0; n < 8; ++n) store(to + n * to_stride, Vector(s[n]));
}

// For every pattern, the lanes whose bit is set, in order.
struct Chosen {
    alignas(64) std::int32_t lanes[256][8];
    constexpr Chosen() : lanes() {
        for (int pattern = 0; pattern < 256; ++pattern) {
            int count = 0;
            for (int lane = 0; lane < 8; ++lane) {
                if (pattern >> lane & 1) lanes[pattern][count++] = lane;
            }
        }
    }
};
constexpr Chosen kChosen;

inline Index compress(const float* from, std::int32_t first, unsigned pattern, float* numbers,
                      std::int32_t* places) {
    const Integers order = load(kChosen.lanes[pattern]);
    store(numbers, Vector(_mm256_permutevar8x32_ps(load(from), reinterpret_cast<__m256i>(order))));
    store(places, order + first);
    return __builtin_popcount(pattern);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
