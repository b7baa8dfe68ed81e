// Numbers of every type as floats, and back.
#pragma once

#include "regard/type.h"
#include "simd.h"

namespace regard::REGARD_KERNEL {
namespace {

inline Vector load_floats(const float* from) { return load(from); }
inline Vector load_floats(const BFloat16* from) {
    return reinterpret_cast<Vector>(load_wide(from) << 16);
}
inline Vector load_floats(const Float16* from) { return floats_of_halves(from); }

// Rounded to the nearest, to the even one of two.
inline void store_floats(float* to, Vector vector) { store(to, vector); }
inline void store_floats(BFloat16* to, Vector vector) {
    const Naturals number = reinterpret_cast<Naturals>(vector);
    const Naturals rounded = (number + all(0x7fffu) + (number >> 16 & all(1u))) >> 16;
    store(to, narrow(vector == vector ? rounded : all(0x7fc0u)));
}
inline void store_floats(Float16* to, Vector vector) { store_halves(to, vector); }

// The first `count` numbers, fewer than kLanes, and 0 for the others, which are not read.
inline Vector load_first_floats(const float* from, Index count) { return load_first(from, count); }
template <typename Number>
inline Vector load_first_floats(const Number* from, Index count) {
    Number numbers[kLanes] = {};
    for (Index n = 0; n < count; ++n) numbers[n] = from[n];
    return load_floats(numbers);
}

template <typename Number>
inline void store_first_floats(Number* to, Vector vector, Index count) {
    Number numbers[kLanes];
    store_floats(numbers, vector);
    for (Index n = 0; n < count; ++n) to[n] = numbers[n];
}

inline float to_float(float number) { return number; }
template <typename Number>
inline float to_float(Number number) {
    return load_first_floats(&number, 1)[0];
}

// work(data), as numbers of this type.
template <typename Work>
[[gnu::always_inline]] inline auto with_numbers(Type type, const void* data, Work work) {
    switch (type) {
        case Type::bfloat16: return work(static_cast<const BFloat16*>(data));
        case Type::float16: return work(static_cast<const Float16*>(data));
        case Type::float32: break;
    }
    return work(static_cast<const float*>(data));
}
template <typename Work>
[[gnu::always_inline]] inline auto with_numbers(Type type, void* data, Work work) {
    switch (type) {
        case Type::bfloat16: return work(static_cast<BFloat16*>(data));
        case Type::float16: return work(static_cast<Float16*>(data));
        case Type::float32: break;
    }
    return work(static_cast<float*>(data));
}

// to[n] = from[n] · factor
template <typename From, typename To>
inline void write_scaled(const From* from, Index count, float factor, To* to) {
    Index n = 0;
    for (; n + kLanes <= count; n += kLanes) {
        store_floats(to + n, load_floats(from + n) * all(factor));
    }
    if (n == count) return;
    const Vector rest = load_first_floats(from + n, count - n) * all(factor);
    store_first_floats(to + n, rest, count - n);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
