// The end of a row: its sums become output, lse, entropy and the rest.
#pragma once

#include "tile.h"

namespace regard::REGARD_KERNEL {
namespace {

// The map of one head in the making, as sums, and how many queries each row holds. A span of
// queries keeps the rows at its ends, which it may share with its neighbours, to itself.
struct MapRows {
    Real* sums = nullptr;  // (map_rows, map_columns), of the head
    std::int32_t* counts = nullptr;
    Index first = 0, last = 0;  // the rows at the ends
    Real* edge_sums = nullptr;  // (2, map_columns)
    std::int32_t* edge_counts = nullptr;
};

inline Index map_row(const Call& call, Index query) {
    return query * call.seen.map_rows / call.problem.queries;
}

inline void add_scaled(const Real* from, Index count, Real factor, Real* to) {
    Index n = 0;
    for (; n + kLanes <= count; n += kLanes) {
        store(to + n, multiply_add(load(from + n), all(factor), load(to + n)));
    }
    for (; n < count; ++n) to[n] += from[n] * factor;
}

inline void add_to_map(const Call& call, const Tile& tile, Index r, Real maximum, Real inverse,
                       const MapRows& map) {
    const Columns& columns = call.columns;
    const Index row = map_row(call, tile.query[r]);
    const Index edge = row == map.first ? 0 : row == map.last ? 1 : -1;
    Real* to = edge < 0 ? map.sums + row * columns.columns : map.edge_sums + edge * columns.columns;
    ++(edge < 0 ? map.counts[row] : map.edge_counts[edge]);
    const Real* kept = tile.column_sums + r * columns.slots();
    const Interval keys = tile.keys[r];
    if (is_nan(inverse)) {  // so is the weight of every key that it may attend to, and of no other
        for (Index j = keys.first; j < keys.last; ++j) {
            if (allowed_by_mask(call.problem, tile.b, tile.head[r], tile.query[r], j)) {
                to[columns.of[j]] = not_a_number();
            }
        }
        return;
    }
    for (Index block = (keys.first - tile.origin) / kBlock;; ++block) {
        const Index start = tile.origin + block * kBlock;
        if (start >= keys.last) break;
        const Real factor = exp2(tile.reference[r * call.blocks + block] - maximum) * inverse;
        const Index first = larger(keys.first, start);
        const Index last = smaller(keys.last, start + kBlock);
        if (columns.columns == columns.keys) {
            add_scaled(kept + first, last - first, factor, to + first);
        } else if (columns.one_key_each()) {
            for (Index j = first; j < last; ++j) to[columns.of[j]] += kept[j] * factor;
        } else {
            const Index first_column = columns.of[first], last_column = columns.of[last - 1];
            add_scaled(kept + columns.slot(block, first_column), last_column - first_column + 1,
                       factor, to + first_column);
        }
    }
}

// The strongest keys of a row. In a row that is not finite every weight is NaN, and the first keys
// come first.
inline void write_top(const Call& call, const Tile& tile, Index r, Real maximum, Real inverse,
                      Index at) {
    const Index top = call.seen.top, listed = vectors_of(top) * kLanes;
    Real* best = tile.best + r * listed;
    Whole* best_keys = tile.best_keys + r * listed;
    if (is_nan(inverse)) {
        Index n = 0;
        for (Index j = tile.keys[r].first; j < tile.keys[r].last && n < top; ++j) {
            if (allowed_by_mask(call.problem, tile.b, tile.head[r], tile.query[r], j)) {
                best_keys[n++] = static_cast<Whole>(j);
            }
        }
        for (; n < top; ++n) best_keys[n] = -1;
    }
    for (Index n = 0; n < top; n += kLanes) {
        store(best + n, exp2(load(best + n) - all(maximum)) * all(inverse));
    }
    std::int64_t* keys = call.seen.top_keys ? call.seen.top_keys + at * top : nullptr;
    Real* weights = call.seen.top_weights ? call.seen.top_weights + at * top : nullptr;
    for (Index n = 0; keys && n < top; ++n) keys[n] = best_keys[n];
    for (Index n = 0; weights && n < top; ++n) weights[n] = best_keys[n] < 0 ? 0.0f : best[n];
}

inline bool has_key(const Call& call, const Tile& tile, Index r) {
    for (Index j = tile.keys[r].first; j < tile.keys[r].last; ++j) {
        if (allowed_by_mask(call.problem, tile.b, tile.head[r], tile.query[r], j)) return true;
    }
    return false;
}

// Write out every row of a tile. `maps` has one entry for each head of the tile, from its first on.
inline void finish(const Call& call, Tile& tile, const MapRows* maps) {
    const Problem& problem = call.problem;
    const Seen& seen = call.seen;
    for (Index r = 0; r < tile.rows; ++r) {
        const Index b = tile.b, h = tile.head[r], i = tile.query[r];
        const Index at = (b * problem.heads + h) * problem.queries + i;
        Real maximum = tile.maximum[r];
        // Not one key; if there is one, all scores fell below what a Real can hold.
        const bool none = tile.total[r] == 0 && !has_key(call, tile, r);
        Real total = none || tile.total[r] != 0 ? tile.total[r] : not_a_number();
        Real own = 1.0f;  // what remains of the keys' sums when a sink sets the maximum
        if (!none && problem.sinks) {
            const Real given = in_base_2(problem.sinks[h]);
            const Real sink = is_nan(given) ? not_a_number() : given;
            if (!(sink <= maximum)) {
                own = exp2(maximum - sink);
                maximum = sink;
            }
            total = total * own + exp2(sink - maximum);
        }
        if (!none && tile.spoilt[r]) total = not_a_number();
        const Real inverse = none ? 0.0f : 1.0f / total;

        const Real factor = own * inverse;
        write_row(tile.output + r * call.padded_width, problem.value_width,
                  factor * call.drops.growth, call.output, b, h, i);

        if (call.maxima) {
            call.maxima[at] = none ? -infinity() : is_nan(total) ? total : maximum;
            call.inverses[at] = inverse;
        }
        const Real log_total = seen.lse || seen.entropy ? logarithm(total) : 0.0f;
        if (seen.lse) {
            // In double: the maximum may be large, and its logarithm's digits count.
            seen.lse[at] =
                none ? -infinity()
                     : static_cast<Real>(static_cast<double>(maximum) * 0.693147180559945309417 +
                                         static_cast<double>(log_total));
        }
        if (seen.entropy) {
            // −Σ w ln w with w = 2^t/total: the moment is relative to the keys' own maximum.
            const Real shift = own == 1.0f ? 0.0f : tile.maximum[r] - maximum;
            const Real moment = tile.moment[r] + (shift != 0 ? shift * tile.total[r] : 0.0f);
            const Real entropy = factor * (tile.total[r] * log_total - kLn2 * moment);
            // With all weight on a sink there is none left to be spread.
            seen.entropy[at] = none || (own == 0 && !is_nan(total)) ? 0.0f
                               : is_nan(entropy)                    ? entropy
                                                                    : larger(entropy, 0.0f);
        }
        if (seen.distance) seen.distance[at] = none ? 0.0f : tile.away[r] * factor;
        if (seen.top) write_top(call, tile, r, maximum, inverse, at);
        if (seen.map && !none && counts(seen, b, i)) {
            add_to_map(call, tile, r, maximum, inverse, maps[h - tile.head[0]]);
        }
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
