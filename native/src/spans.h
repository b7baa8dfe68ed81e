// Sums of weights by span: the keys of a sequence carry labels, and a row keeps a sum for each.
#pragma once

#include "rows.h"
#include "scratch.h"
#include "sums.h"

namespace regard::REGARD_KERNEL {
namespace {

// The labels of one sequence as runs of keys with the same one, worked out once a call.
struct Labels {
    const std::int32_t* of = nullptr;      // (keys)
    const std::int32_t* run_of = nullptr;  // (keys): the run of each key
    const std::int32_t* starts = nullptr;  // (runs + 1): the first key of each run

    Labels() = default;
    Labels(const std::int64_t* labels, Index keys, Scratch& scratch) {
        auto* label = scratch.take<std::int32_t>(keys);
        auto* run = scratch.take<std::int32_t>(keys);
        auto* first = scratch.take<std::int32_t>(keys + 1);
        Index runs = 0;
        for (Index j = 0; j < keys; ++j) {
            label[j] = static_cast<std::int32_t>(labels[j]);
            if (j == 0 || labels[j] != labels[j - 1]) first[runs++] = static_cast<std::int32_t>(j);
            run[j] = static_cast<std::int32_t>(runs - 1);
        }
        first[runs] = static_cast<std::int32_t>(keys);
        of = label;
        run_of = run;
        starts = first;
    }
};

constexpr Index kFewSpans = 64;

// Add `count` weights to the sums of their spans, where nearly every key has another label than the
// one before: in four tables, so that no sum waits for the one before it.
inline void scatter(const std::int32_t* labels, const Real* weights, Index count, Index spans,
                    Sums to, Index at) {
    Real sums[4][kFewSpans + 1] = {};  // the first is of those in no span
    Index n = 0;
    for (; n + 4 <= count; n += 4) {
        for (int c = 0; c < 4; ++c) sums[c][labels[n + c] + 1] += weights[n + c];
    }
    for (; n < count; ++n) sums[0][labels[n] + 1] += weights[n];
    for (Index s = 0; s < spans; ++s) {
        to.add(at + s, (sums[0][s + 1] + sums[1][s + 1]) + (sums[2][s + 1] + sums[3][s + 1]));
    }
}

// Add the weights of keys [first, last) to the sums of their spans, which stand from `at` on in
// `to`. `weights` is the row of a block that starts at key `start`.
__attribute__((noinline)) void sum_spans(const Labels& labels, const Real* weights, Index start,
                                         Index first, Index last, Index spans, Sums to, Index at) {
    const Index begin = labels.run_of[first], end = labels.run_of[last - 1] + 1;
    if ((end - begin) * kLanes > last - first) {  // many runs: key by key
        if (!Sums::kExact && spans <= kFewSpans) {
            scatter(labels.of + first, weights + (first - start), last - first, spans, to, at);
            return;
        }
        for (Index j = first; j < last; ++j) {
            if (labels.of[j] >= 0) to.add(at + labels.of[j], weights[j - start]);
        }
        return;
    }
    for (Index run = begin; run < end; ++run) {
        const Index from = larger(labels.starts[run], first);
        const Index behind = smaller(labels.starts[run + 1], last);
        if (labels.of[from] < 0) continue;
        Vector a{}, b{};
        Index j = from;
        for (; j + 2 * kLanes <= behind; j += 2 * kLanes) {
            a += load(weights + (j - start));
            b += load(weights + (j - start) + kLanes);
        }
        Real total = sum(a + b);
        for (; j < behind; ++j) total += weights[j - start];
        to.add(at + labels.of[from], total);
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
