// The strongest keys of a row, kept sorted as its scores go by.
#pragma once

#include "rows.h"

namespace regard::REGARD_KERNEL {
namespace {

// How many vectors a sorted list takes.
inline Index vectors_of(Index top) { return (top + kLanes - 1) / kLanes; }

// Room for what may pass the floor in one block: all of it, and one vector more.
struct Candidates {
    Real scores[kBlock + kLanes];
    Whole keys[kBlock + kLanes];
    Index count = 0;
};

// Take what was found into a list of any length.
inline void insert_all(Real* scores, Whole* keys, Index vectors, const Candidates& found) {
    for (Index n = 0; n < found.count; ++n) {
        const Vector score = all(found.scores[n]);
        const Integers key = all(found.keys[n]);
        Real above = infinity();  // the last of the vector above, which moves in if that one moved
        Whole above_key = -1;
        for (Index at = 0; at < vectors * kLanes; at += kLanes) {
            const Vector old = load(scores + at);
            const Integers old_keys = load(keys + at);
            // What is smaller moves down by one, and the last falls out.
            Vector down = shift_lanes<1>(old, old);
            Integers down_keys = shift_lanes<1>(old_keys, old_keys);
            down[0] = above;
            down_keys[0] = above_key;
            store(keys + at, score > old ? (score > down ? down_keys : key) : old_keys);
            const Vector lower = score < down ? score : down;
            store(scores + at, old > lower ? old : lower);
            above = old[kLanes - 1];
            above_key = old_keys[kLanes - 1];
        }
    }
}

// Put two keys into their places at once, of which the first is the stronger, or as strong and the
// earlier: a chain of single ones would wait twice for the list.
template <int kVectors>
inline void insert_two(Vector* scores, Integers* keys, Vector first, Integers first_key,
                       Vector second, Integers second_key) {
    REGARD_UNROLL(16)
    for (int v = kVectors - 1; v >= 0; --v) {
        const Vector above = v == 0 ? all(infinity()) : scores[v - 1];
        const Integers above_keys = v == 0 ? keys[0] : keys[v - 1];
        const Vector down = shift_lanes<1>(above, scores[v]);
        const Vector down_two = shift_lanes<2>(above, scores[v]);
        const Integers down_keys = shift_lanes<1>(above_keys, keys[v]);
        const Integers down_two_keys = shift_lanes<2>(above_keys, keys[v]);
        const Integers moved = second > down_two ? down_two_keys : second_key;
        const Integers below = second > down ? moved : down_keys;
        keys[v] = first > scores[v] ? (first > down ? below : first_key) : keys[v];
        const Vector one = first < down ? first : down;
        const Vector two = second < down_two ? second : down_two;
        const Vector lower = one > two ? one : two;
        scores[v] = scores[v] > lower ? scores[v] : lower;
    }
}

// The same for a list of few vectors, which stay in registers.
template <int kVectors>
inline void insert_all(Real* scores, Whole* keys, Candidates& found) {
    Vector best[kVectors];
    Integers best_keys[kVectors];
    for (int v = 0; v < kVectors; ++v) {
        best[v] = load(scores + v * kLanes);
        best_keys[v] = load(keys + v * kLanes);
    }
    found.scores[found.count] = -infinity();
    for (Index n = 0; n < found.count; n += 2) {
        const Vector a = all(found.scores[n]), b = all(found.scores[n + 1]);
        const Integers a_key = all(found.keys[n]), b_key = all(found.keys[n + 1]);
        insert_two<kVectors>(best, best_keys, b > a ? b : a, b > a ? b_key : a_key, b > a ? a : b,
                             b > a ? a_key : b_key);
    }
    for (int v = 0; v < kVectors; ++v) {
        store(scores + v * kLanes, best[v]);
        store(keys + v * kLanes, best_keys[v]);
    }
}

// Which scores of a row in a block may be among its strongest.
struct Passing {
    std::uint64_t some = 0;             // a bit for each vector that has one, …
    Pattern patterns[kBlock / kLanes];  // … and one for each of its scores
};

// Those of `count` scores (a multiple of kLanes) that reach `floor`.
inline void find_passing(const Real* scores, Index count, Real floor, Passing& passing) {
    std::uint64_t some = 0;
    Index n = 0;
    const auto passes = [&](Index m) { return load(scores + m) >= all(floor); };
    for (; n + 4 * kLanes <= count; n += 4 * kLanes) {
        const std::uint64_t has =
            bits_of_four(passes(n), passes(n + kLanes), passes(n + 2 * kLanes),
                         passes(n + 3 * kLanes), passing.patterns + n / kLanes);
        some |= has << n / kLanes;
    }
    for (; n < count; n += kLanes) {
        const unsigned pattern = bits(passes(n));
        passing.patterns[n / kLanes] = static_cast<Pattern>(pattern);
        some |= static_cast<std::uint64_t>(pattern != 0) << n / kLanes;
    }
    passing.some = some;
}

// Their scores and keys; the row's scores begin with key `first`.
inline void gather(const Real* scores, Whole first, const Passing& passing, Candidates& found) {
    Index number = 0;
    for (std::uint64_t some = passing.some; some; some &= some - 1) {
        const int vector = __builtin_ctzll(some), at = vector * kLanes;
        number += compress(scores + at, first + at, passing.patterns[vector], found.scores + number,
                           found.keys + number);
    }
    found.count = number;
}

// Four vectors, sorted in every lane, the largest first.
struct Four {
    Vector v[4];

    explicit Four(const LaneMaxima& maxima) {
        for (int n = 0; n < 4; ++n) v[n] = maxima.vectors[n];
        order(0, 1), order(2, 3), order(0, 2), order(1, 3), order(1, 2);
    }

    void order(int a, int b) {
        const Vector high = larger(v[a], v[b]);
        v[b] = smaller(v[a], v[b]);
        v[a] = high;
    }

    // Of every lane and the one that is kBy further or before, the four largest of eight.
    template <int kBy>
    void take_best() {
        const Vector other[4] = {swap_lanes<kBy>(v[0]), swap_lanes<kBy>(v[1]),
                                 swap_lanes<kBy>(v[2]), swap_lanes<kBy>(v[3])};
        for (int n = 0; n < 4; ++n) v[n] = larger(v[n], other[3 - n]);
    }

    // What take_best() left falls and rises, or rises and falls.
    void sort_bitonic() { order(0, 2), order(1, 3), order(0, 1), order(2, 3); }
};

// A score that `top` of a row reach at least, found from its maxima alone; the nearer to the last
// of the strongest, the fewer candidates pass it.
inline Real floor_of(const LaneMaxima& maxima, Index top) {
    const Index each = (top + kLanes - 1) / kLanes;  // of every lane
    if (each > 4) return -infinity();
    Four four(maxima);
    if (top <= kLanes) {
        // Every lane with the one half of them further, and then with the one a quarter further:
        // the fourth of four lanes' maxima, of which there are sixteen, is reached by four, as are
        // those of the other fours.
        four.take_best<kLanes / 2>();
        four.sort_bitonic();
        four.take_best<kLanes / 4>();
        const Vector fourth = smaller(smaller(four.v[0], four.v[1]), smaller(four.v[2], four.v[3]));
        Real lowest = fourth[0];
        for (int lane = 1; lane < kLanes / 4; ++lane) lowest = smaller(lowest, fourth[lane]);
        return lowest;
    }
    return -maximum(-four.v[each - 1]);
}

// Find out which of `count` scores (a multiple of kLanes), the largest of which is `highest`, may
// be among the strongest. Nothing here waits for a branch that is hard to foretell, so that the
// rows of a strip, one after another, overlap.
inline void find_strongest(const Real* best, Index top, const Real* scores, Index count,
                           const LaneMaxima& maxima, Real highest, Passing& passing) {
    const Real worst = best[top - 1];
    passing.some = 0;
    if (highest > worst) {
        find_passing(scores, count, larger(floor_of(maxima, top), worst), passing);
    }
}

// Take them in; the row's scores begin with key `first`.
inline void take_strongest(Real* best, Whole* best_keys, Index top, const Real* scores, Whole first,
                           const Passing& passing, Candidates& found) {
    gather(scores, first, passing, found);
    if (top <= kLanes) {
        insert_all<1>(best, best_keys, found);
    } else if (kLanes < 8 && top <= 2 * kLanes) {
        insert_all<2>(best, best_keys, found);
    } else {
        insert_all(best, best_keys, vectors_of(top), found);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
