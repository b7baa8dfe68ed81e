// Matrix products whose bits depend on nothing but the two matrices, in float32 and float64.
//
//     c[r][n] = Σ_i a[r][i] · b[i][n]
//
// The functions trust their arguments. They are safe to call from several threads at once, and give
// the same bits whatever `threads` is, wherever the matrices lie, and whatever other rows and
// columns there are.
#pragma once

#include <cstdint>

namespace regard {

template <typename Number>
struct Product {
    std::int64_t batch = 0, heads = 0;  // so many pairs of matrices
    std::int64_t rows = 0, inner = 0, columns = 0;

    // Strides are in elements, along batch, heads, and the two axes of the matrix. Any will do.
    const Number* a = nullptr;  // (batch, heads, rows, inner)
    std::int64_t a_strides[4] = {};
    const Number* b = nullptr;  // (batch, heads, inner, columns)
    std::int64_t b_strides[4] = {};
    Number* c = nullptr;  // (batch, heads, rows, columns), contiguous
};

void multiply(const Product<float>& product, int threads);
void multiply(const Product<double>& product, int threads);

}  // namespace regard
