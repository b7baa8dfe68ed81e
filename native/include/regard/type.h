// The types of the numbers that are read and written. float64 is computed in itself, all others in
// float32.
#pragma once

#include <cstdint>

namespace regard {

enum class Type : std::uint8_t { float32, bfloat16, float16, float64 };

constexpr std::int64_t bytes_of(Type type) {
    return type == Type::float64 ? 8 : type == Type::float32 ? 4 : 2;
}

}  // namespace regard
