// The vectors that the kernel is written in: the only file that knows the instruction set.
//
// A kernel is built once for each instruction set from the same source; REGARD_KERNEL names the
// build and its namespace. Everything but its table of entry points has internal linkage, and no
// inline function of the standard library is used in it: the linker keeps one copy of those, which
// might be one that this processor cannot run.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#if !defined(__FMA__)
#error "the AVX2 build needs -mfma, too"
#endif
#include <immintrin.h>
#endif

namespace regard::REGARD_KERNEL {
namespace {

using Index = std::int64_t;

#if defined(__AVX2__)
constexpr int kLanes = 8;
constexpr int kStrip =
    6;  // rows of a register tile: 6 × 2 sums, 2 columns, 1 broadcast of 16 registers
#else
constexpr int kLanes = 4;
constexpr int kStrip = 2;
#endif

constexpr int kPanel = 16;  // columns of a register tile
constexpr int kPanelVectors = kPanel / kLanes;

using Vector = float __attribute__((vector_size(4 * kLanes)));
using Integers = std::int32_t __attribute__((vector_size(4 * kLanes)));
using Naturals = std::uint32_t __attribute__((vector_size(4 * kLanes)));

// The vectors of a type of number, in as many bytes.
template <typename Number>
struct Vectors;
template <>
struct Vectors<float> {
    using Vector = regard::REGARD_KERNEL::Vector;
    static constexpr int kLanes = regard::REGARD_KERNEL::kLanes;
};
template <>
struct Vectors<double> {
    using Vector = double __attribute__((vector_size(4 * regard::REGARD_KERNEL::kLanes)));
    static constexpr int kLanes = regard::REGARD_KERNEL::kLanes / 2;
};
using Doubles = Vectors<double>::Vector;

inline Vector load(const float* from) {
    Vector vector;
    __builtin_memcpy(&vector, from, sizeof vector);
    return vector;
}

inline Doubles load(const double* from) {
    Doubles vector;
    __builtin_memcpy(&vector, from, sizeof vector);
    return vector;
}

// The first `count` numbers, fewer than kLanes, and 0 for the others, which are not read.
inline Vector load_first(const float* from, Index count) {
#if defined(__AVX2__)
    const Integers wanted = Integers{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<std::int32_t>(count);
    return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(wanted));
#else
    Vector vector{};
    for (Index lane = 0; lane < count; ++lane) vector[lane] = from[lane];
    return vector;
#endif
}

inline void store(float* to, Vector vector) { __builtin_memcpy(to, &vector, sizeof vector); }
inline void store(double* to, Doubles vector) { __builtin_memcpy(to, &vector, sizeof vector); }

inline Vector all(float number) {
#if defined(__AVX2__)
    return _mm256_set1_ps(number);
#else
    return Vector{number, number, number, number};
#endif
}

inline Doubles all(double number) {
#if defined(__AVX2__)
    return _mm256_set1_pd(number);
#else
    return Doubles{number, number};
#endif
}

inline Integers all(std::int32_t number) { return number - Integers{}; }
inline Naturals all(std::uint32_t number) { return number - Naturals{}; }

// a·b + c: rounded once where the processor has that instruction.
inline Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
#if defined(__AVX2__)
    return _mm256_fmadd_pd(a, b, c);
#else
    return a * b + c;
#endif
}

// The same, in a register: else what is used twice may be loaded twice.
inline Vector held(Vector vector) {
#if defined(__x86_64__)
    asm("" : "+x"(vector));
#elif defined(__aarch64__)
    asm("" : "+w"(vector));
#endif
    return vector;
}

// The larger and the smaller of each pair; the second where either is NaN.
inline Vector larger(Vector a, Vector b) {
#if defined(__AVX2__)
    return _mm256_max_ps(a, b);
#else
    return a > b ? a : b;
#endif
}

inline Vector smaller(Vector a, Vector b) {
#if defined(__AVX2__)
    return _mm256_min_ps(a, b);
#else
    return a < b ? a : b;
#endif
}

inline Index larger(Index a, Index b) { return a > b ? a : b; }
inline Index smaller(Index a, Index b) { return a < b ? a : b; }
inline float larger(float a, float b) { return a > b ? a : b; }

// One bit a lane, set where the comparison held.
inline unsigned bits(Integers comparison) {
#if defined(__AVX2__)
    return static_cast<unsigned>(_mm256_movemask_ps(reinterpret_cast<__m256>(comparison)));
#else
    unsigned result = 0;
    for (int lane = 0; lane < kLanes; ++lane) result |= (comparison[lane] & 1u) << lane;
    return result;
#endif
}

inline float sum(Vector vector) {
#if defined(__AVX2__)
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps(vector, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
    return (vector[0] + vector[2]) + (vector[1] + vector[3]);
#endif
}

// to[n] = sum of vectors[n].
inline void sum_each(const Vector vectors[8], float* to) {
#if defined(__AVX2__)
    const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(vectors[0], vectors[1]),
                                    _mm256_hadd_ps(vectors[2], vectors[3]));
    const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(vectors[4], vectors[5]),
                                    _mm256_hadd_ps(vectors[6], vectors[7]));
    store(to, _mm256_permute2f128_ps(a, b, 0x20) + _mm256_permute2f128_ps(a, b, 0x31));
#else
    for (int n = 0; n < 8; ++n) to[n] = sum(vectors[n]);
#endif
}

inline float maximum(Vector vector) {
#if defined(__AVX2__)
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps(vector, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
#else
    return larger(larger(vector[0], vector[2]), larger(vector[1], vector[3]));
#endif
}

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
