// The strongest keys of a row, kept sorted as its scores go by.
#pragma once

#include "rows.h"

namespace regard::REGARD_KERNEL {
namespace {

// Sorted lists are made of groups of eight, on every instruction set.
constexpr Index kGroup = 8;
using Eight = float __attribute__((vector_size(32)));
using EightKeys = std::int32_t __attribute__((vector_size(32)));

inline Index groups_of(Index top) { return (top + kGroup - 1) / kGroup; }

// Room for what may pass the floor in one block: all of it, and one vector more.
struct Candidates {
    float scores[kBlock + 8];
    std::int32_t keys[kBlock + 8];
    Index count = 0;
};

// Put one key into its place in a group: what is smaller moves down by one, and the last falls out.
// `above` is the last element of the group above, which is what moves in if that one moved, too.
inline void insert(Eight& scores, EightKeys& keys, Eight score, EightKeys key, float above,
                   std::int32_t above_key) {
    Eight down = __builtin_shuffle(scores, EightKeys{0, 0, 1, 2, 3, 4, 5, 6});
    EightKeys down_keys = __builtin_shuffle(keys, EightKeys{0, 0, 1, 2, 3, 4, 5, 6});
    down[0] = above;
    down_keys[0] = above_key;
    const EightKeys here = score > scores;
    const EightKeys before = score > down;
    // Short chains: the next key waits for these.
    keys = here ? (before ? down_keys : key) : keys;
    const Eight lower = score < down ? score : down;
    scores = scores > lower ? scores : lower;
}

// Take what was found into a list of any length.
inline void insert_all(float* scores, std::int32_t* keys, Index groups, const Candidates& found) {
    for (Index n = 0; n < found.count; ++n) {
        const Eight score = found.scores[n] - Eight{};
        const EightKeys key = found.keys[n] - EightKeys{};
        float above = __builtin_inff();
        std::int32_t above_key = -1;
        for (Index group = 0; group < groups; ++group) {
            Eight old;
            EightKeys old_keys;
            __builtin_memcpy(&old, scores + group * kGroup, sizeof old);
            __builtin_memcpy(&old_keys, keys + group * kGroup, sizeof old_keys);
            const float last = old[7];
            const std::int32_t last_key = old_keys[7];
            insert(old, old_keys, score, key, above, above_key);
            __builtin_memcpy(scores + group * kGroup, &old, sizeof old);
            __builtin_memcpy(keys + group * kGroup, &old_keys, sizeof old_keys);
            above = last;
            above_key = last_key;
        }
    }
}

// The same for a list of one group, which stays in registers.
inline void insert_all(float* scores, std::int32_t* keys, const Candidates& found) {
    Eight best;
    EightKeys best_keys;
    __builtin_memcpy(&best, scores, sizeof best);
    __builtin_memcpy(&best_keys, keys, sizeof best_keys);
    for (Index n = 0; n < found.count; ++n) {
        insert(best, best_keys, found.scores[n] - Eight{}, found.keys[n] - EightKeys{},
               __builtin_inff(), -1);
    }
    __builtin_memcpy(scores, &best, sizeof best);
    __builtin_memcpy(keys, &best_keys, sizeof best_keys);
}

#if defined(__AVX2__)
// For every pattern of eight bits, the lanes whose bit is set, in order.
struct Gathering {
    alignas(64) std::int32_t lanes[256][8];
    constexpr Gathering() : lanes() {
        for (int pattern = 0; pattern < 256; ++pattern) {
            int count = 0;
            for (int lane = 0; lane < 8; ++lane) {
                if (pattern >> lane & 1) lanes[pattern][count++] = lane;
            }
        }
    }
};
constexpr Gathering kGathering;
#endif

// Those of `count` scores (a multiple of kLanes) that reach `floor`, and their keys, from `first`
// on: every one is looked at, without a branch.
inline void gather(const float* scores, Index count, std::int32_t first, float floor,
                   Candidates& found) {
    Index number = 0;
#if defined(__AVX2__)
    EightKeys keys = first + EightKeys{0, 1, 2, 3, 4, 5, 6, 7};
    for (Index n = 0; n < count; n += 8, keys += 8) {
        const Vector here = load(scores + n);
        const unsigned pattern = bits(here >= all(floor));
        EightKeys order;
        __builtin_memcpy(&order, kGathering.lanes[pattern], sizeof order);
        store(found.scores + number, __builtin_shuffle(here, order));
        const EightKeys gathered = __builtin_shuffle(keys, order);
        __builtin_memcpy(found.keys + number, &gathered, sizeof gathered);
        number += __builtin_popcount(pattern);
    }
#else
    for (Index n = 0; n < count; ++n) {
        found.scores[number] = scores[n];
        found.keys[number] = first + static_cast<std::int32_t>(n);
        number += scores[n] >= floor;
    }
#endif
    found.count = number;
}

// The same for a few: bit n of `groups` is set if a score at n, n + 4·kLanes, n + 8·kLanes, … may
// reach it.
inline void gather_groups(const float* scores, Index count, std::int32_t first, float floor,
                          unsigned groups, Candidates& found) {
    Index number = 0;
    for (; groups; groups &= groups - 1) {
        for (Index n = __builtin_ctz(groups); n < count; n += 4 * kLanes) {
            found.scores[number] = scores[n];
            found.keys[number] = first + static_cast<std::int32_t>(n);
            number += scores[n] >= floor;
        }
    }
    found.count = number;
}

// Take in `count` scores (a multiple of kLanes) of the keys from `first` on, the largest of which
// is `highest`.
inline void update_top(float* best, std::int32_t* best_keys, Index top, const float* scores,
                       Index count, std::int32_t first, const LaneMaxima& maxima, float highest,
                       Candidates& found) {
    const float worst = best[top - 1];
    if (!(highest > worst)) return;
    unsigned groups = 0;
    for (int n = 0; n < 4; ++n) groups |= bits(maxima.vectors[n] > all(worst)) << (kLanes * n);
    if (__builtin_popcount(groups) <= kLanes) {
        gather_groups(scores, count, first, worst, groups, found);
    } else {
        // As many keys as there are lanes reach the smallest of the lanes' maxima.
        const float floor = top <= kLanes ? -maximum(-maxima.lanes()) : -infinity();
        gather(scores, count, first, larger(floor, worst), found);
    }
    if (top <= kGroup) {
        insert_all(best, best_keys, found);
    } else {
        insert_all(best, best_keys, groups_of(top), found);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
