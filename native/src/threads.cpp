// The parallel loop: on OpenMP, whose threads are shared with PyTorch, or on threads of its own.
#include "threads.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>

#include "regard/attention.h"

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

thread_local const Loop* current = nullptr;  // what this thread works for
thread_local int calls = 0;                  // how many calls came from this thread, one in another
thread_local unsigned pieces = 0;
std::atomic<bool (*)()> interrupt_check{nullptr};

}  // namespace

// Tasks that threads take one after the other.
struct Loop {
    std::int64_t tasks;
    void (*work)(void*, std::int64_t);
    void* context;
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> failed{false};
    std::mutex mutex;
    std::exception_ptr error;

    void run() noexcept {
        const Loop* around = current;
        current = this;
        work_through();
        current = around;
    }

    void work_through() noexcept {
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

void set_interrupt_check(bool (*check)()) noexcept { interrupt_check = check; }

Calling::Calling() noexcept : around_(current) {
    ++calls;
    current = nullptr;
}

Calling::~Calling() {
    --calls;
    current = around_;
}

void check_interrupt() {
    if (current != nullptr && current->failed.load(std::memory_order_relaxed)) throw Interrupted{};
    if (calls == 0 || ++pieces % 16 != 0) return;
    static thread_local std::chrono::steady_clock::time_point last;
    const auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::milliseconds(50)) return;
    last = now;
    bool (*check)() = interrupt_check.load(std::memory_order_relaxed);
    if (check != nullptr && check()) throw Interrupted{};
}

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
