// The parallel loop over a function object, and where a head begins.
#pragma once

#include "rows.h"
#include "threads.h"

namespace regard::REGARD_KERNEL {
namespace {

// Calls work(task) for every task in [0, tasks).
template <typename Work>
void share_out(Index tasks, int threads, Work work) {
    parallel_for(
        tasks, threads,
        [](void* context, std::int64_t task) { (*static_cast<Work*>(context))(task); }, &work);
}

inline const float* head_of(const Rows& rows, Index b, Index h) {
    return rows.data + b * rows.step[0] + h * rows.step[1];
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
