// Packed sequences: each segment's keys in panels of their own, and its queries in tiles of their
// own. So the blocks of a row begin with its segment, whatever stands before it.
#pragma once

#include <algorithm>

#include "tile.h"

namespace regard::REGARD_KERNEL {
namespace {

// The keys of query i's segment, whatever else it is allowed.
inline Interval segment_keys(const Problem& problem, Index b, Index i) {
    const Index* segment = segment_of(problem.segments, b, i);
    const Interval keys{larger(0, segment[0]), smaller(segment[1], problem.keys)};
    return keys.empty() ? Interval{} : keys;
}

// How many queries from i on, at most `most`, look at the same segment.
inline Index queries_alike(const Problem& problem, Index b, Index i, Index most) {
    if (!problem.segments.data) return most;
    const Interval keys = segment_keys(problem, b, i);
    Index count = 1;
    for (; count < most; ++count) {
        const Interval other = segment_keys(problem, b, i + count);
        if (other.first != keys.first || other.last != keys.last) break;
    }
    return count;
}

// Where the keys of sequence b lie in the panels, whatever the order of the queries. Segments that
// overlap, or are so short that they would fill more than twice the room, lie as they came.
inline Layout layout_of(const Call& call, Index b, Scratch& scratch) {
    const Problem& problem = call.problem;
    Layout plain;
    plain.padded_keys = round_up(problem.keys, kPanel);
    if (!problem.segments.data || problem.queries <= kTile) return plain;
    Layout found;
    const auto each = [&](auto work) {
        for (Index i = 0; i < problem.queries;) {
            const Interval keys = segment_keys(problem, b, i);
            if (!keys.empty()) work(keys);
            i += queries_alike(problem, b, i, problem.queries - i);
        }
    };
    each([&](Interval) { ++found.count; });
    found.segments = scratch.take<Segment>(found.count);
    Segment* end = found.segments;
    each([&](Interval keys) { *end++ = {keys.first, keys.last, 0}; });
    std::sort(found.segments, end, [](const Segment& one, const Segment& other) {
        return one.first != other.first ? one.first < other.first : one.last < other.last;
    });
    end = std::unique(found.segments, end, [](const Segment& one, const Segment& other) {
        return one.first == other.first && one.last == other.last;
    });
    found.count = end - found.segments;
    for (Segment* segment = found.segments; segment < end; ++segment) {
        if (segment > found.segments && segment->first < segment[-1].last) return plain;
        segment->shift = found.padded_keys - segment->first;
        found.padded_keys += round_up(segment->last - segment->first, kPanel);
    }
    return found.count && found.padded_keys <= 2 * plain.padded_keys ? found : plain;
}

// work(first, last, shift) for the keys of a piece [begin, end) of them: key j lies at j + shift.
// A segment that is cut is cut between panels, so that its parts are in neighbouring pieces.
template <typename Work>
inline void each_packed(const Layout& layout, Index begin, Index end, Work work) {
    if (!layout.segments) {
        work(begin, end, Index{0});
        return;
    }
    const auto cut = [](const Segment& segment, Index key) {
        if (key <= segment.first) return segment.first;
        return smaller(segment.last, segment.first + round_up(key - segment.first, kPanel));
    };
    for (Index n = layout.segment_before(begin); n < layout.count; ++n) {
        const Segment& segment = layout.segments[n];
        if (segment.first >= end) break;
        const Index first = cut(segment, begin), last = cut(segment, end);
        if (first < last) work(first, last, segment.shift);
    }
}

// Have the blocks of a tile, all of whose queries look at one segment, begin with it. Returns the
// segment if it lies apart from the others.
inline const Segment* begin_with_segment(const Call& call, const Layout& layout, Tile& tile) {
    tile.origin = tile.shift = 0;
    if (!call.problem.segments.data) return nullptr;
    const Interval keys = segment_keys(call.problem, tile.b, tile.query[0]);
    if (keys.empty()) return nullptr;
    if (!layout.segments) {
        tile.origin = keys.first / kPanel * kPanel;
        return nullptr;
    }
    const Segment* segment = layout.segments + layout.segment_before(keys.first);
    tile.origin = keys.first;
    tile.shift = segment->shift;
    return segment;
}

// Have the segments lie in the same room, one at a time, where it stays in the caches.
inline void take_turns(Layout& layout) {
    if (!layout.segments) return;
    layout.in_turn = true;
    layout.padded_keys = 0;
    for (Segment* segment = layout.segments; segment < layout.segments + layout.count; ++segment) {
        segment->shift = -segment->first;
        const Index room = round_up(segment->last - segment->first, kPanel);
        layout.padded_keys = larger(layout.padded_keys, room);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
