// A NaN or an infinity that a query may not attend to has no effect, not in a bit; one that it may
// attend to always has. REGARD_TEST_PROBLEMS=n tries fewer.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "by_hand.h"
#include "cases.h"
#include "check.h"
#include "judge.h"
#include "kernels.h"
#include "run.h"

namespace {

using by_hand::Query;
using cases::Case;
using run::Result;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kHuge = std::numeric_limits<float>::max();

// Bit for bit the same rows, where `of_interest` says so. Sums over several queries are not looked
// at.
template <typename OfInterest>
void rows_must_be_the_same(const Case& c, const Result& a, const Result& b, OfInterest of_interest,
                           const std::string& when) {
    const std::vector<float> output = a.output.flat(), other = b.output.flat();
    const std::int64_t width = c.problem.value_width, top = c.wanted.top;
    bool same = true;
    by_hand::for_each_query(c.problem, [&](Query q, std::int64_t n) {
        if (!of_interest(q)) return;
        same = same && exact::same_bits(&output[n * width], &other[n * width], width) &&
               exact::same_bits(&a.lse[n], &b.lse[n], 1) &&
               exact::same_bits(&a.entropy[n], &b.entropy[n], 1) &&
               exact::same_bits(&a.distance[n], &b.distance[n], 1) &&
               exact::same_bits(&a.top_keys[n * top], &b.top_keys[n * top], top) &&
               exact::same_bits(&a.top_weights[n * top], &b.top_weights[n * top], top);
    });
    if (!same) check::failed(c.name + ", " + when + ": other bits by what may not be attended to");
}

// Whether any query may attend to key j of a key head.
bool is_seen(const regard::Problem& p, std::int64_t b, std::int64_t kv_head, std::int64_t j) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
        if (by_hand::kv_head(p, h) != kv_head) continue;
        for (std::int64_t i = 0; i < p.queries; ++i)
            if (by_hand::may_attend(p, Query{b, h, i}, j)) return true;
    }
    return false;
}

// K and V of the keys that nobody sees, and the bias of what is masked in another way.
void fill_the_unseen(Case& c, float with) {
    const regard::Problem& p = c.problem;
    for (std::int64_t b = 0; b < p.batch; ++b)
        for (std::int64_t g = 0; g < p.kv_heads; ++g)
            for (std::int64_t j = 0; j < p.keys; ++j) {
                if (is_seen(p, b, g, j)) continue;
                for (std::int64_t d = 0; d < p.width; ++d) c.k.at(b, g, j, d) = with;
                for (std::int64_t e = 0; e < p.value_width; ++e) c.v.at(b, g, j, e) = with;
            }
    if (!c.has_bias) return;
    by_hand::for_each_query(p, [&](Query q, std::int64_t) {
        for (std::int64_t j = 0; j < p.keys; ++j) {
            float& bias = c.bias.at(q.b, q.h, q.i, j);
            if (bias != -kInfinity && !by_hand::may_attend(p, q, j)) bias = with;
        }
    });
}

void what_nobody_sees_has_no_effect(const Case& c, const std::string& kernel) {
    const Result before = run::attend(c, 2);
    const exact::Array<float> weights = run::weights(c, before.lse, 2);
    const exact::Array<float> mean = run::pooled(c, before.lse, regard::Reduce::mean, 2);
    for (const float with : {kNaN, kInfinity, -kInfinity, kHuge}) {
        if (with == -kInfinity && c.has_bias) continue;  // would be another mask
        Case filled = cases::contiguous(c);
        fill_the_unseen(filled, with);
        const std::string when =
            c.name + ", " + kernel + ", unseen keys are " + std::to_string(with);
        run::must_be_the_same(before, run::attend(filled, 2), when);
        if (!exact::same_bits(weights, run::weights(filled, before.lse, 2)))
            check::failed(when + ": other bits in weights");
        if (!exact::same_bits(mean, run::pooled(filled, before.lse, regard::Reduce::mean, 2)))
            check::failed(when + ": other bits in the mean");
    }
}

void fill_a_few(cases::Random& random, exact::Tensor<float>& x, float with) {
    const auto& size = x.size();
    for (std::int64_t n = 1 + random.below(3); n > 0; --n)
        x.at(random.below(size[0]), random.below(size[1]), random.below(size[2]),
             random.below(size[3])) = with;
}

// Whether anything that differs between the two cases goes into the row of a query.
bool is_touched(const Case& a, const Case& b, Query q) {
    const regard::Problem& p = b.problem;
    const auto differ = [](const regard::Rows& x, const regard::Rows& y, std::int64_t at_b,
                           std::int64_t at_h, std::int64_t n, std::int64_t width) {
        return !exact::same_bits(by_hand::row_of(x, at_b, at_h, n),
                                 by_hand::row_of(y, at_b, at_h, n), width);
    };
    const std::int64_t g = by_hand::kv_head(p, q.h);
    const bool other_query = differ(a.problem.q, p.q, q.b, q.h, q.i, p.width);
    for (std::int64_t j = 0; j < p.keys; ++j) {
        if (!by_hand::may_attend(p, q, j)) continue;
        if (other_query || differ(a.problem.k, p.k, q.b, g, j, p.width) ||
            differ(a.problem.v, p.v, q.b, g, j, p.value_width))
            return true;
        if (b.has_bias && std::isnan(by_hand::cell_of(p.bias, q, j))) return true;
    }
    return false;
}

void what_is_allowed_counts(const Case& c, std::uint64_t number, const std::string& kernel) {
    const Result before = run::attend(c, 2);
    cases::Random random(number);
    for (const char* where : {"q", "k", "v", "k and v", "bias"}) {
        const std::string name = where;
        const float with =
            name == "bias" ? kNaN : random.pick({kNaN, kInfinity, -kInfinity, kHuge});
        Case filled = cases::contiguous(c);
        if (name == "q") fill_a_few(random, filled.q, with);
        if (name == "k" || name == "k and v") fill_a_few(random, filled.k, with);
        if (name == "v" || name == "k and v") fill_a_few(random, filled.v, with);
        if (name == "bias") {
            if (!c.has_bias) continue;
            fill_a_few(random, filled.bias, with);
            // A NaN in the place of −inf would be another mask.
            for (std::int64_t n = 0; n < filled.bias.elements(); ++n)
                if (c.bias.data()[n] == -kInfinity) filled.bias.data()[n] = -kInfinity;
        }
        const std::string when = kernel + ", " + std::to_string(with) + " in " + where;
        const Result after = run::attend(filled, 2);
        rows_must_be_the_same(
            filled, before, after, [&](Query q) { return !is_touched(c, filled, q); }, when);
        if (with == kHuge) continue;  // float overflows where double does not
        const judge::Judge judge(filled);
        judge.judge(after, when);
        judge.judge_weights(run::weights(filled, after.lse, 2), when);
        for (const regard::Reduce reduce : {regard::Reduce::mean, regard::Reduce::maximum})
            judge.judge_pooled(run::pooled(filled, after.lse, reduce, 2), reduce, when);
    }
}

void a_sink_that_is_not_finite_counts(const std::string& kernel) {
    for (const std::int64_t queries : {3, 97}) {
        for (const float sink : {kNaN, kInfinity}) {
            Case c = cases::plain(41, cases::sizes(2, 3, 3, queries, 257, 17, 19));
            c.problem.causal = true;
            c.problem.position = -1;  // the first query has no key
            c.has_sinks = true;
            c.sinks = exact::Array<float>(3);
            for (std::int64_t h = 0; h < 3; ++h) c.sinks[h] = h == 1 ? sink : 0.5F;
            c.point();
            const judge::Judge judge(c);
            judge.judge(run::attend(c, 2), kernel + ", a sink of " + std::to_string(sink));
        }
    }
}

}  // namespace

int main() {
    const std::uint64_t problems = run::number_of_problems(70);
    kernels::for_each([&](const std::string& kernel) {
        for (std::uint64_t number = 2000; number < 2000 + problems; ++number) {
            const Case c = cases::contiguous(cases::everything_wanted(cases::make(number)));
            what_nobody_sees_has_no_effect(c, kernel);
            what_is_allowed_counts(c, number, kernel);
        }
        a_sink_that_is_not_finite_counts(kernel);
    });
    return check::result();
}
