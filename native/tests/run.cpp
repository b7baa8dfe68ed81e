// The calls, and the memory for what they write.
#include "run.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "check.h"

namespace run {

using cases::Case;
using regard::Problem;

namespace {

// What is asked for in `wanted`, all in unset memory.
Result room_for(const Case& c, const cases::Wanted& wanted) {
    const Problem& p = c.problem;
    const std::int64_t heads = p.batch * p.heads, rows = heads * p.queries;
    Result r;
    r.output = exact::Tensor<float>(c.output);
    const auto make = [](bool asked, auto& array, auto*& pointer, std::int64_t size) {
        if (!asked) return;
        array = std::remove_reference_t<decltype(array)>(size);
        pointer = array.data();
    };
    make(wanted.lse, r.lse, r.seen.lse, rows);
    make(wanted.entropy, r.entropy, r.seen.entropy, rows);
    make(wanted.distance, r.distance, r.seen.distance, rows);
    make(wanted.top_keys, r.top_keys, r.seen.top_keys, rows * wanted.top);
    make(wanted.top_weights, r.top_weights, r.seen.top_weights, rows * wanted.top);
    make(wanted.map, r.map, r.seen.map, heads * wanted.map_rows * wanted.map_columns);
    make(wanted.received, r.received, r.seen.received, heads * p.keys);
    make(wanted.max_logit, r.max_logit, r.seen.max_logit, rows);
    make(wanted.spans > 0, r.spans, r.seen.spans, rows * wanted.spans);
    const std::int64_t moving = wanted.contribution;
    make(moving > 0, r.contribution_keys, r.seen.contribution_keys, rows * moving);
    make(moving > 0, r.contribution, r.seen.contributions, rows * moving);
    r.seen.contribution = moving;
    r.seen.span_count = wanted.spans;
    if (wanted.spans > 0) {
        r.seen.labels = c.labels.data();
        r.seen.labels_stride = c.labels.strides()[0];
    }
    r.seen.top = wanted.top;
    r.seen.map_rows = wanted.map_rows;
    r.seen.map_columns = wanted.map_columns;
    if (c.has_counted) {
        r.seen.counted = c.counted.data();
        r.seen.counted_strides[0] = c.counted.strides()[0];
        r.seen.counted_strides[1] = c.counted.strides()[3];
    }
    return r;
}

// The problem as weights() and pooled() may be given it: without values.
Problem without_values(Problem p) {
    p.v = {};
    p.value_width = 0;
    return p;
}

// The names of the results that differ in a bit, "" if none does.
std::string different(const Result& a, const Result& b) {
    std::string names;
    if (!exact::same_bits(a.output.flat(), b.output.flat())) names += " output";
    if (!exact::same_bits(a.lse, b.lse)) names += " lse";
    if (!exact::same_bits(a.entropy, b.entropy)) names += " entropy";
    if (!exact::same_bits(a.distance, b.distance)) names += " distance";
    if (!exact::same_bits(a.top_keys, b.top_keys)) names += " top_keys";
    if (!exact::same_bits(a.top_weights, b.top_weights)) names += " top_weights";
    if (!exact::same_bits(a.map, b.map)) names += " map";
    if (!exact::same_bits(a.max_logit, b.max_logit)) names += " max_logit";
    if (!exact::same_bits(a.spans, b.spans)) names += " spans";
    if (!exact::same_bits(a.contribution_keys, b.contribution_keys)) names += " contribution_keys";
    if (!exact::same_bits(a.contribution, b.contribution)) names += " contribution";
    if (!exact::same_bits(a.received, b.received)) names += " received";
    return names;
}

}  // namespace

Result attend(const Case& c, const cases::Wanted& wanted, int threads) {
    Result r = room_for(c, wanted);
    const auto& strides = r.output.strides();
    regard::attention(c.problem, {r.output.data(), {strides[0], strides[1], strides[2]}}, r.seen,
                      threads);
    return r;
}

Result attend(const Case& c, int threads) { return attend(c, c.wanted, threads); }

exact::Array<float> weights(const Case& c, const exact::Array<float>& lse, int threads) {
    const std::int64_t heads = c.problem.batch * c.problem.heads;
    exact::Array<float> out(heads * c.rectangle.rows * c.rectangle.keys);
    regard::weights(without_values(c.problem), lse.data(), c.rectangle, out.data(), threads);
    return out;
}

exact::Array<float> pooled(const Case& c, const exact::Array<float>& lse, regard::Reduce reduce,
                           int threads) {
    const std::int64_t heads = c.problem.batch * c.problem.heads;
    exact::Array<float> out(heads * c.pixel_rows * c.pixel_columns);
    regard::pooled(without_values(c.problem), lse.data(), c.rectangle, c.pixel_rows,
                   c.pixel_columns, reduce, out.data(), threads);
    return out;
}

void must_be_the_same(const Result& a, const Result& b, const std::string& when) {
    const std::string names = different(a, b);
    if (!names.empty()) check::failed(when + ": other bits in" + names);
}

std::uint64_t number_of_problems(std::uint64_t all) {
    const char* given = std::getenv("REGARD_TEST_PROBLEMS");
    if (given == nullptr) return all;
    const std::uint64_t share = all * std::strtoull(given, nullptr, 10) / kProblems;
    return std::clamp<std::uint64_t>(share, 1, all);
}

}  // namespace run
