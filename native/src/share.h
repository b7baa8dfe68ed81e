// The parallel loop over a function object.
#pragma once

#include "simd.h"
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

}  // namespace
}  // namespace regard::REGARD_KERNEL
