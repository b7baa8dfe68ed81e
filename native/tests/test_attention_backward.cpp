// attention_backward() by hand, with the same bits whatever surrounds the numbers; what may not be
// attended to gives nothing and gets nothing. REGARD_TEST_PROBLEMS=n tries fewer.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "by_hand.h"
#include "cases.h"
#include "check.h"
#include "kernels.h"
#include "run.h"

namespace {

using by_hand::Query;
using cases::Case;
using exact::Tensor;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint64_t kFirst = 2000;  // other cases than those of the forward pass

// A case with what flows into its output.
struct Flow {
    Case c;
    Tensor<float> gradient;

    regard::Rows rows() const {
        const auto& strides = gradient.strides();
        return {gradient.data(), {strides[0], strides[1], strides[2]}};
    }
};

struct Gradients {
    Tensor<float> q, k, v;
};

Flow with_flow(Case c, std::uint64_t seed) {
    c.problem.softcap = 0;
    Flow flow{std::move(c), {}};
    flow.gradient = Tensor<float>(flow.c.output);
    cases::Random random(seed);
    flow.gradient.for_each([&](float& x) { x = random.normal(); });
    return flow;
}

// Batch b and head h alone, or all of them for b < 0; contiguous.
Flow contiguous(const Flow& flow, std::int64_t b = -1, std::int64_t h = 0) {
    Flow out{b < 0 ? cases::contiguous(flow.c) : cases::head_alone(flow.c, b, h), {}};
    out.gradient = Tensor<float>(out.c.output);
    const auto& size = out.gradient.size();
    for (std::int64_t to_b = 0; to_b < size[0]; ++to_b)
        for (std::int64_t to_h = 0; to_h < size[1]; ++to_h)
            for (std::int64_t i = 0; i < size[2]; ++i)
                for (std::int64_t e = 0; e < size[3]; ++e)
                    out.gradient.at(to_b, to_h, i, e) =
                        flow.gradient.at(b < 0 ? to_b : b, b < 0 ? to_h : h, i, e);
    return out;
}

// One in four with dropout.
Flow make(std::uint64_t number) {
    Case c = cases::make(number);
    if (number % 4 == 3) {
        c.problem.dropout = {number % 8 == 3 ? 0.1 : 0.5, number};
        c.name += ", dropout";
    }
    return with_flow(std::move(c), number);
}

// Room whose rows lie as `way` says: in order, or the heads inside, from the end, and apart.
Tensor<float> room(std::int64_t heads, std::int64_t rows, std::int64_t width, std::int64_t batch,
                   bool odd) {
    exact::Layout layout;
    layout.size = {batch, heads, rows, width};
    if (odd) {
        std::swap(layout.order[1], layout.order[2]);
        layout.gap[1] = 3;
        layout.backwards[2] = true;
        layout.before = 1;
    }
    return Tensor<float>(layout);
}

// `wanted`: bits for q, k and v.
Gradients backward(const Flow& flow, int threads, unsigned wanted = 7, bool odd = false) {
    const regard::Problem& p = flow.c.problem;
    cases::Wanted only_lse;
    only_lse.lse = true;
    const run::Result found = run::attend(flow.c, only_lse, threads);
    Gradients made{room(p.heads, p.queries, p.width, p.batch, odd),
                   room(p.kv_heads, p.keys, p.width, p.batch, odd),
                   room(p.kv_heads, p.keys, p.value_width, p.batch, odd)};
    regard::Gradients gradients;
    regard::RowsOut* to[] = {&gradients.q, &gradients.k, &gradients.v};
    Tensor<float>* from[] = {&made.q, &made.k, &made.v};
    for (int n = 0; n < 3; ++n) {
        if ((wanted >> n & 1u) == 0) continue;
        to[n]->data = from[n]->data();
        for (int axis = 0; axis < 3; ++axis) to[n]->strides[axis] = from[n]->strides()[axis];
    }
    const auto& strides = found.output.strides();
    const regard::Attended attended{
        {found.output.data(), {strides[0], strides[1], strides[2]}}, found.lse.data(), flow.rows()};
    regard::attention_backward(p, attended, gradients, threads);
    return made;
}

void must_be_the_same(const Gradients& a, const Gradients& b, const std::string& when,
                      unsigned wanted = 7) {
    const bool same = ((wanted & 1u) == 0 || exact::same_bits(a.q.flat(), b.q.flat())) &&
                      ((wanted & 2u) == 0 || exact::same_bits(a.k.flat(), b.k.flat())) &&
                      ((wanted & 4u) == 0 || exact::same_bits(a.v.flat(), b.v.flat()));
    if (!same) check::failed(when + ": other bits");
}

// The largest error is at most three times that of eager float, plus a few units in the last
// place; not finite is what, and only what, is not finite by hand.
void must_be_near(const std::string& what, const std::vector<float>& found,
                  const std::vector<double>& expected, const std::vector<float>& eager,
                  double unit) {
    double eager_error = 0, largest = 1;
    for (std::size_t n = 0; n < expected.size(); ++n) {
        if (!std::isfinite(expected[n])) continue;
        largest = std::max(largest, std::abs(expected[n]));
        if (std::isfinite(eager[n]))
            eager_error = std::max(eager_error, std::abs(eager[n] - expected[n]));
    }
    const double bound = 3 * eager_error + unit * largest;
    for (std::size_t n = 0; n < expected.size(); ++n) {
        const bool fits = std::isfinite(expected[n])
                              ? std::abs(double{found[n]} - expected[n]) <= bound
                              : !std::isfinite(found[n]);
        if (fits) continue;
        return check::failed(what + "[" + std::to_string(n) + "] is " + std::to_string(found[n]) +
                             "; by hand " + std::to_string(expected[n]) + ", allowed error " +
                             std::to_string(bound));
    }
}

void must_be_as_by_hand(const Flow& flow, const Gradients& found, const std::string& when) {
    const regard::Problem& p = flow.c.problem;
    const auto exact = by_hand::attend<double>(p);
    const auto truth = by_hand::backward<double>(p, exact, flow.rows());
    const auto eager = by_hand::backward<float>(p, by_hand::attend<float>(p), flow.rows());
    double flowing = 1;
    for (const float x : flow.gradient.flat())
        if (std::isfinite(x)) flowing = std::max(flowing, std::abs(double{x}));
    const double unit = 4 * 0x1p-24 * std::max(1.0, exact.largest_score) * flowing;
    const std::string prefix = flow.c.name + ", " + when + ": ";
    must_be_near(prefix + "dq", found.q.flat(), truth.dq, eager.dq, unit);
    must_be_near(prefix + "dk", found.k.flat(), truth.dk, eager.dk, unit);
    must_be_near(prefix + "dv", found.v.flat(), truth.dv, eager.dv, unit);
    if (!found.q.gaps_are_unset() || !found.k.gaps_are_unset() || !found.v.gaps_are_unset())
        check::failed(prefix + "wrote between the rows");
}

bool is_seen(const regard::Problem& p, std::int64_t b, std::int64_t kv_head, std::int64_t j) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
        if (by_hand::kv_head(p, h) != kv_head) continue;
        for (std::int64_t i = 0; i < p.queries; ++i)
            if (by_hand::may_attend(p, Query{b, h, i}, j)) return true;
    }
    return false;
}

bool sees(const regard::Problem& p, Query q) {
    for (std::int64_t j = 0; j < p.keys; ++j)
        if (by_hand::may_attend(p, q, j)) return true;
    return false;
}

// Keys that nobody sees and queries that see nothing get exactly 0, and what they hold has no
// effect: not a NaN, and not what makes products overflow.
void what_is_not_allowed_neither_gives_nor_gets(const Flow& flow, const std::string& kernel) {
    const regard::Problem& p = flow.c.problem;
    const Gradients before = backward(flow, 2);
    for (const float held : {kNaN, -std::numeric_limits<float>::infinity(), 1e38F}) {
        Flow other = contiguous(flow);
        for (std::int64_t b = 0; b < p.batch; ++b)
            for (std::int64_t g = 0; g < p.kv_heads; ++g)
                for (std::int64_t j = 0; j < p.keys; ++j) {
                    if (is_seen(p, b, g, j)) continue;
                    for (std::int64_t d = 0; d < p.width; ++d) other.c.k.at(b, g, j, d) = held;
                    for (std::int64_t e = 0; e < p.value_width; ++e)
                        other.c.v.at(b, g, j, e) = held;
                }
        by_hand::for_each_query(p, [&](Query q, std::int64_t) {
            if (sees(p, q)) return;
            for (std::int64_t d = 0; d < p.width; ++d) other.c.q.at(q.b, q.h, q.i, d) = held;
            for (std::int64_t e = 0; e < p.value_width; ++e)
                other.gradient.at(q.b, q.h, q.i, e) = held;
        });
        const Gradients after = backward(other, 2);
        must_be_the_same(before, after, flow.c.name + ", " + kernel + ", not allowed");
        bool zero = true;
        for (std::int64_t b = 0; b < p.batch; ++b)
            for (std::int64_t g = 0; g < p.kv_heads; ++g)
                for (std::int64_t j = 0; j < p.keys; ++j) {
                    if (is_seen(p, b, g, j)) continue;
                    for (std::int64_t d = 0; d < p.width; ++d)
                        zero = zero && after.k.at(b, g, j, d) == 0;
                    for (std::int64_t e = 0; e < p.value_width; ++e)
                        zero = zero && after.v.at(b, g, j, e) == 0;
                }
        by_hand::for_each_query(p, [&](Query q, std::int64_t) {
            if (sees(p, q)) return;
            for (std::int64_t d = 0; d < p.width; ++d)
                zero = zero && after.q.at(q.b, q.h, q.i, d) == 0;
        });
        if (!zero)
            check::failed(flow.c.name + ", " + kernel + ": what is not allowed gets a gradient");
    }
}

// A NaN in one row of q, k, v or the gradient reaches what, and only what, it reaches by hand.
void what_is_allowed_counts(const Flow& flow, std::uint64_t number, const std::string& kernel) {
    cases::Random random(number);
    for (int which = 0; which < 4; ++which) {
        Flow spoilt = contiguous(flow);
        Tensor<float>* x[] = {&spoilt.c.q, &spoilt.c.k, &spoilt.c.v, &spoilt.gradient};
        const auto& size = x[which]->size();
        x[which]->at(random.below(size[0]), random.below(size[1]), random.below(size[2]),
                     random.below(size[3])) =
            random.pick({kNaN, std::numeric_limits<float>::infinity()});
        must_be_as_by_hand(spoilt, backward(spoilt, 2),
                           kernel + ", a NaN in " + std::string(1, "qkvg"[which]));
    }
}

void surroundings_make_no_difference(const Flow& flow, const std::string& kernel) {
    const regard::Problem& p = flow.c.problem;
    const std::string name = flow.c.name + ", " + kernel;
    const Gradients one = backward(flow, 1);
    must_be_the_same(one, backward(flow, 2), name + ", 2 threads");
    must_be_the_same(one, backward(flow, 4), name + ", 4 threads");
    must_be_the_same(one, backward(contiguous(flow), 2), name + ", contiguous");
    for (const unsigned wanted : {1u, 2u, 4u, 5u, 6u})
        must_be_the_same(one, backward(flow, 2, wanted), name + ", not all wanted", wanted);
    // Dropout knows a head by its number.
    if (p.heads != p.kv_heads || p.dropout.chance > 0) return;
    const std::int64_t b = p.batch - 1, h = p.heads / 2;
    const Gradients found = backward(contiguous(flow, b, h), 1);
    const auto same = [&](const Tensor<float>& whole, const Tensor<float>& part) {
        const std::vector<float> all = whole.flat(), of_head = part.flat();
        const std::int64_t size = part.elements();
        return exact::same_bits(&all[(b * p.heads + h) * size], of_head.data(), size);
    };
    if (!same(one.q, found.q) || !same(one.k, found.k) || !same(one.v, found.v))
        check::failed(name + ": other bits when a head is alone");
}

// Several parts of keys, shared out among threads or not.
void many_keys_are_the_same_by_any_number_of_threads(const std::string& kernel) {
    for (const regard::Problem& sizes :
         {cases::sizes(1, 1, 1, 101, 2311, 16, 8), cases::sizes(1, 4, 2, 7, 4099, 8, 8),
          cases::sizes(3, 3, 3, 53, 521, 8, 17)}) {
        Flow flow = with_flow(cases::plain(13, sizes), 17);
        for (const bool causal : {false, true}) {
            flow.c.problem.causal = causal;
            flow.c.problem.dropout = {causal ? 0.3 : 0.0, 23};
            const Gradients one = backward(flow, 1);
            must_be_as_by_hand(flow, one, kernel);
            for (const int threads : {2, 3, 8})
                must_be_the_same(one, backward(flow, threads), flow.c.name + ", " + kernel);
            for (std::uint64_t repeat = 0; repeat < run::number_of_problems(20); ++repeat)
                must_be_the_same(one, backward(flow, 4),
                                 flow.c.name + ", " + kernel + ", repeated");
        }
    }
}

void an_interrupted_call_leaves_no_trace(const std::string& kernel) {
    const Flow flow = with_flow(cases::plain(17, cases::sizes(1, 2, 1, 3001, 601, 8, 8)), 19);
    const Gradients before = backward(flow, 2);
    cases::Wanted only_lse;
    only_lse.lse = true;
    const run::Result found = run::attend(flow.c, only_lse, 2);
    const auto& strides = found.output.strides();
    const regard::Attended attended{
        {found.output.data(), {strides[0], strides[1], strides[2]}}, found.lse.data(), flow.rows()};
    Tensor<float> dq = room(2, 3001, 8, 1, false);
    regard::Gradients gradients;
    gradients.q.data = dq.data();
    for (int axis = 0; axis < 3; ++axis) gradients.q.strides[axis] = dq.strides()[axis];
    for (const int threads : {1, 2, 4}) {
        bool interrupted = false;
        regard::set_interrupt_check([] { return true; });
        // A call asks only now and then, and only if its own thread comes to work.
        for (int attempt = 0; attempt < 200 && !interrupted; ++attempt) {
            try {
                regard::attention_backward(flow.c.problem, attended, gradients, threads);
            } catch (const regard::Interrupted&) {
                interrupted = true;
            }
        }
        regard::set_interrupt_check(nullptr);
        CHECK(interrupted);
        must_be_the_same(before, backward(flow, threads), flow.c.name + ", " + kernel);
    }
}

void a_problem_holds(std::uint64_t number) {
    const Flow flow = make(number);
    kernels::for_each([&](const std::string& kernel) {
        must_be_as_by_hand(
            flow, backward(flow, 1 + static_cast<int>(number % 3), 7, number % 2 != 0), kernel);
        surroundings_make_no_difference(flow, kernel);
        if (number % 3 == 0) what_is_not_allowed_neither_gives_nor_gets(flow, kernel);
        if (number % 3 == 1) what_is_allowed_counts(flow, number, kernel);
    });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) {
        a_problem_holds(std::strtoull(argv[1], nullptr, 10));
        return check::result();
    }
    const std::uint64_t problems = run::number_of_problems(105);
    for (std::uint64_t number = kFirst; number < kFirst + problems; ++number)
        a_problem_holds(number);
    kernels::for_each([](const std::string& kernel) {
        many_keys_are_the_same_by_any_number_of_threads(kernel);
        an_interrupted_call_leaves_no_trace(kernel);
    });
    return check::result();
}
