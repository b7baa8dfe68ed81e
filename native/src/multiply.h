// The matrix product in register tiles of kStrip rows by kPanelVectors vectors.
//
// A cell is a sum over blocks of the inner axis, in their order, each block one chain of
// multiply-adds. So its bits depend on neither tiles nor threads.
#pragma once

#include "product.h"
#include "regard/multiply.h"
#include "scratch.h"
#include "share.h"

namespace regard::REGARD_KERNEL {
namespace {

// A tile of c with its blocks of a and b: what fits in the second-level cache in float64.
constexpr Index kInner = 128;
constexpr Index kTileRows = 144;  // a multiple of kStrip
constexpr Index kTileColumns = 192;

// Lines [first, last) of a matrix, kSize side by side, [inner][kSize] after [inner][kSize]. What is
// missing of the last is 0.
template <int kSize, typename Number>
inline void lay_side_by_side(const Number* from, Index line_stride, Index inner_stride, Index first,
                             Index last, Index inner, Number* to) {
    for (Index line = first; line < last; line += kSize) {
        const Number* source = from + line * line_stride;
        const Index count = smaller(kSize, last - line);
        if (count == kSize && line_stride == 1) {
            for (Index i = 0; i < inner; ++i, source += inner_stride, to += kSize) {
                __builtin_memcpy(to, source, kSize * sizeof(Number));
            }
            continue;
        }
        for (Index i = 0; i < inner; ++i, source += inner_stride, to += kSize) {
            if (count == kSize) {
                REGARD_UNROLL(16)
                for (int n = 0; n < kSize; ++n) to[n] = source[n * line_stride];
            } else {
                for (Index n = 0; n < kSize; ++n) to[n] = n < count ? source[n * line_stride] : 0;
            }
        }
    }
}

// Rows [row, …) by columns [column, …) of one pair of matrices.
template <typename Number>
void multiply_tile(const Product<Number>& product, const Number* a, const Number* b, Number* c,
                   Index row, Index column) {
    constexpr Index kWidth = kPanelVectors * kLanesOf<Number>;
    const Index row_end = smaller(row + kTileRows, product.rows);
    const Index column_end = smaller(column + kTileColumns, product.columns);
    Borrowed borrowed;
    auto* cells = borrowed.scratch.take<Number>(kTileRows * kTileColumns);
    auto* strips = borrowed.scratch.take<Number>(kTileRows * kInner);
    auto* panels = borrowed.scratch.take<Number>(kTileColumns * kInner);
    for (Index n = 0; n < kTileRows * kTileColumns; ++n) cells[n] = 0;
    for (Index first = 0; first < product.inner; first += kInner) {
        check_interrupt();
        const Index inner = smaller(kInner, product.inner - first);
        lay_side_by_side<kStrip>(a + first * product.a_strides[3], product.a_strides[2],
                                 product.a_strides[3], row, row_end, inner, strips);
        lay_side_by_side<kWidth>(b + first * product.b_strides[2], product.b_strides[3],
                                 product.b_strides[2], column, column_end, inner, panels);
        for (Index n = 0; n < column_end - column; n += kWidth) {
            for (Index r = 0; r < row_end - row; r += kStrip) {
                Number* to = cells + r * kTileColumns + n;
                multiply_panel<kStrip>(strips + r * inner, 1, kStrip, panels + n * inner, inner,
                                       [&](int row, int v, auto sums) {
                                           Number* cell =
                                               to + row * kTileColumns + v * kLanesOf<Number>;
                                           store(cell, load(cell) + sums);
                                       });
            }
        }
    }
    for (Index r = row; r < row_end; ++r) {
        for (Index n = column; n < column_end; ++n) {
            c[r * product.columns + n] = cells[(r - row) * kTileColumns + n - column];
        }
    }
}

template <typename Number>
void multiply(const Product<Number>& product, int threads) {
    static_assert(kTileRows % kStrip == 0);
    const Index tiles_down = (product.rows + kTileRows - 1) / kTileRows;
    const Index tiles = tiles_down * ((product.columns + kTileColumns - 1) / kTileColumns);
    share_out(product.batch * product.heads * tiles, threads, [&](Index task) {
        const Index n = task / tiles, b = n / product.heads, h = n % product.heads;
        multiply_tile(product, product.a + b * product.a_strides[0] + h * product.a_strides[1],
                      product.b + b * product.b_strides[0] + h * product.b_strides[1],
                      product.c + n * product.rows * product.columns,
                      task % tiles % tiles_down * kTileRows,
                      task % tiles / tiles_down * kTileColumns);
    });
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
