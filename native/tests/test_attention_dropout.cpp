// Dropout by hand: which weights are dropped, what that makes of the output, and that nothing which
// is seen knows of it. REGARD_TEST_PROBLEMS=n tries fewer.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "by_hand.h"
#include "cases.h"
#include "check.h"
#include "judge.h"
#include "kernels.h"
#include "run.h"

namespace {

using cases::Case;

constexpr std::uint64_t kFirst = 5000;  // other cases than those of the other tests
constexpr double kChances[] = {0.1, 0.5, 0.25, 1e-3};

Case make(std::uint64_t number) {
    Case c = cases::everything_wanted(cases::make(number));
    cases::Random random(number);
    c.problem.dropout = {kChances[number % 4], random.bits()};
    c.name += ", dropout " + std::to_string(c.problem.dropout.chance);
    return c;
}

// What is kept as bits that end where they may be read no further.
exact::Array<std::uint8_t> draw(Case& c, std::uint64_t number) {
    const regard::Problem& p = c.problem;
    const std::int64_t bytes = p.keys / 8 + 9;
    exact::Array<std::uint8_t> bits(p.batch * p.heads * p.queries * bytes);
    cases::Random random(number);
    for (std::int64_t n = 0; n < bits.size(); ++n) bits[n] = random.bits() & 0xff;
    c.problem.dropout.drawn = bits.data();
    const std::int64_t strides[] = {p.heads * p.queries * bytes, p.queries * bytes, bytes};
    std::copy_n(strides, 3, c.problem.dropout.strides);
    c.name += ", drawn";
    return bits;
}

void a_problem_is_as_by_hand(std::uint64_t number, bool drawn) {
    Case c = make(number);
    const exact::Array<std::uint8_t> bits = drawn ? draw(c, number) : exact::Array<std::uint8_t>();
    const judge::Judge judge(c);
    Case without = make(number);
    without.problem.dropout = {};
    kernels::for_each([&](const std::string& kernel) {
        const run::Result one = run::attend(c, 1);
        judge.judge(one, kernel);
        for (const int threads : {2, 4})
            run::must_be_the_same(one, run::attend(c, threads), c.name + ", " + kernel);
        run::Result undropped = run::attend(without, 2);
        undropped.output = run::attend(c, 1).output;  // which may differ
        run::must_be_the_same(one, undropped, c.name + ", " + kernel + ", what is seen");
    });
}

// Many keys: the parts of a few queries, and spans of many.
void many_keys_are_the_same_by_any_number_of_threads(const std::string& kernel) {
    for (const regard::Problem& sizes :
         {cases::sizes(1, 1, 1, 101, 2311, 16, 8), cases::sizes(1, 4, 2, 3, 4099, 8, 8)}) {
        Case c = cases::plain(13, sizes);
        c.problem.dropout = {0.4, 29};
        const run::Result one = run::attend(c, 1);
        judge::Judge(c).judge(one, kernel);
        for (const int threads : {2, 3, 8})
            run::must_be_the_same(one, run::attend(c, threads), c.name + ", " + kernel);
    }
}

// Also at the far end of what 31 bits count, and for chances that are next to none or all.
void what_is_kept_is_as_by_hand(const std::string& kernel) {
    constexpr std::int64_t kFar = std::int64_t{1} << 31;
    const regard::Rectangle boxes[] = {
        {0, 7, 0, 67}, {13, 5, 3, 31}, {kFar - 3, 3, kFar - 19, 19}, {2, 1, 251, 1}};
    for (const double chance : {1e-12, 1e-3, 0.1, 0.5, 0.9, 0.999999, 1 - 0x1p-53}) {
        for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
            const regard::Dropout dropout{chance, seed};
            for (const regard::Rectangle& box : boxes) {
                constexpr std::int64_t kHeads = 3, kSequence = 2;
                exact::Array<float> found(kHeads * box.rows * box.keys);
                regard::kept(dropout, kSequence, kHeads, box, found.data(), 2);
                const auto growth = static_cast<float>(1 / (1 - chance));
                bool same = true;
                std::int64_t n = 0;
                for (std::int64_t h = 0; h < kHeads; ++h)
                    for (std::int64_t i = box.row; i < box.row + box.rows; ++i)
                        for (std::int64_t j = box.key; j < box.key + box.keys; ++j, ++n) {
                            const bool keeps = by_hand::keeps(dropout, {kSequence, h, i}, j);
                            same = same && found[n] == (keeps ? growth : 0.0F);
                        }
                if (!same)
                    check::failed(kernel + ": other weights are kept at " + std::to_string(chance));
            }
        }
    }
}

// The share of what is dropped, in each row, column and head, within 4 standard deviations of
// what it should be; and neighbours, rows, heads, sequences and seeds agree as often as strangers.
void what_is_dropped_has_no_pattern() {
    constexpr std::int64_t kHeads = 3, kRows = 211, kKeys = 419, kAll = kRows * kKeys;
    const auto draw = [&](double chance, std::uint64_t seed, std::int64_t b) {
        exact::Array<float> found(kHeads * kAll);
        regard::kept({chance, seed}, b, kHeads, {0, kRows, 0, kKeys}, found.data(), 1);
        std::vector<double> out;  // of mean 0 and variance 1
        for (std::int64_t n = 0; n < kHeads * kAll; ++n)
            out.push_back(((found[n] == 0) - chance) / std::sqrt(chance * (1 - chance)));
        return out;
    };
    for (const double chance : {0.1, 0.5, 0.8}) {
        const auto usual = [&](const char* what, double sum, double count) {
            if (!(std::abs(sum) < 4 * std::sqrt(count)))
                check::failed(std::string(what) + " at " + std::to_string(chance) + ": " +
                              std::to_string(sum / std::sqrt(count)) + " standard deviations");
        };
        const std::vector<double> x = draw(chance, 1, 0);
        for (std::int64_t h = 0; h < kHeads; ++h) {
            const double* head = x.data() + h * kAll;
            std::vector<double> columns(kKeys);
            double whole = 0;
            for (std::int64_t i = 0; i < kRows; ++i) {
                double row = 0;
                for (std::int64_t j = 0; j < kKeys; ++j) {
                    row += head[i * kKeys + j];
                    columns[j] += head[i * kKeys + j];
                }
                usual("a row", row, kKeys);
                whole += row;
            }
            for (const double column : columns) usual("a column", column, kRows);
            usual("a head", whole, kAll);
            for (std::int64_t apart : {1, 2, 3, 4, 7, 8, 16, 64, 128, 256, 418, 419, 420, 838}) {
                double sum = 0;
                for (std::int64_t n = apart; n < kAll; ++n) sum += head[n] * head[n - apart];
                usual("neighbours", sum, static_cast<double>(kAll - apart));
            }
        }
        const auto strangers = [&](const char* what, const double* a, const double* b) {
            double sum = 0;
            for (std::int64_t n = 0; n < kAll; ++n) sum += a[n] * b[n];
            usual(what, sum, kAll);
        };
        strangers("two heads", x.data(), x.data() + kAll);
        strangers("two sequences", x.data(), draw(chance, 1, 1).data());
        strangers("a head and a sequence", x.data() + kAll, draw(chance, 1, 1).data());
        for (const std::uint64_t seed :
             {std::uint64_t{2}, std::uint64_t{1} << 32, ~std::uint64_t{0}})
            strangers("two seeds", x.data(), draw(chance, seed, 0).data());
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) {
        const std::uint64_t number = std::strtoull(argv[1], nullptr, 10);
        for (const bool drawn : {false, true}) a_problem_is_as_by_hand(number, drawn);
        return check::result();
    }
    const std::uint64_t problems = run::number_of_problems(105);
    for (std::uint64_t number = kFirst; number < kFirst + problems; ++number)
        a_problem_is_as_by_hand(number, number % 3 == 0);
    kernels::for_each([](const std::string& kernel) {
        many_keys_are_the_same_by_any_number_of_threads(kernel);
        what_is_kept_is_as_by_hand(kernel);
    });
    what_is_dropped_has_no_pattern();
    return check::result();
}
