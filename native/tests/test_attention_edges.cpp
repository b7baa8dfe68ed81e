// Attention at its limits: nothing to attend to, one key, very many, more pixels than keys, and
// scores and windows as large as they get.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "cases.h"
#include "check.h"
#include "judge.h"
#include "kernels.h"
#include "run.h"

namespace {

using cases::Case;

// Everything that can be computed of it is as by hand.
void must_be_as_by_hand(const Case& c, const std::string& kernel) {
    const judge::Judge judge(c);
    const run::Result result = run::attend(c, 2);
    judge.judge(result, kernel);
    judge.judge_weights(run::weights(c, result.lse, 2), kernel);
    for (const regard::Reduce reduce : {regard::Reduce::mean, regard::Reduce::maximum})
        judge.judge_pooled(run::pooled(c, result.lse, reduce, 2), reduce, kernel);
}

// For scores so large that their own rounding decides.
void must_be_finite(const Case& c, const std::string& kernel) {
    bool finite = true;
    const run::Result result = run::attend(c, 2);
    for (const float x : result.output.flat()) finite = finite && std::isfinite(x);
    if (!finite) check::failed(c.name + ", " + kernel + ": not finite");
}

void nothing_gives_nothing(const std::string& kernel) {
    for (const regard::Problem& sizes :
         {cases::sizes(0, 3, 3, 5, 7, 8, 8), cases::sizes(2, 0, 0, 5, 7, 8, 8),
          cases::sizes(2, 3, 3, 0, 7, 8, 8), cases::sizes(2, 3, 3, 5, 0, 8, 8),
          cases::sizes(2, 3, 1, 97, 0, 8, 8), cases::sizes(2, 3, 3, 0, 0, 8, 8),
          cases::sizes(2, 3, 3, 5, 7, 8, 0), cases::sizes(2, 3, 1, 101, 300, 8, 0),
          cases::sizes(2, 3, 3, 5, 7, 0, 8), cases::sizes(2, 3, 1, 101, 300, 0, 8)}) {
        Case c = cases::plain(21, sizes);
        must_be_as_by_hand(c, kernel);
        c.has_sinks = true;
        c.sinks = exact::Array<float>(sizes.heads);
        for (std::int64_t h = 0; h < sizes.heads; ++h) c.sinks[h] = 1;
        c.point();
        must_be_as_by_hand(c, kernel);
    }
}

void a_rectangle_may_be_empty(const std::string& kernel) {
    Case c = cases::plain(22, cases::sizes(2, 3, 3, 5, 7, 8, 8));
    for (const regard::Rectangle& rectangle :
         {regard::Rectangle{2, 0, 1, 3}, regard::Rectangle{2, 2, 7, 0},
          regard::Rectangle{5, 0, 7, 0}, regard::Rectangle{4, 1, 6, 1}}) {
        c.rectangle = rectangle;
        must_be_as_by_hand(c, kernel);
    }
}

void no_query_may_see_a_key(const std::string& kernel) {
    for (const std::int64_t queries : {1, 3, 5, 97}) {
        Case c = cases::plain(23, cases::sizes(2, 3, 3, queries, 257, 17, 19));
        c.problem.causal = true;
        c.problem.position = -queries;
        must_be_as_by_hand(c, kernel);
        c.problem.causal = false;
        c.problem.right = 5;
        c.problem.position = -queries - 5;
        must_be_as_by_hand(c, kernel);
        c.problem.right = -1;
        c.problem.left = 5;
        c.problem.position = 257 + 5;
        must_be_as_by_hand(c, kernel);
    }
}

void no_query_need_count(const std::string& kernel) {
    Case c = cases::plain(24, cases::sizes(2, 3, 3, 97, 257, 17, 19));
    exact::Layout layout;
    layout.size = {2, 1, 1, 97};
    c.has_counted = true;
    c.counted = exact::Tensor<std::uint8_t>(layout);
    c.counted.for_each([](std::uint8_t& x) { x = 0; });
    must_be_as_by_hand(c, kernel);
}

void one_key_gives_its_value(const std::string& kernel) {
    for (const std::int64_t queries : {1, 5, 97}) {
        const Case c = cases::plain(25, cases::sizes(2, 3, 3, queries, 1, 17, 19));
        const run::Result result = run::attend(c, 2);
        bool same = true;
        for (std::int64_t b = 0; b < 2; ++b)
            for (std::int64_t h = 0; h < 3; ++h)
                for (std::int64_t i = 0; i < queries; ++i)
                    same = same && exact::same_bits(
                                       &c.v.data()[(b * 3 + h) * 19],
                                       &result.output.data()[((b * 3 + h) * queries + i) * 19], 19);
        if (!same) check::failed(c.name + ", " + kernel + ": not the value of the only key");
    }
}

// More than one part of the keys where queries are few, more than one tile a span where they are
// many.
void long_sequences_are_as_by_hand(const std::string& kernel) {
    constexpr std::int64_t lengths[][2] = {{1, 9001}, {4, 5003},  {7001, 17}, {3, 2048},
                                           {2, 4097}, {12301, 3}, {521, 2051}};
    const std::uint64_t problems = run::number_of_problems(14);
    for (std::uint64_t n = 0; n < problems; ++n)
        must_be_as_by_hand(
            cases::everything_wanted(cases::make(3000 + n, lengths[n % 7][0], lengths[n % 7][1])),
            kernel);
}

void there_may_be_more_of_everything_than_keys(const std::string& kernel) {
    for (const std::int64_t queries : {1, 3, 5, 97}) {
        for (const std::int64_t keys : {1, 7, 17, 259}) {
            Case c = cases::plain(26, cases::sizes(2, 3, 1, queries, keys, 17, 19));
            c.wanted.top = keys + 30;
            c.wanted.map_rows = 2 * queries + 1;
            c.wanted.map_columns = 3 * keys + 1;
            c.pixel_rows = 2 * queries + 1;
            c.pixel_columns = 3 * keys + 1;
            must_be_as_by_hand(c, kernel);
        }
    }
}

void every_number_of_columns_is_as_by_hand(const std::string& kernel) {
    Case c = cases::plain(27, cases::sizes(1, 2, 1, 7, 521, 8, 8));
    c.problem.left = 301;
    for (std::int64_t columns = 1; columns < 530; columns += 1 + columns / 7) {
        c.wanted.map_columns = c.pixel_columns = columns;
        must_be_as_by_hand(c, kernel);
    }
}

void every_number_of_the_strongest_is_as_by_hand(const std::string& kernel) {
    for (const std::int64_t queries : {2, 11}) {
        Case c = cases::plain(28, cases::sizes(1, 2, 1, queries, 521, 8, 8));
        for (std::int64_t top = 1; top < 70; top += 1 + top / 9) {
            c.wanted.top = top;
            must_be_as_by_hand(c, kernel);
        }
    }
}

// Of equal weights each one that is added would be rounded the same way.
void equal_weights_of_many_queries_are_added_up(const std::string& kernel) {
    constexpr std::int64_t lengths[][2] = {{96, 3}, {96, 21}, {97, 13}, {101, 263}, {20011, 7}};
    for (const auto& [queries, keys] : lengths) {
        Case c = cases::plain(33, cases::sizes(1, 1, 1, queries, keys, 1, 1));
        c.q.for_each([](float& x) { x = 0; });
        c.wanted.map_rows = c.pixel_rows = 2;
        c.wanted.map_columns = c.pixel_columns = 1;
        c.point();
        const auto must_be = [&](const exact::Array<float>& found, double expected,
                                 const char* what) {
            for (std::int64_t n = 0; n < found.size(); ++n)
                if (!(std::abs(found[n] - expected) <= 8 * 0x1p-24 * expected))
                    return check::failed(c.name + ", " + kernel + ": " + what);
        };
        const double share = 1 / static_cast<double>(keys);
        const run::Result result = run::attend(c, 2);
        must_be(result.received, static_cast<double>(queries) * share, "received");
        must_be(result.map, 1, "map");
        must_be(run::pooled(c, result.lse, regard::Reduce::mean, 2), share, "pooled mean");
        c.wanted.map_columns = keys;
        must_be(run::attend(c, 2).map, share, "map with a column for each key");
    }
}

void a_window_may_be_as_wide_as_numbers_go(const std::string& kernel) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t queries : {3, 97}) {
        Case c = cases::plain(29, cases::sizes(2, 3, 3, queries, 257, 17, 19));
        c.problem.left = most;
        must_be_as_by_hand(c, kernel);
        c.problem.right = most;
        must_be_as_by_hand(c, kernel);
        c.problem.left = 3;
        must_be_as_by_hand(c, kernel);
    }
}

void scores_of_tens_of_thousands_stay_finite(const std::string& kernel) {
    for (const std::int64_t queries : {3, 97}) {
        Case c = cases::plain(30, cases::sizes(2, 3, 3, queries, 257, 17, 19));
        c.unit_variance = false;
        c.q.for_each([](float& x) { x *= 1e4F; });
        must_be_as_by_hand(c, kernel);
        c.has_bias = true;
        exact::Layout layout;
        layout.size = {2, 3, queries, 257};
        layout.repeated = {true, true, true, false};
        c.bias = exact::Tensor<float>(layout);
        for (std::int64_t j = 0; j < 257; ++j) c.bias.at(0, 0, 0, j) = j % 2 == 0 ? 1e4F : -1e4F;
        c.point();
        must_be_as_by_hand(c, kernel);
        c.bias.for_each([](float& x) { x = -std::numeric_limits<float>::max(); });
        must_be_finite(c, kernel);
    }
}

// With one key the lse is the score itself.
void a_softcap_costs_no_digits(const std::string& kernel) {
    for (const float cap : {0.5F, 5.0F, 30.0F}) {
        Case c = cases::plain(32, cases::sizes(1, 1, 1, 193, 1, 1, 1));
        c.problem.softcap = cap;
        c.k.at(0, 0, 0, 0) = 1;
        for (std::int64_t i = 0; i < 193; ++i) c.q.at(0, 0, i, 0) = static_cast<float>(i - 96) / 50;
        c.point();
        must_be_as_by_hand(c, kernel);
    }
}

void a_sink_may_outweigh_all_keys_or_none(const std::string& kernel) {
    for (const float sink : {-1e4F, -200.0F, 200.0F, 1e4F}) {
        Case c = cases::plain(31, cases::sizes(2, 3, 3, 7, 257, 17, 19));
        c.has_sinks = true;
        c.sinks = exact::Array<float>(3);
        for (std::int64_t h = 0; h < 3; ++h) c.sinks[h] = h == 1 ? 0 : sink;
        c.point();
        must_be_as_by_hand(c, kernel);
    }
}

}  // namespace

int main() {
    kernels::for_each([](const std::string& kernel) {
        nothing_gives_nothing(kernel);
        a_rectangle_may_be_empty(kernel);
        no_query_may_see_a_key(kernel);
        no_query_need_count(kernel);
        one_key_gives_its_value(kernel);
        long_sequences_are_as_by_hand(kernel);
        there_may_be_more_of_everything_than_keys(kernel);
        every_number_of_columns_is_as_by_hand(kernel);
        every_number_of_the_strongest_is_as_by_hand(kernel);
        equal_weights_of_many_queries_are_added_up(kernel);
        a_window_may_be_as_wide_as_numbers_go(kernel);
        scores_of_tens_of_thousands_stay_finite(kernel);
        a_softcap_costs_no_digits(kernel);
        a_sink_may_outweigh_all_keys_or_none(kernel);
        const double peak = regard::measure_peak(0.001);
        CHECK(std::isfinite(peak) && peak > 0);
    });
    return check::result();
}
