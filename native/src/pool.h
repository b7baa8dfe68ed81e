// Weights recomputed from q, k and lse: tiles, pictures, and what each key received.
#pragma once

#include "tile.h"

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kChunk = 1024;  // keys that one task reads again for every tile of queries
// Rows whose weights are added up as they are before their sum goes on in double: the more rows,
// the more is rounded off; one by one would take longer.
constexpr Index kAdded = 4;

// K of one head, keys [first, first + keys), in panels.
struct PackedKeys {
    const Real* panels = nullptr;
    Index first = 0;
    BadKeys bad;
};

// Scores of a tile for keys [start, end), at most a block of them, before masks.
inline void score_block(const Call& call, Tile& tile, const PackedKeys& packed, Index start,
                        Index end) {
    const Index width = call.problem.width;
    const Real* panels = packed.panels + (start - packed.first) * width;
    for (Index row = 0; row < tile.rows; row += kStrip) {
        const Index rows = smaller(kStrip, tile.rows - row);
        score_rows(tile, row, rows, allowed_part(tile, row, rows, start, end), panels, width);
    }
}

// What turns a row's scores into weights: 2^(score − maximum) · inverse.
struct Scale {
    Real maximum, inverse;
    bool none() const { return maximum == -infinity(); }
};

// Where scales come from: kept by the forward pass, or the lse that was given.
struct Scales {
    const Real* maxima = nullptr;
    const Real* inverses = nullptr;
    const Real* lse = nullptr;

    Scale of(Index at) const {
        if (!lse) return {maxima[at], inverses[at]};
        // In base 2 the lse has more digits than a Real: the rest goes into the factor.
        const double exact = static_cast<double>(lse[at]) * 1.44269504088896340736;
        const Real maximum = static_cast<Real>(exact);
        const double rest = static_cast<double>(maximum) - exact;
        // Beyond 2^24 the rest is as large as the scores' own rounding, and means nothing.
        if (!(rest < 0.5 && rest > -0.5)) return {maximum, 1.0f};
        return {maximum, exp2(static_cast<Real>(rest))};
    }
};

// The finished scores of row r in a block become weights, which `use` gets vector by vector: use(n,
// weights of keys [n, n + kLanes) of the block). Keys that it may not see by position are left out,
// or 0.
template <typename Use>
inline void weigh_row(const Call& call, Tile& tile, Index r, const PackedKeys& packed, Index start,
                      Index end, Scale scale, Use use) {
    const Index first = larger(tile.keys[r].first, start) - start;
    const Index last = smaller(tile.keys[r].last, end) - start;
    if (first >= last || scale.none()) return;
    const Index wide_first = first / kLanes * kLanes, wide_last = round_up(last, kLanes);
    Real* scores = tile.scores + r * kScoreStride;
    finish_scores(call, tile, r, packed.bad, start, first, last, wide_first, wide_last, scores);
    if (is_nan(scale.maximum) || is_nan(scale.inverse)) {
        for (Index n = wide_first; n < wide_last; n += kLanes) {
            use(n, load(scores + n) == all(-infinity()) ? Vector{} : all(not_a_number()));
        }
        return;
    }
    const Vector maximum = all(scale.maximum), inverse = all(scale.inverse);
    for (Index n = wide_first; n < wide_last; n += kLanes) {
        // No weight is above 1, however the lse of very large scores was rounded.
        const Vector t = smaller(Vector{}, load(scores + n) - maximum);
        use(n, smaller(all(1.0f), exp2(t) * inverse));
    }
}

// A picture of a rectangle; received is the picture with one row and a column for each key.
struct Picture {
    Rectangle rectangle;
    Index rows = 0, columns = 0;  // pixels
    enum { sum, mean, maximum } reduce = mean;
    Real* out = nullptr;  // (batch, heads, rows, columns)
    Scales scales;
    bool counted = false;  // only the queries that count

    Index row_of(Index n) const { return n * rows / rectangle.rows; }

    Columns pixel_columns;

    // Pixels are shared out in whole rows of at least kTile queries, and columns of at least kChunk
    // keys: pixel rows [row_cut(n), row_cut(n + 1)).
    Index row_groups() const { return larger(1, smaller(rows, rectangle.rows / kTile)); }
    Index column_groups() const { return larger(1, smaller(columns, rectangle.keys / kChunk)); }
    Index row_cut(Index n) const { return rows * n / row_groups(); }
    Index column_cut(Index n) const { return columns * n / column_groups(); }
    Index tasks() const { return row_groups() * column_groups(); }
};

inline double larger_or_nan(double a, double b) { return a != a || a > b ? a : b; }

// Add the sums of some rows to those of more, and begin anew.
inline void add_on(Real* sums, Index count, double* to) {
    for (Index n = 0; n < count; ++n) to[n] += sums[n];
    for (Index n = 0; n < count; ++n) sums[n] = 0.0f;
}

// Add the sums of keys [key, key + count) of the rectangle to the pixels of their row, in which
// that of column c is pixel `row` + c.
inline void add_to_pixels(const Columns& columns, bool maximum, const double* sums, Index key,
                          Index count, Index row, Sums pixels) {
    if (columns.columns == columns.keys && !maximum) {
        for (Index n = 0; n < count; ++n) pixels.add(row + key + n, sums[n]);
        return;
    }
    for (Index n = 0; n < count;) {
        const Index column = columns.of[key + n], pixel = row + column;
        const Index stop = smaller(count, columns.starts[column + 1] - key);
        double total = sums[n];
        for (++n; n < stop; ++n) {
            total = maximum ? larger_or_nan(total, sums[n]) : total + sums[n];
        }
        if (maximum) {
            pixels.sums[pixel] = larger_or_nan(pixels.sums[pixel], total);
        } else {
            pixels.add(pixel, total);
        }
    }
}

// One group of pixels of head h.
inline void run_picture(const Call& call, const Picture& picture, const PackedKeys& packed, Index b,
                        Index h, Index task, Scratch& scratch) {
    const Problem& problem = call.problem;
    const Rectangle& box = picture.rectangle;
    const Index column_groups = picture.column_groups();
    const Index top = picture.row_cut(task / column_groups);
    const Index bottom = picture.row_cut(task / column_groups + 1);
    const Index left = picture.column_cut(task % column_groups);
    const Index right = picture.column_cut(task % column_groups + 1);
    const Index first_row = first_key(top, box.rows, picture.rows);
    const Index last_row = first_key(bottom, box.rows, picture.rows);
    const Index first_column = first_key(left, box.keys, picture.columns);
    const Index last_column = first_key(right, box.keys, picture.columns);
    const Index wide = right - left;
    const bool maximum = picture.reduce == Picture::maximum;

    Tile tile(call, smaller(kTile, last_row - first_row), scratch);
    Sums pixels((bottom - top) * wide, scratch);
    pixels.clear((bottom - top) * wide);
    auto* sums = scratch.take<Real>(kBlock + kLanes);  // of up to kAdded rows
    auto* more = scratch.take<double>(kBlock);         // of the tile's, in one row of pixels
    for (Index n = 0; n < kBlock + kLanes; ++n) sums[n] = 0.0f;

    for (Index row = first_row; row < last_row; row += kTile) {
        check_interrupt();
        tile.rows = 0;
        add_queries(call, tile, b, h, box.row + row, smaller(kTile, last_row - row));
        for (Index r = 0; r < tile.rows; ++r) {
            tile.keys[r].first = larger(tile.keys[r].first, box.key + first_column);
            tile.keys[r].last = smaller(tile.keys[r].last, box.key + last_column);
        }
        // Panels begin every kPanel keys of the rectangle, whatever the first column's key.
        for (Index key = first_column / kPanel * kPanel; key < last_column; key += kBlock) {
            const Index start = box.key + key;
            const Index end = smaller(start + kBlock, box.key + last_column);
            score_block(call, tile, packed, start, end);
            for (Index r = 0, pixel_row = picture.row_of(row); r < tile.rows; ++pixel_row) {
                const Index next =
                    smaller(tile.rows, first_key(pixel_row + 1, box.rows, picture.rows) - row);
                if (r >= next) continue;  // a pixel row without a query
                for (Index n = 0; n < end - start; ++n) more[n] = 0.0;
                for (Index added = 0; r < next; ++r) {
                    const Index i = tile.query[r];
                    if (picture.counted && !counts(call.seen, b, i)) continue;
                    const Scale scale =
                        picture.scales.of((b * problem.heads + h) * problem.queries + i);
                    if (maximum) {
                        weigh_row(call, tile, r, packed, start, end, scale, [&](Index n, Vector w) {
                            const Vector old = load(sums + n);
                            store(sums + n, old == old ? larger(old, w) : old);
                        });
                    } else {
                        weigh_row(call, tile, r, packed, start, end, scale,
                                  [&](Index n, Vector w) { store(sums + n, load(sums + n) + w); });
                        if (++added % kAdded == 0) add_on(sums, end - start, more);
                    }
                }
                add_on(sums, end - start, more);
                const Index skip = larger(0, first_column - key);
                add_to_pixels(picture.pixel_columns, maximum, more + skip, key + skip,
                              end - start - skip, (pixel_row - top) * wide - left, pixels);
            }
        }
    }
    const Index head = b * problem.heads + h;
    for (Index y = top; y < bottom; ++y) {
        const Index tall =
            first_key(y + 1, box.rows, picture.rows) - first_key(y, box.rows, picture.rows);
        for (Index x = left; x < right; ++x) {
            const Index cells = tall * (first_key(x + 1, box.keys, picture.columns) -
                                        first_key(x, box.keys, picture.columns));
            double value = pixels[(y - top) * wide + x - left];
            if (picture.reduce == Picture::mean && cells > 1) value /= static_cast<double>(cells);
            picture.out[(head * picture.rows + y) * picture.columns + x] = static_cast<Real>(value);
        }
    }
}

// Rows [first, first + rows) of the rectangle, of head h, as they are.
inline void run_weights(const Call& call, const Rectangle& box, const Scales& scales,
                        const PackedKeys& packed, Index b, Index h, Index first, Index rows,
                        Real* out, Scratch& scratch) {
    const Problem& problem = call.problem;
    check_interrupt();
    Tile tile(call, rows, scratch);
    tile.rows = 0;
    add_queries(call, tile, b, h, box.row + first, rows);
    for (Index key = 0; key < box.keys; key += kBlock) {
        const Index start = box.key + key, end = smaller(start + kBlock, box.key + box.keys);
        score_block(call, tile, packed, start, end);
        for (Index r = 0; r < rows; ++r) {
            const Index at = (b * problem.heads + h) * problem.queries + tile.query[r];
            Real* to = out + ((b * problem.heads + h) * box.rows + first + r) * box.keys + key;
            for (Index n = 0; n < end - start; ++n) to[n] = 0.0f;
            weigh_row(call, tile, r, packed, start, end, scales.of(at), [&](Index n, Vector w) {
                if (n + kLanes <= end - start) {
                    store(to + n, w);
                } else {
                    for (Index m = n; m < end - start; ++m) to[m] = w[m - n];
                }
            });
        }
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
