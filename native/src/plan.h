// How the queries are cut: from their number alone, so that no sum depends on the batch or the
// threads.
#pragma once

#include "finish.h"
#include "segments.h"
#if defined(REGARD_AMX)
#include "attend_amx.h"
#endif

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kSpans = 64;  // of one head's queries, at most: what threads share out
// The same where segments cut the queries, too: longer spans hold more tiles that are whole.
constexpr Index kSpansOfSegments = 16;

// Several whole heads of a group to a tile if they fit, else several tiles to a span of one head.
struct Plan {
    Index heads_in_tile = 1, tiles_in_head = 1, tiles_in_span = 1, spans = 1;

    explicit Plan(const Problem& problem) {
        const Index queries = problem.queries;
        const Index most = problem.segments.data ? kSpansOfSegments : kSpans;
        if (queries <= kTile) {
            heads_in_tile = kTile / larger(queries, 1);
        } else {
            tiles_in_head = (queries + kTile - 1) / kTile;
            tiles_in_span = (tiles_in_head + most - 1) / most;
            spans = (tiles_in_head + tiles_in_span - 1) / tiles_in_span;
        }
    }

    // The first query of span s of sequence b; of the one behind the last, the number of queries.
    // With segments it is the first of a tile, so that none is cut in two, if the segment begins
    // within the span before.
    Index begin(const Problem& problem, Index b, Index s) const {
        const Index span = tiles_in_span * kTile, at = smaller(s * span, problem.queries);
        if (!problem.segments.data || s == 0 || at == problem.queries) return at;
        const Interval keys = segment_keys(problem, b, at);
        Index first = at;
        for (; first > at - span; --first) {
            const Interval other = segment_keys(problem, b, first - 1);
            if (other.first != keys.first || other.last != keys.last) break;
        }
        return first > at - span ? first + (at - first) / kTile * kTile : at;
    }

    // How many pieces of work a group of heads makes.
    Index pieces(Index group) const {
        return spans > 1 ? group * spans : (group + heads_in_tile - 1) / heads_in_tile;
    }
};

// Room for the maps of the heads [first, first + heads).
struct Maps {
    MapRows* rows = nullptr;  // [heads][spans]
    Index spans = 0;

    Maps() = default;
    Maps(const Call& call, const Plan& plan, Index first, Index heads, Scratch& scratch) {
        const Seen& seen = call.seen;
        if (!seen.map) return;
        spans = plan.spans;
        const Index cells = seen.map_rows * seen.map_columns;
        const Index edge = 2 * seen.map_columns;
        Real* means = seen.map + first * cells;
        auto* edge_sums = scratch.take<Real>(heads * spans * edge);
        auto* edge_counts = scratch.take<std::int32_t>(heads * spans * 2);
        rows = scratch.take<MapRows>(heads * spans);
        for (Index n = 0; n < heads * cells; ++n) means[n] = 0.0f;
        for (Index n = 0; n < heads * spans * edge; ++n) edge_sums[n] = 0.0f;
        for (Index n = 0; n < heads * spans * 2; ++n) edge_counts[n] = 0;
        const Problem& problem = call.problem;
        for (Index h = 0; h < heads; ++h) {
            const Index b = (first + h) / problem.heads;
            for (Index s = 0; s < spans; ++s) {
                rows[h * spans + s] = {means + h * cells, map_row(call, plan.begin(problem, b, s)),
                                       map_row(call, plan.begin(problem, b, s + 1) - 1),
                                       edge_sums + (h * spans + s) * edge,
                                       edge_counts + (h * spans + s) * 2};
            }
        }
    }

    // The map of head h of these: the spans' edges, whose rows never get smaller from one to the
    // next, are added in order, and means made of the sums.
    void finish(const Call& call, Index h) const {
        const Index columns = call.seen.map_columns;
        double room[2 * kBlock];
        Sums sums;
        sums.sums = room;
        sums.lost = room + kBlock;
        for (Index first = 0; first < columns; first += kBlock) {
            const Index wide = smaller(kBlock, columns - first);
            for (Index edge = 0; edge < 2 * spans;) {
                const Index row = edge_row(h, edge);
                Index queries = 0;
                sums.clear(wide);
                for (; edge < 2 * spans && edge_row(h, edge) == row; ++edge) {
                    const MapRows& map = rows[h * spans + edge / 2];
                    const Real* from = map.edge_sums + edge % 2 * columns + first;
                    queries += map.edge_counts[edge % 2];
                    for (Index c = 0; c < wide; ++c) sums.add(c, from[c]);
                }
                if (!queries) continue;
                const double inverse = 1.0 / static_cast<double>(queries);
                Real* to = rows[h * spans].means + row * columns + first;
                for (Index c = 0; c < wide; ++c) to[c] = static_cast<Real>(sums[c] * inverse);
            }
        }
    }

    // The row that edge n of head h, two for each span, is a part of.
    Index edge_row(Index h, Index n) const {
        const MapRows& map = rows[h * spans + n / 2];
        return n % 2 == 0 ? map.first : map.last;
    }
};

inline void attend_to(const Call& call, Tile& tile, const Packed& packed) {
#if defined(REGARD_AMX)
    if (call.tiles) return attend_by_tiles(call, tile, packed);
#endif
    attend(call, tile, packed);
}

// One piece of the work on a group of heads, whose first is `head`. Before a tile is attended to,
// use(segment) hears which segment it looks at, null if that does not lie apart.
template <typename Use>
inline void run_piece(const Call& call, const Plan& plan, const Packed& packed, Tile& tile, Index b,
                      Index head, Index piece, const MapRows* maps, Use use) {
    const Index queries = call.problem.queries;
    if (plan.spans > 1) {
        const Index nth = piece / plan.spans, span = piece % plan.spans;
        const Index last = plan.begin(call.problem, b, span + 1);
        for (Index i = plan.begin(call.problem, b, span); i < last; i += tile.rows) {
            const Index rows = queries_alike(call.problem, b, i, smaller(kTile, last - i));
            tile.rows = 0;
            add_queries(call, tile, b, head + nth, i, rows);
            use(begin_with_segment(call, packed.layout, tile));
            attend_to(call, tile, packed);
            finish(call, tile, maps ? maps + nth * plan.spans + span : nullptr);
        }
        end_map_row(call, tile.map_row);
        return;
    }
    const Index first = piece * plan.heads_in_tile;
    const Index heads = smaller(plan.heads_in_tile, call.group - first);
    tile.rows = 0;
    for (Index n = 0; n < heads; ++n) add_queries(call, tile, b, head + first + n, 0, queries);
    attend_to(call, tile, packed);
    finish(call, tile, maps ? maps + first : nullptr);
    end_map_row(call, tile.map_row);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
