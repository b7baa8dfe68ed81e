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
    const auto run = [&](Index head, Index n, const RowsOut& dq, bool add) {
        Borrowed borrowed;
        Scratch& scratch = borrowed.scratch;
        backward_part(back, head / problem.kv_heads, head % problem.kv_heads, n * parts.size,
                      smaller((n + 1) * parts.size, problem.keys), dq, add, scratch);
    };
    if (threads <= 1 || parts.count == 1 || heads >= 4 * threads) {
        share_out(heads, threads, [&](Index head) {
            for (Index n = 0; n < parts.count; ++n) run(head, n, gradients.q, n > 0);
        });
        return;
    }
    // Few heads for many threads: every part but the first has a gradient of q of its own.
    Scratch shared;
    const Index rows = problem.batch * problem.heads * problem.queries;
    const Index size = gradients.q.data ? rows * problem.width : 0;
    float* others = shared.take<float>((parts.count - 1) * size);
    share_out(heads * parts.count, threads, [&](Index task) {
        // The first keys of a causal head have the most to do: they go first.
        const Index n = task / heads;
        RowsOut dq = gradients.q;
        if (n > 0 && size) {
            dq = {others + (n - 1) * size,
                  {problem.heads * problem.queries * problem.width, problem.queries * problem.width,
                   problem.width}};
        }
        run(task % heads, n, dq, false);
    });
    if (!size) return;
    const Index span = 64;  // rows that a task adds up
    share_out((rows + span - 1) / span, threads, [&](Index task) {
        for (Index row = task * span; row < smaller((task + 1) * span, rows); ++row) {
            const Index b = row / problem.queries / problem.heads;
            const Index h = row / problem.queries % problem.heads, i = row % problem.queries;
            float* to = row_of(gradients.q, b, h, i);
            for (Index n = 1; n < parts.count; ++n) {
                write_scaled(others + (n - 1) * size + row * problem.width, problem.width, 1.0f,
                             true, to);
            }
        }
    });
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
