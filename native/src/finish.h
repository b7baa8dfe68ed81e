// The end of a row: its sums become output, lse, entropy and the rest.
#pragma once

#include "tile.h"

namespace regard::REGARD_KERNEL {
namespace {

// The map of one head in the making. A span of queries keeps the rows at its ends, which it may
// share with its neighbours, to itself: as sums, and how many queries each of them holds.
struct MapRows {
    Real* means = nullptr;      // (map_rows, map_columns), of the head
    Index first = 0, last = 0;  // the rows at the ends
    Real* edge_sums = nullptr;  // (2, map_columns)
    std::int32_t* edge_counts = nullptr;

    bool is_edge(Index row) const { return row == first || row == last; }

    // Where the means of a row go, or, at an edge, its sums over `count` queries.
    Real* begin_row(Index row, Index count, Index columns) const {
        if (!is_edge(row)) return means + row * columns;
        const Index edge = row == first ? 0 : 1;
        edge_counts[edge] = static_cast<std::int32_t>(count);
        return edge_sums + edge * columns;
    }
};

inline Index map_row(const Call& call, Index query) {
    return query * call.seen.map_rows / call.problem.queries;
}

// The queries of a map's row have gone by, or those of them that this span has.
inline void end_map_row(const Call& call, MapRow& done) {
    if (!done.map) return;
    const Index columns = call.seen.map_columns;
    Real* to = done.map->begin_row(done.row, done.count, columns);
    const double factor = done.map->is_edge(done.row) ? 1.0 : 1.0 / static_cast<double>(done.count);
    for (Index c = 0; c < columns; ++c) to[c] = static_cast<Real>(done.sums[c] * factor);
    done.map = nullptr;
}

// What a row of weights gives to each column of a map: put(column, share), block by block.
template <typename Put>
inline void each_share(const Call& call, const Tile& tile, Index r, Real maximum, Real inverse,
                       Put put) {
    const Columns& columns = call.columns;
    const Real* kept = tile.column_sums + r * columns.slots();
    const Interval keys = tile.keys[r];
    if (is_nan(inverse)) {  // so is the weight of every key that it may attend to, and of no other
        for (Index j = keys.first; j < keys.last; ++j) {
            if (allowed_by_mask(call.problem, tile.b, tile.head[r], tile.query[r], j)) {
                put(columns.of[j], not_a_number());
            }
        }
        return;
    }
    for (Index block = (keys.first - tile.origin) / kBlock;; ++block) {
        const Index start = tile.origin + block * kBlock;
        if (start >= keys.last) break;
        const double factor = exp2(tile.reference[r * call.blocks + block] - maximum) * inverse;
        const Index first = larger(keys.first, start);
        const Index last = smaller(keys.last, start + kBlock);
        if (columns.columns == columns.keys) {
            for (Index j = first; j < last; ++j) put(j, factor * kept[j]);
        } else if (columns.one_key_each()) {
            for (Index j = first; j < last; ++j) put(columns.of[j], factor * kept[j]);
        } else {
            const Index last_column = columns.of[last - 1];
            const Real* sums = kept + columns.slot(block, 0);
            for (Index c = columns.of[first]; c <= last_column; ++c) put(c, factor * sums[c]);
        }
    }
}

// Queries come in their order, so that a row of the map is done when that of another comes.
inline void add_to_map(const Call& call, Tile& tile, Index r, Real maximum, Real inverse,
                       const MapRows& map) {
    const Index row = map_row(call, tile.query[r]);
    if (call.columns.one_key_each() && call.seen.map_rows >= call.problem.queries) {
        Real* to = map.begin_row(row, 1, call.seen.map_columns);  // nothing is added to anything
        each_share(call, tile, r, maximum, inverse,
                   [&](Index c, double share) { to[c] = static_cast<Real>(share); });
        return;
    }
    MapRow& to = tile.map_row;
    if (to.map != &map || to.row != row) {
        end_map_row(call, to);
        to.map = &map;
        to.row = row;
        to.count = 0;
        to.sums.clear(call.seen.map_columns);
    }
    ++to.count;
    Sums sums = to.sums;
    each_share(call, tile, r, maximum, inverse, [&](Index c, double share) { sums.add(c, share); });
}

// The strongest keys of a row, from `at` on of `keys` and `sizes`. In a row that is not finite
// every weight is NaN, and the first keys come first; so is what a key contributes whose norm, of
// which `log_norms` are the logarithms if there are any, is not finite.
inline void write_strongest(const Call& call, const Tile& tile, const Lists& lists, Index r,
                            Real maximum, Real inverse, const Real* log_norms, std::int64_t* keys,
                            Real* sizes) {
    const Index count = lists.count;
    Real* best = lists.best + r * lists.listed;
    Whole* best_keys = lists.keys + r * lists.listed;
    if (is_nan(inverse)) {
        Index n = 0;
        for (Index j = tile.keys[r].first; j < tile.keys[r].last && n < count; ++j) {
            if (log_norms && log_norms[j] == -infinity()) continue;
            if (allowed_by_mask(call.problem, tile.b, tile.head[r], tile.query[r], j)) {
                best_keys[n++] = static_cast<Whole>(j);
            }
        }
        for (; n < count; ++n) best_keys[n] = -1;
    }
    for (Index n = 0; n < count; n += kLanes) {
        store(best + n, exp2(load(best + n) - all(maximum)) * all(inverse));
    }
    for (Index n = 0; keys && n < count; ++n) keys[n] = best_keys[n];
    for (Index n = 0; sizes && n < count; ++n) {
        const Index key = best_keys[n];
        const bool spoilt = key >= 0 && log_norms && !(log_norms[key] - log_norms[key] == 0.0f);
        sizes[n] = key < 0 ? 0.0f : spoilt ? not_a_number() : best[n];
    }
}

// The weight of each span of keys, from the row's sums.
inline void write_spans(const Call& call, const Tile& tile, Index r, Real factor, Real* to) {
    const Index count = call.seen.span_count;
    for (Index n = 0; n < count; ++n) {
        to[n] = is_nan(factor) ? 0.0f : static_cast<Real>(tile.spans[r * count + n] * factor);
    }
    if (!is_nan(factor)) return;
    const std::int32_t* labels = call.labels_of(tile.b).of;  // so is the weight of every key
    for (Index j = tile.keys[r].first; j < tile.keys[r].last; ++j) {
        if (labels[j] >= 0 &&
            allowed_by_mask(call.problem, tile.b, tile.head[r], tile.query[r], j)) {
            to[labels[j]] = not_a_number();
        }
    }
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
        if (seen.max_logit) {
            seen.max_logit[at] = none                              ? -infinity()
                                 : tile.spoilt[r] || is_nan(total) ? not_a_number()
                                                                   : maximum * kLn2;
        }
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
        const auto list = [&](const Lists& lists, const Real* log_norms, auto* keys, Real* sizes) {
            if (!lists.count) return;
            write_strongest(call, tile, lists, r, maximum, inverse, log_norms,
                            keys ? keys + at * lists.count : nullptr,
                            sizes ? sizes + at * lists.count : nullptr);
        };
        list(tile.top, nullptr, seen.top_keys, seen.top_weights);
        list(tile.contribution, seen.contribution ? call.log_norms_of(b, h) : nullptr,
             seen.contribution_keys, seen.contributions);
        if (seen.spans) write_spans(call, tile, r, factor, seen.spans + at * seen.span_count);
        if (seen.map && !none && counts(seen, b, i)) {
            add_to_map(call, tile, r, maximum, inverse, maps[h - tile.head[0]]);
        }
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
