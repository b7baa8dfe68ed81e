// One parallel loop.
#pragma once

#include <cstdint>

namespace regard {

// Calls work(context, task) for every task in [0, tasks), on at most `threads` threads, and returns
// when all are done. Tasks start in order, and each runs on one thread. One thread, or one task,
// means no parallel region at all; so does a forked process.
// Rethrows the first exception of a task; the rest of the tasks may then be left out.
void parallel_for(std::int64_t tasks, int threads, void (*work)(void* context, std::int64_t task),
                  void* context);

struct Loop;

// Marks the thread that a call came from, as long as it lives. The call may come from inside
// another, whose failure is not its own: a signal handler runs where a call checks for interrupts.
class Calling {
  public:
    Calling() noexcept;
    ~Calling();
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;

  private:
    const Loop* around_;
};

// To be called between pieces of work of some microseconds or more: throws Interrupted if the call
// shall end, because it was interrupted or because another of its tasks has failed.
void check_interrupt();

}  // namespace regard
