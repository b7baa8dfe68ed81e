// The matrix products, in register tiles of kStrip rows by kPanel columns.
//
// A cell of a product is one chain of multiply-adds in the order of the inner axis, whatever the
// shape of the tile it falls in.
#pragma once

#include "simd.h"

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kBlock = 256;                  // keys of a block, counted from key 0
constexpr Index kScoreStep = kBlock + kPanel;  // from row to row of a tile of scores

// scores[r][0 … kPanel) = Σ_d q[r][d] · panel[d][…] for kRows rows.
template <int kRows>
inline void score_tile(const float* q, Index q_step, const float* panel, Index width,
                       float* scores) {
    Vector sums[kRows][kPanelVectors];
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) sums[r][c] = Vector{};
    }
    REGARD_UNROLL(4)
    for (Index d = 0; d < width; ++d) {
        Vector columns[kPanelVectors];
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) columns[c] = load(panel + d * kPanel + c * kLanes);
        REGARD_UNROLL(16)
        for (int r = 0; r < kRows; ++r) {
            const Vector factor = all(q[r * q_step + d]);
            REGARD_UNROLL(16)
            for (int c = 0; c < kPanelVectors; ++c) {
                sums[r][c] = multiply_add(factor, columns[c], sums[r][c]);
            }
        }
    }
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) {
            store(scores + r * kScoreStep + c * kLanes, sums[r][c]);
        }
    }
}

// output[r][0 … kPanel) = factor[r] · output[r][…] + Σ_j weights[r][j] · panel[j][…] for kRows
// rows.
template <int kRows>
inline void output_tile(const float* weights, const float* panel, Index keys, const float* factor,
                        float* output, Index output_step) {
    Vector sums[kRows][kPanelVectors];
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) sums[r][c] = Vector{};
    }
    REGARD_UNROLL(4)
    for (Index j = 0; j < keys; ++j) {
        Vector columns[kPanelVectors];
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) columns[c] = load(panel + j * kPanel + c * kLanes);
        REGARD_UNROLL(16)
        for (int r = 0; r < kRows; ++r) {
            const Vector weight = all(weights[r * kScoreStep + j]);
            REGARD_UNROLL(16)
            for (int c = 0; c < kPanelVectors; ++c) {
                sums[r][c] = multiply_add(weight, columns[c], sums[r][c]);
            }
        }
    }
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) {
            float* cell = output + r * output_step + c * kLanes;
            store(cell, multiply_add(all(factor[r]), load(cell), sums[r][c]));
        }
    }
}

// sums[n][0 … kPanel) += Σ_r weights[r][n] · panel[r][…] for kKeys keys n.
template <int kKeys>
inline void gather_tile(const float* weights, const float* panel, Index rows, float* sums,
                        Index sums_step) {
    Vector cells[kKeys][kPanelVectors];
    REGARD_UNROLL(16)
    for (int n = 0; n < kKeys; ++n) {
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) cells[n][c] = Vector{};
    }
    REGARD_UNROLL(4)
    for (Index r = 0; r < rows; ++r) {
        Vector columns[kPanelVectors];
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) columns[c] = load(panel + r * kPanel + c * kLanes);
        REGARD_UNROLL(16)
        for (int n = 0; n < kKeys; ++n) {
            const Vector weight = all(weights[r * kScoreStep + n]);
            REGARD_UNROLL(16)
            for (int c = 0; c < kPanelVectors; ++c) {
                cells[n][c] = multiply_add(weight, columns[c], cells[n][c]);
            }
        }
    }
    REGARD_UNROLL(16)
    for (int n = 0; n < kKeys; ++n) {
        REGARD_UNROLL(16)
        for (int c = 0; c < kPanelVectors; ++c) {
            float* cell = sums + n * sums_step + c * kLanes;
            store(cell, load(cell) + cells[n][c]);
        }
    }
}

// The same for a number of rows, or keys, that is known only at run time, up to kStrip.
template <int kRows = kStrip>
inline void score_strip(Index rows, const float* q, Index q_step, const float* panel, Index width,
                        float* scores) {
    if (rows == kRows) {
        score_tile<kRows>(q, q_step, panel, width, scores);
    } else if constexpr (kRows > 1) {
        score_strip<kRows - 1>(rows, q, q_step, panel, width, scores);
    }
}

template <int kRows = kStrip>
inline void output_strip(Index rows, const float* weights, const float* panel, Index keys,
                         const float* factor, float* output, Index output_step) {
    if (rows == kRows) {
        output_tile<kRows>(weights, panel, keys, factor, output, output_step);
    } else if constexpr (kRows > 1) {
        output_strip<kRows - 1>(rows, weights, panel, keys, factor, output, output_step);
    }
}

template <int kKeys = kStrip>
inline void gather_strip(Index keys, const float* weights, const float* panel, Index rows,
                         float* sums, Index sums_step) {
    if (keys == kKeys) {
        gather_tile<kKeys>(weights, panel, rows, sums, sums_step);
    } else if constexpr (kKeys > 1) {
        gather_strip<kKeys - 1>(keys, weights, panel, rows, sums, sums_step);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
