// Numbers of two bytes as float32 and back, and products of float64, in GNU vectors of any width.
#pragma once

namespace regard::REGARD_KERNEL {
namespace {

inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return a * b + c; }

// kLanes numbers of two bytes, each as an integer of four, and back.
template <typename Number>
inline Naturals load_wide(const Number* from) {
    Shorts numbers;
    __builtin_memcpy(&numbers, from, sizeof numbers);
    return __builtin_convertvector(numbers, Naturals);
}
inline Shorts narrow(Naturals numbers) { return __builtin_convertvector(numbers, Shorts); }

// kLanes numbers of type float16.
inline Vector floats_of_halves(const Float16* from) {
    const Naturals half = load_wide(from), magnitude = half & all(0x7fffu);
    // Where it stands now its exponent counts from 127, not from 15.
    const Vector number = reinterpret_cast<Vector>(magnitude << 13) * all(0x1p112f);
    const Naturals special = magnitude > all(0x7bffu) ? all(0x7f800000u) : Naturals{};
    return reinterpret_cast<Vector>(reinterpret_cast<Naturals>(number) | special |
                                    (half & all(0x8000u)) << 16);
}

// Rounded to the nearest, to the even one of two.
inline void store_halves(Float16* to, Vector vector) {
    const Naturals given = reinterpret_cast<Naturals>(vector);
    const Naturals magnitude = given & all(0x7fffffffu);
    Naturals half = (magnitude - all(112u << 23) + all(0xfffu) + (magnitude >> 13 & all(1u))) >> 13;
    // Below 2⁻¹⁴ what is left is a multiple of 2⁻²⁴, as it is in a sum with ½.
    const Vector sum = reinterpret_cast<Vector>(magnitude) + all(0.5f);
    half = magnitude < all(113u << 23) ? reinterpret_cast<Naturals>(sum) - all(126u << 23) : half;
    half = magnitude > all(0x477fffffu) ? all(0x7c00u) : half;
    half = magnitude > all(0x7f800000u) ? all(0x7e00u) : half;
    store(to, narrow(half | (given >> 16 & all(0x8000u))));
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
