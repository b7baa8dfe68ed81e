// The types of the numbers that are read and written, and rows of them. float64 is computed in
// itself, all others in float32.
#pragma once

#include <cstdint>

namespace regard {

enum class Type : std::uint8_t { float32, bfloat16, float16, float64 };

constexpr std::int64_t bytes_of(Type type) {
    return type == Type::float64 ? 8 : type == Type::float32 ? 4 : 2;
}

// Numbers that somebody else owns, on axes (b, h, n) with strides in elements; the last axis is
// contiguous. A stride may be 0 (broadcast) or negative.
struct Rows {
    const void* data = nullptr;
    std::int64_t strides[3] = {0, 0, 0};
    Type type = Type::float32;
};

// The same, to be written.
struct RowsOut {
    void* data = nullptr;
    std::int64_t strides[3] = {0, 0, 0};
    Type type = Type::float32;
};

}  // namespace regard
