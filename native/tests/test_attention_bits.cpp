// The bits of a result do not depend on threads, on what else is in the batch or in memory, on what
// is observed, on the order of the queries, on calls before, or on chance. REGARD_TEST_PROBLEMS=n
// tries fewer.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "check.h"
#include "kernels.h"
#include "run.h"

namespace {

using cases::Case;
using run::Result;

constexpr std::uint64_t kFirst = 1000;  // other cases than those that are compared by hand

// All that can be computed of a case.
struct All {
    Result result;
    exact::Array<float> weights, mean, maximum;
};

All all_of(const Case& c, int threads) {
    All all;
    all.result = run::attend(c, threads);
    all.weights = run::weights(c, all.result.lse, threads);
    all.mean = run::pooled(c, all.result.lse, regard::Reduce::mean, threads);
    all.maximum = run::pooled(c, all.result.lse, regard::Reduce::maximum, threads);
    return all;
}

void must_be_the_same(const All& a, const All& b, const std::string& when) {
    run::must_be_the_same(a.result, b.result, when);
    if (!exact::same_bits(a.weights, b.weights)) check::failed(when + ": other bits in weights");
    if (!exact::same_bits(a.mean, b.mean)) check::failed(when + ": other bits in the mean");
    if (!exact::same_bits(a.maximum, b.maximum))
        check::failed(when + ": other bits in the maximum");
}

void threads_make_no_difference(const Case& c, const std::string& name) {
    const All one = all_of(c, 1);
    must_be_the_same(one, all_of(c, 2), name + ", 2 threads");
    must_be_the_same(one, all_of(c, 4), name + ", 4 threads");
}

void being_observed_makes_no_difference(const Case& c, const std::string& name) {
    const std::vector<float> output = run::attend(c, 2).output.flat();
    cases::Wanted some;
    some.received = true;
    for (const cases::Wanted& wanted : {cases::Wanted(), some})
        if (!exact::same_bits(output, run::attend(c, wanted, 2).output.flat()))
            check::failed(name + ": other bits when it is observed");
}

void strides_make_no_difference(const Case& c, const std::string& name) {
    must_be_the_same(all_of(c, 2), all_of(cases::contiguous(c), 2), name + ", contiguous");
}

// All results are (batch, heads, …), so that those of one head lie together.
void a_head_alone_is_the_same(const Case& c, const std::string& name) {
    const All whole = all_of(c, 2);
    const std::vector<float> output = whole.result.output.flat();
    for (std::int64_t b = 0; b < c.problem.batch; ++b) {
        for (std::int64_t h = 0; h < c.problem.heads; ++h) {
            const All one = all_of(cases::head_alone(c, b, h), 1);
            const auto same = [&](const auto& all, const auto& part) {
                const std::int64_t size = part.size();
                const std::int64_t first = (b * c.problem.heads + h) * size;
                return exact::same_bits(all.data() + first, part.data(), size);
            };
            const Result &x = whole.result, &y = one.result;
            const bool fits = same(output, y.output.flat()) && same(x.lse, y.lse) &&
                              same(x.entropy, y.entropy) && same(x.distance, y.distance) &&
                              same(x.top_keys, y.top_keys) && same(x.top_weights, y.top_weights) &&
                              same(x.map, y.map) && same(x.received, y.received) &&
                              same(whole.weights, one.weights) && same(whole.mean, one.mean) &&
                              same(whole.maximum, one.maximum);
            if (!fits)
                check::failed(name + ": other bits when batch " + std::to_string(b) + ", head " +
                              std::to_string(h) + " is alone");
        }
    }
}

// Rows n of axis 2 become rows order[n].
template <typename Number>
void reorder(exact::Tensor<Number>& x, const std::vector<std::int64_t>& order) {
    const std::vector<Number> old = x.flat();
    const auto& size = x.size();
    for (std::int64_t outer = 0; outer < size[0] * size[1]; ++outer)
        for (std::int64_t i = 0; i < size[2]; ++i)
            for (std::int64_t j = 0; j < size[3]; ++j)
                x.data()[(outer * size[2] + order[i]) * size[3] + j] =
                    old[(outer * size[2] + i) * size[3] + j];
}

// Whether rows [from, from + size) of one array are rows order[…] of the other.
template <typename Numbers>
bool reordered(const Numbers& before, const Numbers& after, std::int64_t heads,
               const std::vector<std::int64_t>& order) {
    const std::int64_t queries = static_cast<std::int64_t>(order.size());
    const std::int64_t width = static_cast<std::int64_t>(before.size()) / (heads * queries);
    for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t i = 0; i < queries; ++i)
            if (!exact::same_bits(before.data() + (head * queries + i) * width,
                                  after.data() + (head * queries + order[i]) * width, width))
                return false;
    return true;
}

void permuting_queries_permutes_results(const Case& given, const std::string& name) {
    Case c = cases::contiguous(given);
    c.problem.causal = false;
    c.problem.left = c.problem.right = -1;
    const Result before = run::attend(c, 2);

    cases::Random random(7);
    std::vector<std::int64_t> order(c.problem.queries);
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = static_cast<std::int64_t>(n);
    for (std::size_t n = order.size(); n > 1; --n)
        std::swap(order[n - 1], order[random.below(static_cast<std::int64_t>(n))]);
    reorder(c.q, order);
    if (c.has_mask) reorder(c.mask, order);
    if (c.has_bias) reorder(c.bias, order);
    if (c.has_segments) reorder(c.segments, order);
    if (c.has_chosen) reorder(c.chosen, order);
    c.point();
    const Result after = run::attend(c, 2);

    const std::int64_t heads = c.problem.batch * c.problem.heads;
    const bool fits = reordered(before.output.flat(), after.output.flat(), heads, order) &&
                      reordered(before.lse, after.lse, heads, order) &&
                      reordered(before.entropy, after.entropy, heads, order) &&
                      reordered(before.top_keys, after.top_keys, heads, order) &&
                      reordered(before.top_weights, after.top_weights, heads, order);
    if (!fits) check::failed(name + ": other bits when the queries are permuted");
}

void later_tokens_leave_earlier_ones_alone(const std::string& kernel) {
    for (const std::int64_t n : {5, 97, 259}) {
        Case c = cases::plain(11, cases::sizes(2, 3, 3, n, n, 17, 19));
        c.problem.causal = true;
        const Result before = run::attend(c, 2);
        const std::vector<float> output = before.output.flat();
        for (const std::int64_t last : {n / 3, n - 2}) {
            Case changed = cases::contiguous(c);
            for (exact::Tensor<float>* x : {&changed.q, &changed.k, &changed.v})
                for (std::int64_t b = 0; b < 2; ++b)
                    for (std::int64_t h = 0; h < 3; ++h)
                        for (std::int64_t i = last + 1; i < n; ++i)
                            for (std::int64_t d = 0; d < 17; ++d) x->at(b, h, i, d) += 3;
            const Result after = run::attend(changed, 2);
            const std::vector<float> other = after.output.flat();
            bool fits = true;
            for (std::int64_t head = 0; head < 6; ++head) {
                const std::int64_t rows = last + 1, first = head * n;
                fits = fits &&
                       exact::same_bits(&output[first * 19], &other[first * 19], rows * 19) &&
                       exact::same_bits(&before.lse[first], &after.lse[first], rows) &&
                       exact::same_bits(&before.entropy[first], &after.entropy[first], rows) &&
                       exact::same_bits(&before.distance[first], &after.distance[first], rows) &&
                       exact::same_bits(&before.top_keys[first * 8], &after.top_keys[first * 8],
                                        rows * 8);
            }
            if (!fits) check::failed(c.name + ", " + kernel + ": a token sees a later one");
        }
    }
}

void repeating_makes_no_difference(const std::string& kernel, std::uint64_t repeats) {
    const Case c = cases::plain(12, cases::sizes(1, 3, 3, 101, 257, 17, 19));
    const All first = all_of(c, 4);
    for (std::uint64_t repeat = 0; repeat < repeats; ++repeat)
        must_be_the_same(first, all_of(c, 4), c.name + ", " + kernel + ", repeated");
}

// Enough work for every thread to get some, on each path.
void threads_make_no_difference_to_large_problems(const std::string& kernel) {
    for (const regard::Problem& sizes :
         {cases::sizes(1, 2, 1, 521, 1031, 16, 16), cases::sizes(1, 4, 2, 3, 9001, 16, 8),
          cases::sizes(1, 1, 1, 7001, 37, 8, 8), cases::sizes(7, 5, 5, 11, 13, 8, 8)}) {
        Case c = cases::plain(13, sizes);
        threads_make_no_difference(c, c.name + ", " + kernel);
        c.problem.causal = true;
        threads_make_no_difference(c, c.name + " causal, " + kernel);
    }
}

void calls_at_the_same_time_do_not_mix(const std::string& kernel) {
    std::vector<Case> problems;
    std::vector<All> alone;
    problems.push_back(cases::plain(14, cases::sizes(2, 3, 3, 97, 257, 17, 19)));
    problems.push_back(cases::plain(15, cases::sizes(3, 4, 2, 1, 1031, 32, 32)));
    problems.push_back(cases::everything_wanted(cases::make(kFirst + 5)));
    problems.push_back(cases::everything_wanted(cases::make(kFirst + 8)));
    for (const Case& c : problems) alone.push_back(all_of(c, 1));

    std::vector<All> found[4];
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; ++n)
        threads.emplace_back([&, n] {
            for (int repeat = 0; repeat < 8; ++repeat)
                found[n].push_back(all_of(problems[(n + repeat) % 4], 1 + (n + repeat / 4) % 3));
        });
    for (std::thread& thread : threads) thread.join();
    for (int n = 0; n < 4; ++n)
        for (int repeat = 0; repeat < 8; ++repeat)
            must_be_the_same(
                alone[(n + repeat) % 4], found[n][repeat],
                problems[(n + repeat) % 4].name + ", " + kernel + ", at the same time");
}

void an_interrupted_call_leaves_no_trace(const std::string& kernel) {
    const Case c = cases::plain(17, cases::sizes(1, 2, 1, 4001, 67, 8, 8));
    const All before = all_of(c, 2);
    for (const int threads : {1, 2, 4}) {
        bool interrupted = false;
        regard::set_interrupt_check([] { return true; });
        // A call asks only now and then, and only if its own thread comes to work.
        for (int attempt = 0; attempt < 200 && !interrupted; ++attempt) {
            try {
                all_of(c, threads);
            } catch (const regard::Interrupted&) {
                interrupted = true;
            }
        }
        regard::set_interrupt_check(nullptr);
        CHECK(interrupted);
        must_be_the_same(before, all_of(c, threads), c.name + ", " + kernel + ", interrupted");
    }
}

// As a signal handler may do, which runs where a call checks for interrupts.
void a_call_inside_a_call_does_not_mix_with_it(const std::string& kernel) {
    static int inside, calls;
    static bool same;
    static const Case small = cases::plain(18, cases::sizes(1, 2, 1, 101, 211, 13, 11));
    static All expected;
    const Case c = cases::plain(19, cases::sizes(1, 2, 1, 4001, 67, 8, 8));
    const All before = all_of(c, 2);
    expected = all_of(small, 2);
    for (const int threads : {1, 2, 4}) {
        inside = calls = 0;
        same = true;
        regard::set_interrupt_check([] {
            if (inside++ == 0) {
                const All found = all_of(small, 1 + ++calls % 2);
                same =
                    same &&
                    exact::same_bits(expected.result.output.flat(), found.result.output.flat()) &&
                    exact::same_bits(expected.mean, found.mean);
            }
            --inside;
            return false;
        });
        for (int attempt = 0; attempt < 400 && calls < 3; ++attempt) {
            must_be_the_same(before, all_of(c, threads),
                             c.name + ", " + kernel + ", around a call");
        }
        regard::set_interrupt_check(nullptr);
        CHECK(calls >= 3);
        CHECK(same);
    }
}

// As data loaders do: the child of a process that has used threads has none of them.
void a_forked_process_gets_the_same(const std::string& kernel) {
#if !defined(__SANITIZE_THREAD__)
    const Case c = cases::plain(16, cases::sizes(2, 3, 3, 97, 257, 17, 19));
    const All before = all_of(c, 2);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        check::failures = 0;
        must_be_the_same(before, all_of(c, 2), c.name + ", " + kernel + ", in a child");
        _exit(check::failures == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    must_be_the_same(before, all_of(c, 2), c.name + ", " + kernel + ", after a fork");
#else
    static_cast<void>(kernel);
#endif
}

}  // namespace

int main() {
    const std::uint64_t problems = run::number_of_problems(70);
    kernels::for_each([&](const std::string& kernel) {
        for (std::uint64_t number = kFirst; number < kFirst + problems; ++number) {
            const Case c = cases::everything_wanted(cases::make(number));
            const std::string name = c.name + ", " + kernel;
            threads_make_no_difference(c, name);
            being_observed_makes_no_difference(c, name);
            strides_make_no_difference(c, name);
            a_head_alone_is_the_same(c, name);
            permuting_queries_permutes_results(c, name);
        }
        later_tokens_leave_earlier_ones_alone(kernel);
        repeating_makes_no_difference(kernel, run::number_of_problems(250));
        threads_make_no_difference_to_large_problems(kernel);
        calls_at_the_same_time_do_not_mix(kernel);
        an_interrupted_call_leaves_no_trace(kernel);
        a_call_inside_a_call_does_not_mix_with_it(kernel);
        a_forked_process_gets_the_same(kernel);
    });
    return check::result();
}
