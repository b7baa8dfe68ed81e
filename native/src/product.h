// The matrix products, in register tiles of kStrip rows by kPanel columns.
//
// A cell of a product is one chain of multiply-adds in the order of the inner axis, whatever the
// shape of the tile it falls in.
#pragma once

#include "simd.h"

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kBlock = 256;                    // keys of a block, counted from key 0
constexpr Index kScoreStride = kBlock + kPanel;  // from row to row of a tile of scores

// The sums Σ_n factors[r][n] · panel[n][…] of kRows rows and the columns of one panel, in
// registers: write(r, c, sums) gets vector c of row r.
template <int kRows, typename Number, typename Write>
[[gnu::always_inline]] inline void multiply_panel(const Number* factors, Index row_stride,
                                                  Index inner_stride, const Number* panel,
                                                  Index inner, Write write) {
    constexpr int kWide = kLanesOf<Number>;
    using Wide = typename VectorOf<Number, kWide>::Type;
    Wide sums[kRows][kPanelVectors];
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) sums[r][c] = Wide{};
    }
    REGARD_UNROLL(4)
    for (Index n = 0; n < inner; ++n) {
        Wide columns[kPanelVectors];
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) {
            columns[c] = load(panel + (n * kPanelVectors + c) * kWide);
        }
        REGARD_UNROLL(16)
        for (int r = 0; r < kRows; ++r) {
            const Wide factor = all(factors[r * row_stride + n * inner_stride]);
            REGARD_UNROLL(16)
            for (int c = 0; c < kPanelVectors; ++c) {
                sums[r][c] = multiply_add(factor, columns[c], sums[r][c]);
            }
        }
    }
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) write(r, c, sums[r][c]);
    }
}

// scores[r][…] = Σ_d q[r][d] · panel[d][…]
struct Score {
    template <int kRows>
    static void tile(const Real* q, Index q_stride, const Real* panel, Index width, Real* scores) {
        multiply_panel<kRows>(q, q_stride, 1, panel, width, [&](int r, int c, Vector sums) {
            store(scores + r * kScoreStride + c * kLanes, sums);
        });
    }
};

// output[r][…] = factor[r] · output[r][…] + Σ_j weights[r][j] · panel[j][…]
struct Weigh {
    template <int kRows>
    static void tile(const Real* weights, const Real* panel, Index keys, const Real* factor,
                     Real* output, Index output_stride) {
        multiply_panel<kRows>(weights, kScoreStride, 1, panel, keys,
                              [&](int r, int c, Vector sums) {
                                  Real* cell = output + r * output_stride + c * kLanes;
                                  store(cell, multiply_add(all(factor[r]), load(cell), sums));
                              });
    }
};

// to[n][…] += Σ_r weights[r][n] · panel[r][…], for keys n
struct Gather {
    template <int kKeys>
    static void tile(const Real* weights, const Real* panel, Index rows, Real* to,
                     Index to_stride) {
        multiply_panel<kKeys>(weights, 1, kScoreStride, panel, rows,
                              [&](int n, int c, Vector sums) {
                                  Real* cell = to + n * to_stride + c * kLanes;
                                  store(cell, load(cell) + sums);
                              });
    }
};

// One of them for a number of rows, or keys, that is known only at run time, up to kStrip.
template <typename Product, int kRows = kStrip, typename... Arguments>
inline void strip(Index rows, Arguments... arguments) {
    if (rows == kRows) {
        Product::template tile<kRows>(arguments...);
    } else if constexpr (kRows > 1) {
        strip<Product, kRows - 1>(rows, arguments...);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
