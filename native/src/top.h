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

// Put two keys into their places at once, of which the first is the stronger, or as strong and the
// earlier: a chain of single ones would wait twice for the list.
inline void insert_two(Eight& scores, EightKeys& keys, Eight first, EightKeys first_key,
                       Eight second, EightKeys second_key) {
    constexpr EightKeys kByOne{0, 0, 1, 2, 3, 4, 5, 6}, kByTwo{0, 0, 0, 1, 2, 3, 4, 5};
    constexpr EightKeys kFirst{-1, 0, 0, 0, 0, 0, 0, 0}, kFirstTwo{-1, -1, 0, 0, 0, 0, 0, 0};
    const Eight top = infinity() - Eight{};
    const Eight down = kFirst ? top : __builtin_shuffle(scores, kByOne);
    const Eight down_two = kFirstTwo ? top : __builtin_shuffle(scores, kByTwo);
    const EightKeys down_keys = __builtin_shuffle(keys, kByOne);
    const EightKeys down_two_keys = __builtin_shuffle(keys, kByTwo);
    const EightKeys moved = second > down_two ? down_two_keys : second_key;
    const EightKeys below = second > down ? moved : down_keys;
    keys = first > scores ? (first > down ? below : first_key) : keys;
    const Eight one = first < down ? first : down;
    const Eight two = second < down_two ? second : down_two;
    const Eight lower = one > two ? one : two;
    scores = scores > lower ? scores : lower;
}

// The same for a list of one group, which stays in registers.
inline void insert_all(float* scores, std::int32_t* keys, Candidates& found) {
    Eight best;
    EightKeys best_keys;
    __builtin_memcpy(&best, scores, sizeof best);
    __builtin_memcpy(&best_keys, keys, sizeof best_keys);
    found.scores[found.count] = -infinity();
    for (Index n = 0; n < found.count; n += 2) {
        const Eight a = found.scores[n] - Eight{}, b = found.scores[n + 1] - Eight{};
        const EightKeys a_key = found.keys[n] - EightKeys{},
                        b_key = found.keys[n + 1] - EightKeys{};
        insert_two(best, best_keys, b > a ? b : a, b > a ? b_key : a_key, b > a ? a : b,
                   b > a ? a_key : b_key);
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

// Which scores of a row in a block may be among its strongest.
struct Passing {
    std::uint64_t some = 0;                  // a bit for each vector that has one, …
    std::uint8_t patterns[kBlock / kLanes];  // … and one for each of its scores
};

// Those of `count` scores (a multiple of kLanes) that reach `floor`.
inline void find_passing(const float* scores, Index count, float floor, Passing& passing) {
    std::uint64_t some = 0;
    Index n = 0;
#if defined(__AVX2__)
    const auto reached = [&](Index m) {
        return reinterpret_cast<__m256i>(load(scores + m) >= all(floor));
    };
    for (; n + 32 <= count; n += 32) {
        const __m256i low = _mm256_packs_epi32(reached(n), reached(n + 8));
        const __m256i high = _mm256_packs_epi32(reached(n + 16), reached(n + 24));
        const __m256i bytes = _mm256_permutevar8x32_epi32(
            _mm256_packs_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        const auto four = static_cast<unsigned>(_mm256_movemask_epi8(bytes));
        __builtin_memcpy(passing.patterns + n / 8, &four, sizeof four);
        const __m256i none = _mm256_cmpeq_epi64(bytes, _mm256_setzero_si256());
        const int has = ~_mm256_movemask_pd(_mm256_castsi256_pd(none)) & 15;
        some |= static_cast<std::uint64_t>(has) << n / 8;
    }
#endif
    for (; n < count; n += kLanes) {
        const unsigned pattern = bits(load(scores + n) >= all(floor));
        passing.patterns[n / kLanes] = static_cast<std::uint8_t>(pattern);
        some |= static_cast<std::uint64_t>(pattern != 0) << n / kLanes;
    }
    passing.some = some;
}

// Their scores and keys; the row's scores begin with key `first`.
inline void gather(const float* scores, std::int32_t first, const Passing& passing,
                   Candidates& found) {
    Index number = 0;
    for (std::uint64_t some = passing.some; some; some &= some - 1) {
        const int vector = __builtin_ctzll(some), at = vector * kLanes;
        unsigned pattern = passing.patterns[vector];
#if defined(__AVX2__)
        EightKeys order;
        __builtin_memcpy(&order, kGathering.lanes[pattern], sizeof order);
        store(found.scores + number, __builtin_shuffle(load(scores + at), order));
        const EightKeys keys = order + (first + at);
        __builtin_memcpy(found.keys + number, &keys, sizeof keys);
        number += __builtin_popcount(pattern);
#else
        for (; pattern; pattern &= pattern - 1, ++number) {
            const int lane = __builtin_ctz(pattern);
            found.scores[number] = scores[at + lane];
            found.keys[number] = first + at + lane;
        }
#endif
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

    // Of every lane and the one that `moved` puts in its place, the four largest of eight.
    template <typename Moved>
    void take_best(Moved moved) {
        const Vector other[4] = {moved(v[0]), moved(v[1]), moved(v[2]), moved(v[3])};
        for (int n = 0; n < 4; ++n) v[n] = larger(v[n], other[3 - n]);
    }

    // What take_best() left falls and rises, or rises and falls.
    void sort_bitonic() { order(0, 2), order(1, 3), order(0, 1), order(2, 3); }
};

// A score that `top` of a row reach at least, found from its maxima alone; the nearer to the last
// of the strongest, the fewer candidates pass it.
inline float floor_of(const LaneMaxima& maxima, Index top) {
    const Index each = (top + kLanes - 1) / kLanes;  // of every lane
    if (each > 4) return -infinity();
    Four four(maxima);
#if defined(__AVX2__)
    if (top <= kLanes) {
        // Every lane with the one four further, and then with the one two further: the fourth of
        // four lanes' maxima, of which there are sixteen, is reached by four, as the other four's.
        const auto across = [](Vector v) -> Vector { return _mm256_permute2f128_ps(v, v, 1); };
        const auto beside = [](Vector v) -> Vector { return _mm256_permute_ps(v, 0x4e); };
        four.take_best(across);
        four.sort_bitonic();
        four.take_best(beside);
        const Vector fourth = smaller(smaller(four.v[0], four.v[1]), smaller(four.v[2], four.v[3]));
        return fourth[0] < fourth[1] ? fourth[0] : fourth[1];
    }
#endif
    return -maximum(-four.v[each - 1]);
}

// Find out which of `count` scores (a multiple of kLanes), the largest of which is `highest`, may
// be among the strongest. Nothing here waits for a branch that is hard to foretell, so that the
// rows of a strip, one after another, overlap.
inline void find_strongest(const float* best, Index top, const float* scores, Index count,
                           const LaneMaxima& maxima, float highest, Passing& passing) {
    const float worst = best[top - 1];
    passing.some = 0;
    if (highest > worst) {
        find_passing(scores, count, larger(floor_of(maxima, top), worst), passing);
    }
}

// Take them in; the row's scores begin with key `first`.
inline void take_strongest(float* best, std::int32_t* best_keys, Index top, const float* scores,
                           std::int32_t first, const Passing& passing, Candidates& found) {
    gather(scores, first, passing, found);
    if (top <= kGroup) {
        insert_all(best, best_keys, found);
    } else {
        insert_all(best, best_keys, groups_of(top), found);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
