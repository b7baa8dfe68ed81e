// The kernel for float64: the problems of the other tests, with the same numbers in float64, are as
// by hand, to the digits that float64 has, and their bits do not depend on the threads.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "by_hand.h"
#include "cases.h"
#include "check.h"
#include "exact.h"
#include "kernels.h"
#include "regard/attention.h"
#include "run.h"

namespace {

using Doubles = exact::Array<double>;
using regard::Type;

// The memory of a tensor in float64.
Doubles widened(const exact::Array<float>& memory) {
    Doubles out(memory.size());
    for (std::int64_t n = 0; n < memory.size(); ++n) out[n] = memory[n];
    return out;
}

// A case in float64, and all that is written about it.
struct Wide {
    Doubles q, k, v, bias, sinks;
    regard::ProblemOf<double> problem;
    Doubles output, lse, entropy, distance, top_weights, map, received;
    exact::Array<std::int64_t> top_keys;
    regard::SeenOf<double> seen;

    explicit Wide(const cases::Case& c)
        : q(widened(c.q.memory())),
          k(widened(c.k.memory())),
          v(widened(c.v.memory())),
          bias(widened(c.bias.memory())),
          sinks(widened(c.sinks)) {
        const regard::Problem& p = c.problem;
        problem.batch = p.batch;
        problem.heads = p.heads;
        problem.kv_heads = p.kv_heads;
        problem.queries = p.queries;
        problem.keys = p.keys;
        problem.width = p.width;
        problem.value_width = p.value_width;
        problem.scale = p.scale;
        problem.softcap = p.softcap;
        problem.position = p.position;
        problem.segments = p.segments;
        problem.causal = p.causal;
        problem.left = p.left;
        problem.right = p.right;
        problem.mask = p.mask;
        problem.chosen = p.chosen;
        problem.lengths = p.lengths;
        problem.dropout = p.dropout;
        const auto rows = [](const regard::Rows& of, const exact::Tensor<float>& from,
                             const Doubles& to) {
            regard::Rows found = of;
            found.data = to.data() + (from.data() - from.memory().data());
            found.type = Type::float64;
            return found;
        };
        problem.q = rows(p.q, c.q, q);
        problem.k = rows(p.k, c.k, k);
        problem.v = rows(p.v, c.v, v);
        if (c.has_bias) {
            problem.bias.data = bias.data() + (c.bias.data() - c.bias.memory().data());
            std::copy(p.bias.strides, p.bias.strides + 4, problem.bias.strides);
        }
        if (c.has_sinks) problem.sinks = sinks.data();
    }

    // The rows of something contiguous.
    regard::RowsOut rows(Doubles& of, std::int64_t heads, std::int64_t n,
                         std::int64_t width) const {
        return {of.data(), {heads * n * width, n * width, width}, Type::float64};
    }

    void attend(std::int64_t top, std::int64_t map_rows, std::int64_t map_columns, int threads) {
        const auto& p = problem;
        const std::int64_t heads = p.batch * p.heads, number = heads * p.queries;
        output = Doubles(number * p.value_width);
        lse = Doubles(number);
        entropy = Doubles(number);
        distance = Doubles(number);
        top_keys = exact::Array<std::int64_t>(number * top);
        top_weights = Doubles(number * top);
        map = Doubles(heads * map_rows * map_columns);
        received = Doubles(heads * p.keys);
        seen = {};
        seen.lse = lse.data();
        seen.entropy = entropy.data();
        seen.distance = distance.data();
        seen.top = top;
        seen.top_keys = top_keys.data();
        seen.top_weights = top_weights.data();
        seen.map_rows = map_rows;
        seen.map_columns = map_columns;
        seen.map = map.data();
        seen.received = received.data();
        regard::attention(problem, rows(output, p.heads, p.queries, p.value_width), seen, threads);
    }
};

void must_be_near(const std::vector<double>& truth, const Doubles& found, double allowed,
                  const std::string& what) {
    CHECK(static_cast<std::int64_t>(truth.size()) == found.size());
    for (std::int64_t n = 0; n < found.size(); ++n) {
        const double exact = truth[static_cast<std::size_t>(n)];
        const bool same = exact == found[n] || (std::isnan(exact) && std::isnan(found[n]));
        if (!same && !(std::abs(exact - found[n]) <= allowed)) {
            check::failed(what + ": number " + std::to_string(n) + " is " +
                          std::to_string(found[n]) + ", not " + std::to_string(exact));
            return;
        }
    }
}

void the_strongest_are_the_strongest(const Wide& wide, const by_hand::Attended<double>& truth,
                                     std::int64_t top, double allowed, const std::string& what) {
    const std::int64_t keys = wide.problem.keys;
    for (std::int64_t n = 0; n < wide.lse.size(); ++n) {
        std::vector<double> weights(truth.weights.begin() + n * keys,
                                    truth.weights.begin() + (n + 1) * keys);
        std::vector<double> sorted = weights;
        std::sort(sorted.rbegin(), sorted.rend());
        for (std::int64_t t = 0; t < top; ++t) {
            const std::int64_t key = wide.top_keys[n * top + t];
            const double weight = wide.top_weights[n * top + t];
            const double expected = t < keys ? sorted[static_cast<std::size_t>(t)] : 0;
            const double own = key < 0 ? 0 : weights[static_cast<std::size_t>(key)];
            if (std::abs(weight - expected) > allowed || std::abs(weight - own) > allowed) {
                check::failed(what + ": another key is stronger, in row " + std::to_string(n));
                return;
            }
        }
    }
}

void a_problem_is_as_by_hand(std::uint64_t number) {
    const cases::Case c = cases::make(number);
    const regard::Problem& p = c.problem;
    const auto truth = by_hand::attend<double>(p);
    const std::int64_t top = 5 + static_cast<std::int64_t>(number % 7);
    Wide wide(c), other(c);
    kernels::for_each([&](const std::string& kernel) {
        const std::string when = c.name + ", float64, " + kernel;
        wide.attend(top, 3, 7, 1);
        other.attend(top, 3, 7, 3);
        if (!exact::same_bits(wide.output, other.output) ||
            !exact::same_bits(wide.lse, other.lse) || !exact::same_bits(wide.map, other.map) ||
            !exact::same_bits(wide.received, other.received) ||
            !exact::same_bits(wide.top_keys, other.top_keys)) {
            check::failed(when + ": other bits with other threads");
        }
        // A score of size s is off by s · 2⁻⁵³ and more, and its weight by as much.
        const double unit = 1e-14 * (1 + truth.largest_score);
        must_be_near(truth.lse, wide.lse, unit, when + ", lse");
        must_be_near(truth.output, wide.output, 8 * unit * (1 + truth.largest_value),
                     when + ", output");
        must_be_near(by_hand::entropy(p, truth), wide.entropy, 64 * unit, when + ", entropy");
        must_be_near(by_hand::distance(p, truth), wide.distance,
                     8 * unit * static_cast<double>(p.keys + 2000), when + ", distance");
        the_strongest_are_the_strongest(wide, truth, top, 8 * unit, when);
        std::vector<double> received(static_cast<std::size_t>(wide.received.size()), 0);
        by_hand::for_each_query(p, [&](by_hand::Query q, std::int64_t n) {
            for (std::int64_t j = 0; j < p.keys; ++j) {
                received[(q.b * p.heads + q.h) * p.keys + j] += truth.weights[n * p.keys + j];
            }
        });
        must_be_near(received, wide.received, 8 * unit * static_cast<double>(p.queries),
                     when + ", received");
        Doubles weights(wide.lse.size() * p.keys);
        regard::weights(wide.problem, wide.lse.data(), {0, p.queries, 0, p.keys}, weights.data(),
                        2);
        must_be_near(truth.weights, weights, 8 * unit, when + ", weights");
    });
}

void gradients_are_as_by_hand(std::int64_t keys, int threads) {
    const cases::Case c = cases::plain(keys, cases::sizes(2, 4, 2, 29, keys, 19, 13));
    const regard::Problem& p = c.problem;
    Wide wide(c);
    cases::Random random(3);
    exact::Array<float> flowing(p.batch * p.heads * p.queries * p.value_width);
    for (std::int64_t n = 0; n < flowing.size(); ++n) flowing[n] = random.normal();
    Doubles gradient = widened(flowing);
    const std::int64_t strides[] = {p.heads * p.queries * p.value_width, p.queries * p.value_width,
                                    p.value_width};
    const auto truth = by_hand::backward<double>(
        p, by_hand::attend<double>(p), {flowing.data(), {strides[0], strides[1], strides[2]}});
    kernels::for_each([&](const std::string& kernel) {
        wide.attend(1, 1, 1, threads);
        Doubles dq(wide.q.size()), dk(wide.k.size()), dv(wide.v.size());
        const auto in = [](const regard::RowsOut& rows) -> regard::Rows {
            return {rows.data, {rows.strides[0], rows.strides[1], rows.strides[2]}, rows.type};
        };
        const auto& w = wide;
        const regard::AttendedOf<double> attended{
            in(w.rows(wide.output, p.heads, p.queries, p.value_width)), wide.lse.data(),
            in(w.rows(gradient, p.heads, p.queries, p.value_width))};
        regard::attention_backward(
            wide.problem, attended,
            {w.rows(dq, p.heads, p.queries, p.width), w.rows(dk, p.kv_heads, p.keys, p.width),
             w.rows(dv, p.kv_heads, p.keys, p.value_width)},
            threads);
        const std::string when = kernel + ", float64, " + std::to_string(keys) + " keys, ";
        must_be_near(truth.dq, dq, 1e-12, when + "dq");
        must_be_near(truth.dk, dk, 1e-12, when + "dk");
        must_be_near(truth.dv, dv, 1e-12, when + "dv");
    });
}

}  // namespace

int main() {
    for (std::uint64_t n = 0; n < run::number_of_problems(210); ++n) a_problem_is_as_by_hand(n);
    for (const std::int64_t keys : {1, 17, 256, 701}) {
        for (const int threads : {1, 3}) gradients_are_as_by_hand(keys, threads);
    }
    return check::result();
}
