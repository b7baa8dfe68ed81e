// What is done to each token's vector by itself: the RMS norm, the turn of rotary positions, the
// gate of SwiGLU, a sum. Computed in float32, whatever the type of the numbers.
//
// The functions trust their arguments. They are safe to call from several threads at once, and give
// the same bits whatever `threads` is and whatever other vectors there are.
#pragma once

#include <cstdint>

#include "regard/type.h"

namespace regard {

// y[r] = x[r] / √(mean of x[r]² + eps) · weight, rounded to the type before the product with weight
// and after it. All numbers are of one type and contiguous.
struct RmsNorm {
    Type type = Type::float32;
    std::int64_t rows = 0, width = 0;
    const void* x = nullptr;       // (rows, width)
    const void* weight = nullptr;  // (width)
    float eps = 0;
    void* y = nullptr;  // (rows, width)
};

void rms_norm(const RmsNorm& call, int threads);

// y = x · cosine + partner(x) · sine, for the first `turned` numbers of each vector; the others are
// copied. The partner of a number is the one half of `turned` away, or its neighbour in a pair.
// All numbers are of one type.
struct Turn {
    std::int64_t batch = 0, heads = 0, tokens = 0, width = 0, turned = 0;
    bool halves = true;
    Rows x;             // (batch, heads, tokens, width)
    Rows cosine, sine;  // (batch, heads, tokens, turned)
    RowsOut y;          // as x
};

void turn(const Turn& call, int threads);

// y = silu(gate) · hidden, silu(g) = g / (1 + exp(−g)), rounded to the type before the product and
// after it; or y = a + b. `count` numbers each, of one type, contiguous.
struct Two {
    Type type = Type::float32;
    std::int64_t count = 0;
    const void* a = nullptr;  // the gate
    const void* b = nullptr;  // what is let through
    void* y = nullptr;
};

void gated(const Two& call, int threads);
void add(const Two& call, int threads);

}  // namespace regard
