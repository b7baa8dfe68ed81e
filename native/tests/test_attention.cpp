// attention(), weights() and pooled() by hand: a few hundred problems of every kind and size.
//
//     test_attention             all of them, or the first REGARD_TEST_PROBLEMS
//     test_attention <number>    one
#include <cstdlib>
#include <string>
#include <vector>

#include "cases.h"
#include "check.h"
#include "judge.h"
#include "kernels.h"
#include "run.h"

namespace {

// A copy of all that a case points to, gaps included.
std::vector<float> numbers_of(const cases::Case& c) {
    std::vector<float> all;
    for (const exact::Tensor<float>* x : {&c.q, &c.k, &c.v, &c.bias})
        all.insert(all.end(), x->memory().data(), x->memory().data() + x->memory().size());
    return all;
}

void a_problem_is_as_by_hand(std::uint64_t number) {
    const cases::Case c = cases::make(number);
    const judge::Judge judge(c);
    const std::vector<float> before = numbers_of(c);
    const int threads = 1 + static_cast<int>(number % 3);
    cases::Wanted only_lse;
    only_lse.lse = true;
    kernels::for_each([&](const std::string& kernel) {
        judge.judge(run::attend(c, threads), kernel);
        const exact::Array<float> lse = run::attend(c, only_lse, threads).lse;
        judge.judge_weights(run::weights(c, lse, threads), kernel);
        for (const regard::Reduce reduce : {regard::Reduce::mean, regard::Reduce::maximum})
            judge.judge_pooled(run::pooled(c, lse, reduce, threads), reduce, kernel);
        if (!exact::same_bits(before, numbers_of(c)))
            check::failed(c.name + ", " + kernel + ": an input was changed");
    });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) {
        a_problem_is_as_by_hand(std::strtoull(argv[1], nullptr, 10));
        return check::result();
    }
    const std::uint64_t problems = run::number_of_problems(run::kProblems);
    for (std::uint64_t number = 0; number < problems; ++number) a_problem_is_as_by_hand(number);
    return check::result();
}
