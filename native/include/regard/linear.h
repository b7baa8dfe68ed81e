// Linear maps of the same rows, as fast as the weights can be read. Computed in float32, whatever
// the type of the numbers.
//
//     y[r][o] = Σ_d x[r][d] · weight[o][d] + bias[o]
//
// The function trusts its arguments. It is safe to call from several threads at once, and gives the
// same bits whatever `threads` is and whatever other rows, outputs and maps there are.
#pragma once

#include <cstdint>

#include "regard/type.h"

namespace regard {

// All numbers are of one type; the last axis of each is contiguous; strides are in elements, from
// row to row.
struct Map {
    std::int64_t outputs = 0;
    const void* weight = nullptr;  // (outputs, inputs)
    std::int64_t weight_stride = 0;
    const void* bias = nullptr;  // (outputs); null: none
    void* y = nullptr;           // (rows, outputs)
    std::int64_t y_stride = 0;
};

struct Linear {
    Type type = Type::float32;
    std::int64_t rows = 0, inputs = 0;
    const void* x = nullptr;  // (rows, inputs)
    std::int64_t x_stride = 0;
    const Map* maps = nullptr;
    std::int64_t count = 0;  // of maps
};

void linear(const Linear& call, int threads);

}  // namespace regard
