// What is held against the numbers by hand, and how far off it may be.
#include "judge.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "check.h"

namespace judge {
namespace {

std::string at(std::size_t n, double found, double expected, double bound) {
    char text[160];
    std::snprintf(text, sizeof text, "[%zu] is %.9g; by hand %.9g, allowed error %.3g", n, found,
                  expected, bound);
    return text;
}

// An error of at most twice that of eager float, plus `floor`; and not finite where, and only
// where, the numbers by hand are not.
void must_be_near(const std::string& what, const float* found, const std::vector<double>& by_hand,
                  const std::vector<float>& eager, double floor) {
    double eager_error = 0;
    for (std::size_t n = 0; n < by_hand.size(); ++n)
        if (std::isfinite(by_hand[n]) && std::isfinite(eager[n]))
            eager_error = std::max(eager_error, std::abs(eager[n] - by_hand[n]));
    const double bound = 2 * eager_error + floor;
    for (std::size_t n = 0; n < by_hand.size(); ++n) {
        const bool fits = std::isfinite(by_hand[n])
                              ? std::abs(double{found[n]} - by_hand[n]) <= bound
                              : !std::isfinite(found[n]);
        if (!fits) return check::failed(what + at(n, found[n], by_hand[n], bound));
    }
}

double largest(const std::vector<double>& numbers) {
    double out = 0;
    for (const double x : numbers)
        if (std::isfinite(x)) out = std::max(out, std::abs(x));
    return out;
}

}  // namespace

Judge::Judge(const cases::Case& c)
    : case_(c),
      exact_(by_hand::attend<double>(c.problem)),
      eager_(by_hand::attend<float>(c.problem)),
      // Scores below 1 do not make the rounding of what is added up any smaller.
      unit_(4 * 0x1p-24 * std::max(1.0, exact_.largest_score)),
      // A weight that is made again has the rounding of two scores, and that of an lse in float.
      unit_again_(8 * 0x1p-24 * std::max({1.0, exact_.largest_score, largest(exact_.lse)})) {}

void Judge::judge(const run::Result& r, const std::string& when, double rounding) const {
    const regard::Problem& p = case_.problem;
    const std::string prefix = case_.name + ", " + when + ": ";
    judge_output(r, prefix, rounding);
    if (r.seen.lse != nullptr) judge_lse(r, prefix);
    const auto near = [&](const char* what, const float* found, const auto& in_double,
                          const auto& in_float, double unit, double least) {
        must_be_near(prefix + what, found, in_double, in_float,
                     unit * std::max(least, largest(in_double)));
    };
    if (r.seen.entropy != nullptr)  // the logarithm of a sum about 1
        near("entropy", r.seen.entropy, by_hand::entropy(p, exact_), by_hand::entropy(p, eager_),
             unit_, 1);
    if (r.seen.distance != nullptr)
        near("distance", r.seen.distance, by_hand::distance(p, exact_),
             by_hand::distance(p, eager_), unit_, 0);
    if (r.seen.map != nullptr)
        near("map", r.seen.map, by_hand::map(p, exact_, r.seen), by_hand::map(p, eager_, r.seen),
             unit_, 0);
    if (r.seen.received != nullptr)
        near("received", r.seen.received, by_hand::received(p, exact_, r.seen),
             by_hand::received(p, eager_, r.seen), unit_again_, 0);
    if (r.seen.max_logit != nullptr) judge_max_logit(r, prefix);
    if (r.seen.spans != nullptr)
        near("spans", r.seen.spans, by_hand::spans(p, exact_, r.seen),
             by_hand::spans(p, eager_, r.seen), unit_, 0);
    judge_lists(r, prefix);
    judge_queries_without_keys(r, prefix);
}

void Judge::judge_weights(const exact::Array<float>& found, const std::string& when) const {
    const std::vector<double> expected = by_hand::weights(case_.problem, exact_, case_.rectangle);
    must_be_near(case_.name + ", " + when + ": weights", found.data(), expected,
                 by_hand::weights(case_.problem, eager_, case_.rectangle),
                 unit_again_ * largest(expected));
    const regard::Rectangle& r = case_.rectangle;
    std::int64_t cell = 0;
    by_hand::for_each_query(case_.problem, [&](by_hand::Query q, std::int64_t n) {
        if (q.i < r.row || q.i >= r.row + r.rows) return;
        for (std::int64_t j = r.key; j < r.key + r.keys; ++j, ++cell)
            if (!exact_.allowed[n * case_.problem.keys + j] && found[cell] != 0)
                check::failed(case_.name + ", " + when + ": a weight is not 0 but masked");
    });
}

void Judge::judge_pooled(const exact::Array<float>& found, regard::Reduce reduce,
                         const std::string& when) const {
    const auto expected = [&](const auto& attended) {
        return by_hand::pooled(case_.problem, attended, case_.rectangle, case_.pixel_rows,
                               case_.pixel_columns, reduce);
    };
    const char* what = reduce == regard::Reduce::mean ? ": pooled mean" : ": pooled maximum";
    const std::vector<double> in_double = expected(exact_);
    must_be_near(case_.name + ", " + when + what, found.data(), in_double, expected(eager_),
                 unit_again_ * largest(in_double));
}

void Judge::judge_output(const run::Result& r, const std::string& prefix, double rounding) const {
    const std::vector<float> found = r.output.flat();
    must_be_near(prefix + "output", found.data(), exact_.output, eager_.output,
                 (unit_ + rounding) * exact_.largest_value);
    if (!r.output.gaps_are_unset()) check::failed(prefix + "wrote between the rows of output");
    if (!case_.unit_variance || rounding != 0) return;
    for (std::size_t n = 0; n < found.size(); ++n) {
        const double expected = exact_.output[n], bound = 1e-5 + 5e-6 * std::abs(expected);
        if (std::isfinite(expected) && !(std::abs(found[n] - expected) <= bound))
            return check::failed(prefix + "output" + at(n, found[n], expected, bound));
    }
}

void Judge::judge_lse(const run::Result& r, const std::string& prefix) const {
    must_be_near(prefix + "lse", r.seen.lse, exact_.lse, eager_.lse, unit_);
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    for (std::size_t n = 0; n < exact_.lse.size(); ++n)
        if ((r.lse[n] == minus_infinity) != (exact_.lse[n] == minus_infinity))
            return check::failed(prefix + "lse" + at(n, r.lse[n], exact_.lse[n], 0));
}

void Judge::judge_max_logit(const run::Result& r, const std::string& prefix) const {
    must_be_near(prefix + "max_logit", r.seen.max_logit, exact_.max_logit, eager_.max_logit, unit_);
    for (std::size_t n = 0; n < exact_.max_logit.size(); ++n)
        if (std::isinf(exact_.max_logit[n]) && r.max_logit[n] != exact_.max_logit[n])
            return check::failed(prefix + "max_logit" +
                                 at(n, r.max_logit[n], exact_.max_logit[n], 0));
}

void Judge::judge_lists(const run::Result& r, const std::string& prefix) const {
    const regard::Problem& p = case_.problem;
    judge_list({"top", r.seen.top, r.seen.top_keys, r.seen.top_weights, exact_.weights,
                eager_.weights, exact_.allowed},
               prefix);
    if (r.seen.contribution == 0) return;
    std::vector<std::uint8_t> eligible = exact_.allowed;
    by_hand::for_each_query(p, [&](by_hand::Query q, std::int64_t n) {
        for (std::int64_t j = 0; j < p.keys; ++j)
            if (by_hand::norm(p, q.b, q.h, j) == 0) eligible[n * p.keys + j] = 0;
    });
    judge_list({"contribution", r.seen.contribution, r.seen.contribution_keys, r.seen.contributions,
                by_hand::contribution(p, exact_), by_hand::contribution(p, eager_), eligible},
               prefix);
}

// Sorted, as large as the largest by hand, and the sizes of the keys they name. Equal ones may come
// in any order; what is not finite comes first.
void Judge::judge_list(const List& list, const std::string& prefix) const {
    const regard::Problem& p = case_.problem;
    const std::int64_t count = list.count;
    if (list.keys == nullptr && list.sizes == nullptr) return;
    double eager_error = 0;
    for (std::size_t n = 0; n < list.exact.size(); ++n)
        if (std::isfinite(list.exact[n]) && std::isfinite(list.eager[n]))
            eager_error = std::max(eager_error, std::abs(list.eager[n] - list.exact[n]));
    const double bound = 2 * eager_error + unit_ * largest(list.exact);

    bool right = true;
    by_hand::for_each_query(p, [&](by_hand::Query, std::int64_t n) {
        const double* sizes = list.exact.data() + n * p.keys;
        const std::uint8_t* eligible = list.eligible.data() + n * p.keys;
        std::vector<double> ordered;
        for (std::int64_t j = 0; j < p.keys; ++j)
            if (eligible[j]) ordered.push_back(std::isfinite(sizes[j]) ? sizes[j] : HUGE_VAL);
        std::sort(ordered.begin(), ordered.end(), std::greater<double>());
        const auto number = std::min<std::int64_t>(count, ordered.size());
        std::set<std::int64_t> seen;
        for (std::int64_t t = 0; t < count && right; ++t) {
            const bool spoilt = t < number && !std::isfinite(ordered[t]);
            bool fits = true;
            if (list.keys != nullptr) {
                const std::int64_t key = list.keys[n * count + t];
                if (t >= number)
                    fits = key == -1;
                else
                    fits = key >= 0 && key < p.keys && eligible[key] && seen.insert(key).second &&
                           (spoilt ? !std::isfinite(sizes[key])
                                   : std::abs(sizes[key] - ordered[t]) <= bound);
            }
            if (list.sizes != nullptr) {
                const float size = list.sizes[n * count + t];
                if (t >= number)
                    fits = fits && size == 0;
                else if (spoilt)
                    fits = fits && !std::isfinite(size);
                else
                    fits = fits && std::abs(size - ordered[t]) <= bound &&
                           (t == 0 || !(size > list.sizes[n * count + t - 1]));
            }
            if (fits) continue;
            right = false;
            const double key = list.keys != nullptr ? list.keys[n * count + t] : -2;
            const double size = list.sizes != nullptr ? list.sizes[n * count + t] : std::nan("");
            char text[200];
            std::snprintf(text, sizeof text,
                          "%s of query %lld, place %lld of %lld: key %g, size %.9g; by hand %.9g, "
                          "allowed error %.3g",
                          list.name, static_cast<long long>(n), static_cast<long long>(t),
                          static_cast<long long>(number), key, size, t < number ? ordered[t] : 0,
                          bound);
            check::failed(prefix + text);
        }
    });
}

void Judge::judge_queries_without_keys(const run::Result& r, const std::string& prefix) const {
    const regard::Problem& p = case_.problem;
    const std::vector<float> output = r.output.flat();
    by_hand::for_each_query(p, [&](by_hand::Query, std::int64_t n) {
        if (by_hand::allowed_keys(p, exact_, n) > 0) return;
        bool zero = true;
        for (std::int64_t e = 0; e < p.value_width; ++e)
            zero = zero && output[n * p.value_width + e] == 0;
        if (r.seen.entropy != nullptr) zero = zero && r.entropy[n] == 0;
        if (r.seen.distance != nullptr) zero = zero && r.distance[n] == 0;
        if (!zero) check::failed(prefix + "a query without keys is not 0");
    });
}

}  // namespace judge
