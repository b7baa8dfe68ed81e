// Runs the kernel on a case, in memory that shows what was not written.
#pragma once

#include <cstdint>
#include <string>

#include "cases.h"
#include "exact.h"
#include "regard/attention.h"

namespace run {

// Everything that attention() writes. What was not asked for is empty.
struct Result {
    exact::Tensor<float> output;
    exact::Array<float> lse, entropy, distance, top_weights, map, received;
    exact::Array<float> max_logit, spans, contribution;
    exact::Array<std::int64_t> top_keys, contribution_keys;
    regard::Seen seen;
};

Result attend(const cases::Case& c, const cases::Wanted& wanted, int threads);
Result attend(const cases::Case& c, int threads);  // what the case wants

// Both are given the problem without its values.
exact::Array<float> weights(const cases::Case& c, const exact::Array<float>& lse, int threads);
exact::Array<float> pooled(const cases::Case& c, const exact::Array<float>& lse,
                           regard::Reduce reduce, int threads);

// Bit for bit.
void must_be_the_same(const Result& a, const Result& b, const std::string& when);

constexpr std::uint64_t kProblems = 420;  // that are compared by hand

// How many problems to try of `all`: the share that REGARD_TEST_PROBLEMS, if set, is of kProblems.
std::uint64_t number_of_problems(std::uint64_t all);

}  // namespace run
