// Judges what the kernel returned by what the same problem gives by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "by_hand.h"
#include "cases.h"
#include "exact.h"
#include "run.h"

namespace judge {

// A case in double and in float. An error may be twice that of eager float, plus a floor of a few
// units in the last place; not finite is what, and only what, is not finite by hand.
class Judge {
  public:
    explicit Judge(const cases::Case& c);

    // `when` is said when something does not hold. `rounding` is how far off each weight may be,
    // relatively, where it is multiplied with a value, and nowhere else.
    void judge(const run::Result& r, const std::string& when, double rounding = 0) const;
    void judge_weights(const exact::Array<float>& found, const std::string& when) const;
    void judge_pooled(const exact::Array<float>& found, regard::Reduce reduce,
                      const std::string& when) const;

  private:
    void judge_output(const run::Result& r, const std::string& prefix, double rounding) const;
    void judge_lse(const run::Result& r, const std::string& prefix) const;
    void judge_max_logit(const run::Result& r, const std::string& prefix) const;

    // Some keys of each query, and their sizes, of which these are all.
    struct List {
        const char* name;
        std::int64_t count;
        const std::int64_t* keys;
        const float* sizes;
        const std::vector<double>& exact;
        const std::vector<float>& eager;
        const std::vector<std::uint8_t>& eligible;  // may be named
    };
    void judge_lists(const run::Result& r, const std::string& prefix) const;
    void judge_list(const List& list, const std::string& prefix) const;
    void judge_queries_without_keys(const run::Result& r, const std::string& prefix) const;

    const cases::Case& case_;
    by_hand::Attended<double> exact_;
    by_hand::Attended<float> eager_;
    double unit_, unit_again_;  // the floor, of numbers about 1
};

}  // namespace judge
