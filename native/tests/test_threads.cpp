// threads.h: every task runs once, on as many threads as were asked for at most, and an exception
// comes back to the caller.
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../src/threads.h"
#include "check.h"

namespace {

template <typename Work>
void run(std::int64_t tasks, int threads, Work work) {
    regard::parallel_for(
        tasks, threads,
        [](void* context, std::int64_t task) { (*static_cast<Work*>(context))(task); }, &work);
}

void every_task_runs_once() {
    for (const int threads : {0, 1, 2, 3, 4, 7}) {
        for (const std::int64_t tasks : {0, 1, 2, 3, 5, 1000}) {
            std::vector<int> times(tasks, 0);
            run(tasks, threads, [&](std::int64_t task) { ++times[task]; });
            bool once = true;
            for (const int n : times) once = once && n == 1;
            CHECK(once);
        }
    }
}

void what_tasks_wrote_can_be_read_afterwards() {
    std::vector<std::int64_t> squares(97);
    for (int repeat = 0; repeat < 50; ++repeat) {
        run(97, 4, [&](std::int64_t task) { squares[task] = task * task + repeat; });
        std::int64_t sum = 0;
        for (const std::int64_t square : squares) sum += square;
        CHECK(sum == 96 * 97 * 193 / 6 + 97 * repeat);
    }
}

void an_exception_comes_back() {
    for (const int threads : {1, 2, 4}) {
        std::atomic<int> started{0};
        std::string what;
        try {
            run(1000, threads, [&](std::int64_t task) {
                ++started;
                if (task == 11) throw std::runtime_error("task 11");
            });
        } catch (const std::runtime_error& error) {
            what = error.what();
        }
        CHECK(what == "task 11");
        CHECK(started >= 12);
    }
    every_task_runs_once();
}

void loops_at_the_same_time_do_not_mix() {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int caller = 0; caller < 4; ++caller)
        callers.emplace_back([&] {
            for (int repeat = 0; repeat < 20; ++repeat) {
                std::atomic<std::int64_t> sum{0};
                run(97, 3, [&](std::int64_t task) { sum += task; });
                if (sum != 96 * 97 / 2) ++wrong;
            }
        });
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == 0);
}

}  // namespace

int main() {
    every_task_runs_once();
    what_tasks_wrote_can_be_read_afterwards();
    an_exception_comes_back();
    loops_at_the_same_time_do_not_mix();
    return check::result();
}
