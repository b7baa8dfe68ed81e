// How the backward pass is shared out among threads: by key head, and by parts of the keys.
#pragma once

#include "backward.h"
#include "share.h"

namespace regard::REGARD_KERNEL {
namespace {

// How the keys are cut, from their number alone: whole blocks, eight parts at most. The gradient of
// q is the sum of what its parts give, in their order, whoever makes them.
struct Parts {
    Index size, count;

    explicit Parts(Index keys)
        : size(round_up((keys + 7) / 8, kBlock)), count((keys + size - 1) / size) {}
};

void attention_backward(const Problem& problem, const Attended& attended,
                        const Gradients& gradients, int threads) {
    const Seen nothing;
    const Call call{problem, nothing, {}};
    const BackwardCall back{call, attended, gradients};
    const Parts parts(problem.keys);
    const Index heads = problem.batch * problem.kv_heads;
    const Index size = gradients.q.data ? problem.heads * problem.queries * problem.width : 0;
    const auto run = [&](Index head, Index n, const RowsOut& dq, bool add) {
        Borrowed borrowed;
        Scratch& scratch = borrowed.scratch;
        backward_part(back, head / problem.kv_heads, head % problem.kv_heads, n * parts.size,
                      smaller((n + 1) * parts.size, problem.keys), dq, add, scratch);
    };
    // A gradient of q in the making, of whole sequences.
    const auto in = [&](Real* room) -> RowsOut {
        return {
            size ? room : nullptr, {size, problem.queries * problem.width, problem.width}, kType};
    };
    const bool by_head = threads <= 1 || parts.count == 1 || heads >= 4 * threads;
    // What is added up is of type Real: the gradient itself, if it is.
    const bool in_place = gradients.q.type == kType;
    Scratch shared;
    if (by_head && (in_place || parts.count == 1)) {
        share_out(heads, threads, [&](Index head) {
            for (Index n = 0; n < parts.count; ++n) run(head, n, gradients.q, n > 0);
        });
        return;
    }
    const Index rooms = by_head ? 1 : parts.count - in_place;
    Real* room = shared.take<Real>(rooms * problem.batch * size);
    const auto part_of = [&](Index n) { return room + (n - in_place) * problem.batch * size; };
    if (by_head) {
        share_out(heads, threads, [&](Index head) {
            for (Index n = 0; n < parts.count; ++n) run(head, n, in(room), n > 0);
        });
    } else {
        // Few heads for many threads: every part has a gradient of q of its own.
        share_out(heads * parts.count, threads, [&](Index task) {
            // The first keys of a causal head have the most to do: they go first.
            const Index n = task / heads;
            run(task % heads, n, in_place && n == 0 ? gradients.q : in(part_of(n)), false);
        });
    }
    const Index rows = size ? problem.batch * problem.heads * problem.queries : 0;
    const Index span = 64;  // rows that a task adds up
    share_out((rows + span - 1) / span, threads, [&](Index task) {
        for (Index row = task * span; row < smaller((task + 1) * span, rows); ++row) {
            const Index b = row / problem.queries / problem.heads;
            const Index h = row / problem.queries % problem.heads, i = row % problem.queries;
            const Index at = row * problem.width;
            Real* to = in_place ? static_cast<Real*>(row_of(gradients.q, b, h, i)) : room + at;
            for (Index n = 1; !by_head && n < parts.count; ++n) {
                add_row(part_of(n) + at, problem.width, to);
            }
            if (!in_place) write_row(to, problem.width, 1.0f, gradients.q, b, h, i);
        }
    });
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
