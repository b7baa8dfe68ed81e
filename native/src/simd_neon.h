// What simd_portable.h says, by the instructions of 64-bit Arm processors.
#pragma once

#include <arm_neon.h>

namespace regard::REGARD_KERNEL {
namespace {

inline Vector load_first(const float* from, Index count) {
    Vector vector{};
    for (Index lane = 0; lane < count; ++lane) vector[lane] = from[lane];
    return vector;
}

template <typename Number>
inline Naturals load_wide(const Number* from) {
    return vmovl_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(from)));
}

inline Shorts narrow(Naturals numbers) { return vmovn_u32(numbers); }

inline Vector floats_of_halves(const Float16* from) {
    return vcvt_f32_f16(vld1_f16(reinterpret_cast<const float16_t*>(from)));
}

inline void store_halves(Float16* to, Vector vector) {
    vst1_f16(reinterpret_cast<float16_t*>(to), vcvt_f16_f32(vector));
}

inline Vector multiply_add(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }
inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return vfmaq_f64(c, a, b); }

inline Vector held(Vector vector) {
    asm("" : "+w"(vector));
    return vector;
}

inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }
inline Vector smaller(Vector a, Vector b) { return a < b ? a : b; }

inline unsigned bits(Integers comparison) {
    return vaddvq_u32(reinterpret_cast<Naturals>(comparison) & Naturals{1, 2, 4, 8});
}

}  // namespace
}  // namespace regard::REGARD_KERNEL

#include "simd_shuffles.h"
