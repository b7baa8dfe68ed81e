// The queries of a tile on their way through the keys: scores, online softmax, output, and what was
// seen. How a row fares never depends on the other rows of its tile.
#pragma once

#include "bins.h"
#include "drop.h"
#include "rows.h"
#include "scratch.h"
#include "spans.h"
#include "sums.h"
#include "threads.h"
#include "top.h"
#if defined(REGARD_AMX)
#include "tiles_amx.h"
#endif

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kTile = 96;  // rows at most, whose strips share what they read of K and V

// What a call asks for, worked out once.
struct Call {
    const Problem& problem;
    const Seen& seen;
    RowsOut output;

    Index group = problem.kv_heads ? problem.heads / problem.kv_heads : 0;
    Index blocks = (problem.keys + kBlock - 1) / kBlock;
    Index padded_width = round_up(problem.value_width, kPanel);
    Real factor = query_factor(problem);
    bool extras = has_extras(problem);
    // Neither mask, choice nor bias differs from query to query: one row serves a whole block.
    bool extra_shared = problem.mask.strides[2] == 0 && problem.chosen.strides[2] == 0 &&
                        problem.bias.strides[2] == 0;
    Drops drops{problem.dropout};
    Columns columns{};                // of the map
    const Labels* labels = nullptr;   // of each sequence, or of all: see labels_of()
    const Real* log_norms = nullptr;  // (batch, norm_heads, keys)
    Index norm_heads = 0;
    Real* maxima =
        nullptr;  // (batch, heads, queries): for `received`, 2^(score − maximum) · inverse
    Real* inverses = nullptr;
#if defined(REGARD_AMX)
    bool tiles = false;  // all numbers are bfloat16, and multiplied by tiles
#endif

    const Labels& labels_of(Index b) const { return labels[seen.labels_stride ? b : 0]; }

    // log2 of the norms of a head's values, from key 0 on.
    const Real* log_norms_of(Index b, Index h) const {
        const Index shared = problem.heads / norm_heads;
        return log_norms + (b * norm_heads + h / shared) * problem.keys;
    }
};

// Keys [first, last) of a packed sequence; key j lies at j + shift in the panels.
struct Segment {
    Index first, last, shift;
};

// Where the keys of a sequence lie in the panels: as they came, or, where there are `segments`,
// each of which begins with a panel, one behind the other or `in_turn` in the same place.
struct Layout {
    Index padded_keys = 0;
    Segment* segments = nullptr;
    Index count = 0;
    bool in_turn = false;

    // The last segment that begins at `key` or before it; the first if there is none.
    Index segment_before(Index key) const {
        Index first = 0, last = count;
        while (last - first > 1) {
            const Index middle = first + (last - first) / 2;
            (segments[middle].first <= key ? first : last) = middle;
        }
        return first;
    }
};

// K and V of one key head as the tiles read them.
struct Packed {
    Layout layout;
    Real* k = nullptr;  // panels of kPanel keys
    Real* v = nullptr;  // panels of kPanel columns
    BadKeys bad_k, bad_v;
    const void* values = nullptr;  // V as it came, for what is not finite
#if defined(REGARD_AMX)
    // In place of k and v, where the products are made by tiles:
    BFloat16* k_tiles = nullptr;
    BFloat16* v_tiles = nullptr;
    std::uint8_t* odd = nullptr;     // of each panel: whether a key of it is odd
    const BFloat16* keys = nullptr;  // K as it came, for what is odd
#endif
};

struct MapRows;

// The row of a map whose queries are going by. It may go on in the next tile.
struct MapRow {
    const MapRows* map = nullptr;  // the map that it is of; null: none
    Index row = 0, count = 0;      // how many queries it holds
    Sums sums;                     // [map_columns]
};

// The strongest keys of every row of a tile, as they are sorted so far.
struct Lists {
    Index count = 0, listed = 0;  // of a row: how many are asked for, and for how many is room
    Real* best = nullptr;         // [rows][listed]
    Whole* keys = nullptr;

    Lists() = default;
    Lists(Index asked, Index rows, Scratch& scratch)
        : count(asked), listed(vectors_of(asked) * kLanes) {
        best = scratch.take<Real>(rows * listed);
        keys = scratch.take<Whole>(rows * listed);
    }

    void clear(Index rows) {
        for (Index n = 0; n < rows * listed; ++n) {
            best[n] = -infinity();
            keys[n] = -1;
        }
    }
};

// One row of state for each query of the tile.
struct Tile {
    Index rows = 0;
    Index b = 0;
    Index origin = 0;  // the key at which block 0 begins
    Index shift = 0;   // key j lies at j + shift in the panels
    std::int32_t* head;
    std::int32_t* query;
    Interval* keys;
    Real* q;             // [rows][width], times the factor
    bool* spoilt;        // q holds something not finite
    Real* scores;        // [rows][kScoreStride]
    Real* output;        // [rows][padded_width], relative to `maximum`
    Real* maximum;       // of the scores so far
    Real* total;         // Σ 2^(score − maximum)
    Real* moment;        // Σ 2^t · t, t = score − maximum
    Real* away;          // Σ 2^t · |p − j|
    Real* rescale;       // by how much the last block turned what was summed before
    Lists top;           // by score
    Lists contribution;  // by score + log2 ‖v‖, …
    Real* shifted;       // [kStrip][kScoreStride]: … which these are, of a strip
    Sums spans;          // [rows][span_count], relative to `maximum`
    Real* reference;     // [rows][blocks]: the maximum in use in each block
    Real* column_sums;   // [rows][slots]
    MapRow map_row;
    Real* extra;  // [kBlock]: what is added to the scores of …
    Index extra_head = -1, extra_first = 0, extra_last = 0;  // … these keys, for every query
    Candidates* found;
#if defined(REGARD_AMX)
    BFloat16* q_tiles = nullptr;       // [rows][width, up to whole tiles], as they came
    BFloat16* weight_tiles = nullptr;  // [2][kAmxStrip][kBlock]
    bool* odd = nullptr;               // q is odd
#endif

    // Parts of the same queries share what they keep for each block of keys: `first` has it.
    Tile(const Call& call, Index capacity, Scratch& scratch, const Tile* first = nullptr) {
        const Problem& problem = call.problem;
        const Seen& seen = call.seen;
        head = scratch.take<std::int32_t>(capacity);
        query = scratch.take<std::int32_t>(capacity);
        keys = scratch.take<Interval>(capacity);
        q = scratch.take<Real>(capacity * problem.width);
        spoilt = scratch.take<bool>(capacity);
        Index scored = capacity;
#if defined(REGARD_AMX)
        if (call.tiles) {
            scored = round_up(capacity, kAmxStrip);
            q_tiles = scratch.take<BFloat16>(scored * round_up(problem.width, kAmxInner));
            weight_tiles = scratch.take<BFloat16>(2 * kAmxStrip * kBlock);
            odd = scratch.take<bool>(capacity);
        }
#endif
        scores = scratch.take<Real>(scored * kScoreStride);
        output = scratch.take<Real>(capacity * call.padded_width);
        maximum = scratch.take<Real>(capacity);
        total = scratch.take<Real>(capacity);
        moment = scratch.take<Real>(capacity);
        away = scratch.take<Real>(capacity);
        rescale = scratch.take<Real>(capacity);
        top = Lists(seen.top, capacity, scratch);
        contribution = Lists(seen.contribution, capacity, scratch);
        shifted = scratch.take<Real>(seen.contribution ? kStrip * kScoreStride : 0);
        if (seen.spans) spans = Sums(capacity * seen.span_count, scratch);
        const Index kept = seen.map && !first ? capacity : 0;
        reference = first ? first->reference : scratch.take<Real>(kept * call.blocks);
        column_sums = first ? first->column_sums : scratch.take<Real>(kept * call.columns.slots());
        if (kept) map_row.sums = Sums(seen.map_columns, scratch);
        extra = scratch.take<Real>(call.extras ? kBlock : 0);
        found = scratch.take<Candidates>(seen.top || seen.contribution ? 1 : 0);
        if (call.extras) {
            for (Index n = 0; n < kBlock; ++n) extra[n] = 0.0f;
        }
    }
};

#if defined(REGARD_AMX)
// Row r as the tiles read it: 0 if it is spoilt.
inline void add_to_tiles(const Problem& problem, Tile& tile, Index r, const void* query) {
    const Index inner = round_up(problem.width, kAmxInner);
    const auto* from = static_cast<const BFloat16*>(query);
    tile.odd[r] = !tile.spoilt[r] && look_at_factor(from, problem.width).odd;
    for (Index d = 0; d < inner; d += kAmxInner) {
        _mm512_storeu_si512(
            tile.q_tiles + r * inner + d,
            tile.spoilt[r] ? _mm512_setzero_si512() : load_shorts(from + d, problem.width - d));
    }
}
#endif

// Begin with queries [first, first + rows) of head h; more heads may be added to the same tile.
inline void add_queries(const Call& call, Tile& tile, Index b, Index h, Index first, Index rows) {
    const Problem& problem = call.problem;
    const Rows& q = problem.q;
    tile.b = b;
    tile.extra_head = -1;
    for (Index n = 0; n < rows; ++n) {
        const Index r = tile.rows + n, i = first + n;
        tile.head[r] = static_cast<std::int32_t>(h);
        tile.query[r] = static_cast<std::int32_t>(i);
        tile.keys[r] = allowed_keys(problem, b, i);
        tile.spoilt[r] = with_numbers(q.type, row_of(q, b, h, i), [&](const auto* row) {
            return pack_query(row, problem.width, call.factor, tile.q + r * problem.width);
        });
#if defined(REGARD_AMX)
        if (call.tiles) add_to_tiles(problem, tile, r, row_of(q, b, h, i));
#endif
    }
    tile.rows += rows;
}

inline void clear_state(const Call& call, Tile& tile) {
    for (Index r = 0; r < tile.rows; ++r) {
        tile.maximum[r] = -infinity();
        tile.total[r] = tile.moment[r] = tile.away[r] = 0.0f;
    }
    __builtin_memset(tile.output, 0,
                     sizeof(Real) * static_cast<std::size_t>(tile.rows * call.padded_width));
    tile.top.clear(tile.rows);
    tile.contribution.clear(tile.rows);
    if (call.seen.spans) tile.spans.clear(tile.rows * call.seen.span_count);
}

// What any of a strip's rows is allowed of the keys [start, end) of a block, counted from `start`.
inline Interval allowed_part(const Tile& tile, Index row, Index rows, Index start, Index end) {
    Interval allowed{end, start};
    for (Index r = row; r < row + rows; ++r) {
        if (tile.keys[r].empty()) continue;
        allowed.first = smaller(allowed.first, larger(tile.keys[r].first, start));
        allowed.last = larger(allowed.last, smaller(tile.keys[r].last, end));
    }
    return {allowed.first - start, allowed.last - start};
}

// Scores of a strip, from row `row` on, for the keys that it is allowed; `panels` begin with the
// block.
inline void score_rows(Tile& tile, Index row, Index rows, Interval allowed, const Real* panels,
                       Index width) {
    for (Index n = allowed.first / kPanel * kPanel; n < allowed.last; n += kPanel) {
        strip<Score>(rows, tile.q + row * width, width, panels + n * width, width,
                     tile.scores + row * kScoreStride + n);
    }
}

// What the weights of a strip give its output.
inline void output_rows(const Call& call, Tile& tile, Index row, Index rows, Interval allowed,
                        const Packed& packed, Index start) {
    const Real* values = packed.v + (start + tile.shift + allowed.first) * kPanel;
    for (Index d = 0; d < call.padded_width; d += kPanel) {
        strip<Weigh>(rows, tile.scores + row * kScoreStride + allowed.first,
                     values + d * packed.layout.padded_keys, allowed.last - allowed.first,
                     tile.rescale + row, tile.output + row * call.padded_width + d,
                     call.padded_width);
    }
}

// What a row's scores become before the softmax, for keys [first, last) of the block at `start`;
// `wide_first` and `wide_last` are these bounds, widened to whole vectors.
inline void finish_scores(const Call& call, Tile& tile, Index r, const BadKeys& bad, Index start,
                          Index first, Index last, Index wide_first, Index wide_last,
                          Real* scores) {
    const Problem& problem = call.problem;
    const Index b = tile.b, h = tile.head[r], i = tile.query[r];
    if (call.extras) {
        if (!call.extra_shared || tile.extra_head != h || tile.extra_first != start + first ||
            tile.extra_last != start + last) {
            fill_extra(problem, b, h, i, start + first, last - first, tile.extra + first);
            tile.extra_head = h;
            tile.extra_first = start + first;
            tile.extra_last = start + last;
        }
        apply_extra(problem, tile.extra + wide_first, wide_last - wide_first, scores + wide_first);
    }
    shut_out(scores, first, last, wide_first, wide_last);
    if (bad.count) {
        for (Index n = bad.from(start + first); n < bad.count && bad.keys[n] < start + last; ++n) {
            if (allowed_by_mask(problem, b, h, i, bad.keys[n])) {
                scores[bad.keys[n] - start] = not_a_number();
            }
        }
    }
}

// The part of a row that lies in a block: keys [first, last) of it, and the same widened to whole
// vectors.
struct Part {
    Index first, last;
    Index wide_first = 0, wide_last = 0;
    LaneMaxima maxima;  // this and what follows only of a part that is not empty
    Real highest;
    Passing passing;

    bool empty() const { return first >= last; }
    Index count() const { return wide_last - wide_first; }
};

// The strongest keys of the rows of a strip; `scores` are those of its first row.
__attribute__((noinline)) void see_strongest(const Lists& lists, Candidates& found, Index row,
                                             Index rows, Index start, const Real* scores,
                                             Part* parts) {
    for (Index n = 0; n < rows; ++n) {
        Part& part = parts[n];
        if (part.empty()) continue;
        find_strongest(lists.best + (row + n) * lists.listed, lists.count,
                       scores + n * kScoreStride + part.wide_first, part.count(), part.maxima,
                       part.highest, part.passing);
    }
    for (Index n = 0; n < rows; ++n) {
        const Part& part = parts[n];
        if (part.empty() || !part.passing.some) continue;
        take_strongest(lists.best + (row + n) * lists.listed, lists.keys + (row + n) * lists.listed,
                       lists.count, scores + n * kScoreStride + part.wide_first,
                       static_cast<Whole>(start + part.wide_first), part.passing, found);
    }
}

// The same by what they contribute: a key whose value is not finite comes before all others.
__attribute__((noinline)) void see_contribution(const Call& call, Tile& tile, Index row, Index rows,
                                                Index start, const Part* parts) {
    Part shifted[kStrip];
    for (Index n = 0; n < rows; ++n) {
        Part& part = shifted[n] = parts[n];
        if (part.empty()) continue;
        const Real* scores = tile.scores + (row + n) * kScoreStride;
        const Real* norms = call.log_norms_of(tile.b, tile.head[row + n]) + start;
        Real* to = tile.shifted + n * kScoreStride;
        for (Index m = part.wide_first; m < part.wide_last; m += kLanes) {
            // Behind the last key there are no norms to be read.
            const bool whole = m >= part.first && m + kLanes <= part.last;
            Vector norm = all(-infinity());
            if (whole) {
                norm = load(norms + m);
            } else {
                for (Index c = larger(m, part.first); c < smaller(m + kLanes, part.last); ++c) {
                    norm[c - m] = norms[c];
                }
            }
            const Vector score = load(scores + m);
            const Vector sum = smaller(all(kLargest), score + norm);
            const Vector real = norm == norm ? sum : all(kLargest);
            store(to + m, score == all(-infinity()) ? score : real);
        }
        part.maxima = lane_maxima(to + part.wide_first, part.count());
        part.highest = maximum(part.maxima.lanes());
    }
    see_strongest(tile.contribution, *tile.found, row, rows, start, tile.shifted, shifted);
}

// The online softmax of one row in one block: scores become weights relative to the new maximum.
inline void soften_row(const Call& call, Tile& tile, Index r, const Part& part, Index block) {
    const Seen& seen = call.seen;
    const Index start = tile.origin + block * kBlock;
    Real* scores = tile.scores + r * kScoreStride;
    Real* row = scores + part.wide_first;
    const Real before = tile.maximum[r];
    const Real now = part.highest > before ? part.highest : before;
    const Real reference = now == -infinity() ? 0.0f : now;
    const Real rescale = now == before           ? 1.0f
                         : before == -infinity() ? 0.0f
                                                 : exp2(before - reference);
    Real moment = 0;
    const Real total = seen.entropy ? exponentials<true>(row, part.count(), reference, moment)
                                    : exponentials<false>(row, part.count(), reference, moment);
    if (seen.entropy && tile.total[r] != 0) {
        moment += rescale * (tile.moment[r] + tile.total[r] * (before - now));
    }
    tile.moment[r] = moment;
    tile.total[r] = tile.total[r] * rescale + total;
    tile.maximum[r] = now;
    tile.rescale[r] = rescale;
    if (seen.distance) {
        const Index p = position_of(call.problem, tile.b, tile.query[r]);
        tile.away[r] = tile.away[r] * rescale +
                       weighted_distance(row, part.count(), start + part.wide_first, p);
    }
    if (seen.spans) {
        const Index at = r * seen.span_count;
        for (Index n = 0; rescale != 1.0f && n < seen.span_count; ++n) {
            tile.spans.scale(at + n, rescale);
        }
        sum_spans(call.labels_of(tile.b), scores, start, start + part.first, start + part.last,
                  seen.span_count, tile.spans, at);
    }
    if (seen.map) {
        tile.reference[r * call.blocks + block] = now;
        sum_columns(call.columns, block, scores, start, start + part.first, start + part.last,
                    tile.column_sums + r * call.columns.slots());
    }
}

// The online softmax of every row of a strip; outside of a row's own keys the weights become 0.
inline void soften_strip(const Call& call, Tile& tile, Index row, Index rows, const BadKeys& bad,
                         Index block, Index end, Interval allowed) {
    const Index start = tile.origin + block * kBlock;
    Part parts[kStrip];
    for (Index n = 0; n < rows; ++n) {
        Part& part = parts[n];
        const Index r = row + n;
        part.first = larger(tile.keys[r].first, start) - start;
        part.last = smaller(tile.keys[r].last, end) - start;
        if (part.empty()) continue;
        part.wide_first = part.first / kLanes * kLanes;
        part.wide_last = round_up(part.last, kLanes);
        Real* scores = tile.scores + r * kScoreStride;
        finish_scores(call, tile, r, bad, start, part.first, part.last, part.wide_first,
                      part.wide_last, scores);
        part.maxima = lane_maxima(scores + part.wide_first, part.count());
        part.highest = maximum(part.maxima.lanes());
    }
    if (call.seen.top) {
        see_strongest(tile.top, *tile.found, row, rows, start, tile.scores + row * kScoreStride,
                      parts);
    }
    if (call.seen.contribution) see_contribution(call, tile, row, rows, start, parts);
    for (Index n = 0; n < rows; ++n) {
        const Part& part = parts[n];
        const Index r = row + n;
        Real* scores = tile.scores + r * kScoreStride;
        if (part.empty()) {
            clear_cells(scores, allowed.first, allowed.last);
            tile.rescale[r] = 1.0f;
            continue;
        }
        soften_row(call, tile, r, part, block);
        if (call.drops.any) {
            drop_row(call.drops, tile.b, tile.head[r], tile.query[r], start + part.wide_first,
                     part.count(), scores + part.wide_first);
        }
        // What was shut out is 0 by now.
        clear_cells(scores, allowed.first, part.wide_first);
        clear_cells(scores, part.wide_last, allowed.last);
    }
}

// Values that are not finite were packed as 0: add them to the rows that may attend to them.
inline void add_bad_values(const Call& call, Tile& tile, const Packed& packed, Index start,
                           Index end) {
    const Problem& problem = call.problem;
    const BadKeys& bad = packed.bad_v;
    with_numbers(problem.v.type, packed.values, [&](const auto* values) {
        for (Index n = bad.from(start); n < bad.count && bad.keys[n] < end; ++n) {
            const Index j = bad.keys[n];
            const auto* value = values + j * problem.v.strides[2];
            for (Index r = 0; r < tile.rows; ++r) {
                if (j < tile.keys[r].first || j >= tile.keys[r].last ||
                    !allowed_by_mask(problem, tile.b, tile.head[r], tile.query[r], j)) {
                    continue;
                }
                const Real weight = tile.scores[r * kScoreStride + j - start];
                Real* output = tile.output + r * call.padded_width;
                for (Index d = 0; d < problem.value_width; ++d) {
                    output[d] += weight * to_real(value[d]);
                }
            }
        }
    });
}

// The keys that any row of the tile is allowed.
inline Interval allowed_keys(const Call& call, const Tile& tile) {
    Interval keys{call.problem.keys, 0};
    for (Index r = 0; r < tile.rows; ++r) {
        if (tile.keys[r].empty()) continue;
        keys.first = smaller(keys.first, tile.keys[r].first);
        keys.last = larger(keys.last, tile.keys[r].last);
    }
    return keys;
}

// Through the keys, block by block; in a block strip by strip, whose scores stay in the L1 from
// one step to the next while the block's K and V stay in the L2.
inline void attend(const Call& call, Tile& tile, const Packed& packed) {
    const Problem& problem = call.problem;
    check_interrupt();
    clear_state(call, tile);
    const Interval keys = allowed_keys(call, tile);
    for (Index block = (keys.first - tile.origin) / kBlock;; ++block) {
        const Index start = tile.origin + block * kBlock;
        if (start >= keys.last) break;
        const Index end = smaller(start + kBlock, problem.keys);
        const Real* panels = packed.k + (start + tile.shift) * problem.width;
        for (Index row = 0; row < tile.rows; row += kStrip) {
            const Index rows = smaller(kStrip, tile.rows - row);
            const Interval allowed = allowed_part(tile, row, rows, start, end);
            if (allowed.empty()) continue;
            score_rows(tile, row, rows, allowed, panels, problem.width);
            soften_strip(call, tile, row, rows, packed.bad_k, block, end, allowed);
            output_rows(call, tile, row, rows, allowed, packed, start);
        }
        if (packed.bad_v.count) add_bad_values(call, tile, packed, start, end);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
