// Sums of weights by map column, kept per row until its lse is known.
//
// Key j falls in column ⌊j·C/Nk⌋. The keys of one column within one block are a segment; a row's
// sum over a segment is relative to the maximum that the row had reached in that block.
#pragma once

#include "product.h"
#include "scratch.h"

namespace regard::REGARD_KERNEL {
namespace {

// The first key of column c: the least j with ⌊j·C/Nk⌋ ≥ c.
inline Index first_key(Index column, Index keys, Index columns) {
    return (column * keys + columns - 1) / columns;
}

// Which keys make which column, as tables: a division for each would cost more than the sums.
struct Columns {
    Index keys = 0, columns = 0;
    Index narrowest = 0, widest = 0;       // in keys
    const std::int32_t* of = nullptr;      // (keys): the column of each key
    const std::int32_t* starts = nullptr;  // (columns + 1): the first key of each column
    const std::int32_t* tails = nullptr;   // (columns): lanes of its last vector that do not count

    Columns() = default;
    Columns(Index all_keys, Index all_columns, Scratch& scratch)
        : keys(all_keys),
          columns(all_columns),
          narrowest(all_keys / all_columns),
          widest((all_keys + all_columns - 1) / all_columns) {
        auto* column_of = scratch.take<std::int32_t>(keys);
        auto* first_of = scratch.take<std::int32_t>(columns + 1);
        auto* tail_of = scratch.take<std::int32_t>(columns);
        for (Index c = 0; c <= columns; ++c) {
            first_of[c] = static_cast<std::int32_t>(first_key(c, keys, columns));
        }
        for (Index c = 0; c < columns; ++c) {
            for (Index j = first_of[c]; j < first_of[c + 1]; ++j) {
                column_of[j] = static_cast<std::int32_t>(c);
            }
            tail_of[c] = static_cast<std::int32_t>(kLanes - (first_of[c + 1] - first_of[c]) +
                                                   narrowest / kLanes * kLanes);
        }
        of = column_of;
        starts = first_of;
        tails = tail_of;
    }

    bool one_key_each() const { return columns >= keys; }

    // Where the sum of a segment is kept: the block number makes room for a column cut in two.
    Index slot(Index block, Index column) const { return column + block; }
    Index slots() const { return one_key_each() ? keys : columns + (keys + kBlock - 1) / kBlock; }
};

// The sums of `count` whole columns from c on, at most kCount of them; `weights` starts at key
// `start`. All have as many whole vectors, and one of which only some lanes count.
template <int kCount>
inline void sum_some(const Columns& map, const Real* weights, Index start, Index c, Index count,
                     Real* to) {
    const Index whole = map.narrowest / kLanes * kLanes;
    const Real* from[kCount];
    Vector partial[kGroup]{};
    REGARD_UNROLL(16)
    for (int n = 0; n < kCount; ++n) {
        const Index column = c + smaller(n, count - 1);
        from[n] = weights + (map.starts[column] - start);
        partial[n] = reinterpret_cast<Vector>(reinterpret_cast<Integers>(load(from[n] + whole)) &
                                              all_but_last(map.tails[column]));
    }
    for (Index m = 0; m < whole; m += kLanes) {
        REGARD_UNROLL(16)
        for (int n = 0; n < kCount; ++n) partial[n] += load(from[n] + m);
    }
    if (count == kGroup) {
        sum_each(partial, to);
        return;
    }
    Real sums[kGroup];
    sum_each(partial, sums);
    for (Index n = 0; n < count; ++n) to[n] = sums[n];
}

// The same where all columns have `wide` keys, two or four or a multiple of kLanes: for `count`
// columns, a multiple of kGroup, from `weights` on.
inline void sum_alike(const Real* weights, Index wide, Index count, Real* to) {
    if (wide == 2) {
        for (Index c = 0; c < count; c += kLanes) store(to + c, sums_of_pairs(weights + 2 * c));
        return;
    }
    if (wide == 4) {
        for (Index c = 0; c < count; c += kLanes) store(to + c, sums_of_fours(weights + 4 * c));
        return;
    }
    for (Index c = 0; c < count; c += kGroup, weights += kGroup * wide) {
        Vector partial[kGroup];
        REGARD_UNROLL(16)
        for (int n = 0; n < kGroup; ++n) partial[n] = load(weights + n * wide);
        for (Index m = kLanes; m < wide; m += kLanes) {
            REGARD_UNROLL(16)
            for (int n = 0; n < kGroup; ++n) partial[n] += load(weights + n * wide + m);
        }
        sum_each(partial, to + c);
    }
}

// Sum the weights of keys [first, last) of a block by column into `kept`. `weights` is the block's
// row, which starts at key `start`; up to kLanes numbers behind `last` may be read.
__attribute__((noinline)) void sum_columns(const Columns& map, Index block, const Real* weights,
                                           Index start, Index first, Index last, Real* kept) {
    if (map.one_key_each()) {
        __builtin_memcpy(kept + first, weights + first - start,
                         sizeof(Real) * static_cast<std::size_t>(last - first));
        return;
    }
    Real* to = kept + map.slot(block, 0);
    const Index end = map.of[last - 1] + 1;
    Index c = map.of[first];
    // A column at either end may be cut.
    const auto sum_one = [&] {
        const Index from = larger(map.starts[c], first), behind = smaller(map.starts[c + 1], last);
        Vector lanes{};
        Index j = from;
        for (; j + kLanes <= behind; j += kLanes) lanes += load(weights + (j - start));
        Real total = sum(lanes);
        for (; j < behind; ++j) total += weights[j - start];
        to[c++] = total;
    };
    if (map.starts[c] < first) sum_one();
    const Index wide = map.widest, whole = map.starts[end] <= last ? end : end - 1;
    const bool alike = map.narrowest == wide && (wide == 2 || wide == 4 || wide % kLanes == 0);
    if (alike && whole - c >= kGroup) {
        const Index count = (whole - c) / kGroup * kGroup;
        sum_alike(weights + (map.starts[c] - start), wide, count, to + c);
        c += count;
    }
    for (; c + kGroup <= whole; c += kGroup) {
        sum_some<kGroup>(map, weights, start, c, kGroup, to + c);
    }
    if (c + kGroup / 2 < whole) {
        sum_some<kGroup>(map, weights, start, c, whole - c, to + c);
        c = whole;
    } else if (c < whole) {
        sum_some<kGroup / 2>(map, weights, start, c, whole - c, to + c);
        c = whole;
    }
    while (c < end) sum_one();
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
