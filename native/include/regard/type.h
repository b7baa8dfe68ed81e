// The types of the numbers that are read and written. All is computed in float32.
#pragma once

#include <cstdint>

namespace regard {

enum class Type : std::uint8_t { float32, bfloat16, float16 };

constexpr std::int64_t bytes_of(Type type) { return type == Type::float32 ? 4 : 2; }

}  // namespace regard
