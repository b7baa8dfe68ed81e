// Numbers of every type as those that are computed with, and back.
#pragma once

#include "regard/type.h"
#include "simd.h"

namespace regard::REGARD_KERNEL {
namespace {

inline Vector load_numbers(const Real* from) { return load(from); }
inline void store_numbers(Real* to, Vector vector) { store(to, vector); }

#if !defined(REGARD_DOUBLE)
inline Vector load_numbers(const BFloat16* from) {
    return reinterpret_cast<Vector>(load_wide(from) << 16);
}
inline Vector load_numbers(const Float16* from) { return floats_of_halves(from); }

// Rounded to the nearest, to the even one of two.
inline void store_numbers(BFloat16* to, Vector vector) {
    const Naturals number = reinterpret_cast<Naturals>(vector);
    const Naturals rounded = (number + all(0x7fffu) + (number >> 16 & all(1u))) >> 16;
    store(to, narrow(vector == vector ? rounded : all(0x7fc0u)));
}
inline void store_numbers(Float16* to, Vector vector) { store_halves(to, vector); }
#endif

// The first `count` numbers, fewer than kLanes, and 0 for the others, which are not read.
inline Vector load_first_numbers(const Real* from, Index count) { return load_first(from, count); }
template <typename Number>
inline Vector load_first_numbers(const Number* from, Index count) {
    Number numbers[kLanes] = {};
    for (Index n = 0; n < count; ++n) numbers[n] = from[n];
    return load_numbers(numbers);
}

// 2 · kLanes numbers that lie side by side.
struct Pair {
    Vector first, second;
};
template <typename Number>
inline Pair load_pair(const Number* from) {
    return {load_numbers(from), load_numbers(from + kLanes)};
}

// The first `count` of them, fewer than 2 · kLanes, and 0 for the others, which are not read.
inline Pair load_first_pair(const Real* from, Index count) {
    if (count < kLanes) return {load_first(from, count), Vector{}};
    if (count == kLanes) return {load(from), Vector{}};
    return {load(from), load_first(from + kLanes, count - kLanes)};
}
template <typename Number>
inline Pair load_first_pair(const Number* from, Index count) {
    Number numbers[2 * kLanes] = {};
    for (Index n = 0; n < count; ++n) numbers[n] = from[n];
    return load_pair(numbers);
}

template <typename Number>
inline void store_first_numbers(Number* to, Vector vector, Index count) {
    Number numbers[kLanes];
    store_numbers(numbers, vector);
    for (Index n = 0; n < count; ++n) to[n] = numbers[n];
}

inline Real to_real(Real number) { return number; }
template <typename Number>
inline Real to_real(Number number) {
    return load_first_numbers(&number, 1)[0];
}

// work(data), as numbers of this type; a kernel for float64 has no other.
template <typename Work>
[[gnu::always_inline]] inline auto with_numbers(Type type, const void* data, Work work) {
#if !defined(REGARD_DOUBLE)
    if (type == Type::bfloat16) return work(static_cast<const BFloat16*>(data));
    if (type == Type::float16) return work(static_cast<const Float16*>(data));
#endif
    static_cast<void>(type);
    return work(static_cast<const Real*>(data));
}
template <typename Work>
[[gnu::always_inline]] inline auto with_numbers(Type type, void* data, Work work) {
#if !defined(REGARD_DOUBLE)
    if (type == Type::bfloat16) return work(static_cast<BFloat16*>(data));
    if (type == Type::float16) return work(static_cast<Float16*>(data));
#endif
    static_cast<void>(type);
    return work(static_cast<Real*>(data));
}

// to[n] = from[n] · factor
template <typename From, typename To>
inline void write_scaled(const From* from, Index count, Real factor, To* to) {
    Index n = 0;
    for (; n + kLanes <= count; n += kLanes) {
        store_numbers(to + n, load_numbers(from + n) * all(factor));
    }
    if (n == count) return;
    const Vector rest = load_first_numbers(from + n, count - n) * all(factor);
    store_first_numbers(to + n, rest, count - n);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
