// The parallel loop: on OpenMP, whose threads are shared with PyTorch, or on threads of its own.
#include "threads.h"

#include <atomic>
#include <exception>
#include <mutex>

#if defined(REGARD_OPENMP)
#include <omp.h>
#else
#include <thread>
#include <vector>
#endif

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace regard {
namespace {

// Set in a child. The threads of its parent do not exist there, and OpenMP would wait for them for
// ever; whether it has any, ours or PyTorch's, cannot be asked.
std::atomic<bool> forked{false};

#if defined(__unix__) || defined(__APPLE__)
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif

struct Loop {
    std::int64_t tasks;
    void (*work)(void*, std::int64_t);
    void* context;
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> failed{false};
    std::mutex mutex;
    std::exception_ptr error;

    void run() noexcept {
        while (!failed.load(std::memory_order_relaxed)) {
            const std::int64_t task = next.fetch_add(1, std::memory_order_relaxed);
            if (task >= tasks) return;
            try {
                work(context, task);
            } catch (...) {
                const std::lock_guard<std::mutex> lock(mutex);
                if (!failed.exchange(true)) error = std::current_exception();
            }
        }
    }
};

}  // namespace

void parallel_for(std::int64_t tasks, int threads, void (*work)(void* context, std::int64_t task),
                  void* context) {
    if (threads > tasks) threads = static_cast<int>(tasks);
    if (threads <= 1 || forked.load(std::memory_order_relaxed)) {
        for (std::int64_t task = 0; task < tasks; ++task) work(context, task);
        return;
    }
    Loop loop{tasks, work, context, {}, {}, {}, {}};
#if defined(REGARD_OPENMP)
#pragma omp parallel num_threads(threads)
    loop.run();
#else
    std::vector<std::thread> others;
    others.reserve(static_cast<std::size_t>(threads - 1));
    try {
        for (int thread = 1; thread < threads; ++thread) others.emplace_back([&] { loop.run(); });
    } catch (...) {  // no more threads to be had: those that there are do it
    }
    loop.run();
    for (std::thread& other : others) other.join();
#endif
    if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace regard
