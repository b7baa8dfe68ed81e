// A linear map in float32 for few rows, as fast as the weights can be read.
//
//     y[r][o] = Σ_d x[r][d] · weight[o][d] + bias[o]
//
// The function trusts its arguments. It is safe to call from several threads at once, and gives the
// same bits whatever `threads` is and whatever other rows there are.
#pragma once

#include <cstdint>

namespace regard {

struct Linear {
    std::int64_t rows = 0, inputs = 0, outputs = 0;

    // The last axis of each is contiguous; strides are in elements, from row to row.
    const float* x = nullptr;  // (rows, inputs)
    std::int64_t x_stride = 0;
    const float* weight = nullptr;  // (outputs, inputs)
    std::int64_t weight_stride = 0;
    const float* bias = nullptr;  // (outputs); null: none
    float* y = nullptr;           // (rows, outputs)
    std::int64_t y_stride = 0;
};

void linear(const Linear& map, int threads);

}  // namespace regard
