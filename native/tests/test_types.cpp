// Numbers of two bytes: what is found of them is what is found of the same numbers in float32,
// rounded once where it is written, to the last bit; but for bfloat16 by AMX, whose sums have an
// order of their own: they are judged by hand.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cases.h"
#include "check.h"
#include "judge.h"
#include "kernels.h"
#include "regard/linear.h"
#include "run.h"

namespace {

using regard::Type;

// A type by its parts, worked out by rounding alone, without a look at a float's bits.
struct Format {
    Type type;
    const char* name;
    int digits;   // of the mantissa, without the leading one
    int lowest;   // exponent of the smallest normal number
    int highest;  // exponent of the largest

    std::uint16_t encode(float number) const {
        const auto special = static_cast<std::uint16_t>((highest - lowest + 2) << digits);
        if (std::isnan(number)) return static_cast<std::uint16_t>(special | 1 << (digits - 1));
        const std::uint16_t sign = std::signbit(number) ? 0x8000 : 0;
        const double size = std::abs(static_cast<double>(number));
        if (std::isinf(number)) return sign | special;
        const int exponent = size == 0 ? lowest : std::max(std::ilogb(size), lowest);
        const double units = std::nearbyint(std::ldexp(size, digits - exponent));
        const auto found = static_cast<long>(units) + (long{exponent - lowest} << digits);
        return sign | static_cast<std::uint16_t>(std::min<long>(found, special));
    }

    float decode(std::uint16_t bits) const {
        const int field = (bits & 0x7fff) >> digits, rest = bits & ((1 << digits) - 1);
        const float sign = bits & 0x8000 ? -1.0f : 1.0f;
        if (field == highest - lowest + 2) {
            return rest ? std::numeric_limits<float>::quiet_NaN()
                        : sign * std::numeric_limits<float>::infinity();
        }
        const int whole = field == 0 ? rest : rest + (1 << digits);
        const int exponent = (field == 0 ? lowest : field - 1 + lowest) - digits;
        return sign * static_cast<float>(std::ldexp(whole, exponent));
    }
};

constexpr Format kFormats[] = {{Type::bfloat16, "bfloat16", 7, -126, 127},
                               {Type::float16, "float16", 10, -14, 15}};

using Halves = exact::Array<std::uint16_t>;

// The memory of a tensor in the format, gaps included; the tensor itself then holds these numbers.
Halves rounded(const Format& format, exact::Array<float>& memory) {
    Halves halves(memory.size());
    for (std::int64_t n = 0; n < memory.size(); ++n) {
        halves[n] = format.encode(memory[n]);
        memory[n] = format.decode(halves[n]);
    }
    return halves;
}

regard::Rows in_halves(const Format& format, const regard::Rows& rows,
                       const exact::Tensor<float>& of, const Halves& halves) {
    regard::Rows found = rows;
    found.data = halves.data() + (of.data() - of.memory().data());
    found.type = format.type;
    return found;
}

void must_be_rounded(const Format& format, const std::vector<float>& exact, const Halves& found,
                     const std::string& when) {
    CHECK(static_cast<std::int64_t>(exact.size()) == found.size());
    for (std::int64_t n = 0; n < found.size(); ++n) {
        const bool both = std::isnan(exact[n]) && std::isnan(format.decode(found[n]));
        if (!both && found[n] != format.encode(exact[n])) {
            check::failed(when + ": number " + std::to_string(n) + " is rounded otherwise");
            return;
        }
    }
}

// Weights that tiles of AMX multiply with values have 16 digits.
constexpr double kWeightByTiles = 0x1p-17;

// Whether the products of a problem are made by tiles.
bool by_tiles(const std::string& kernel, const Format& format, const regard::Problem& problem) {
    return kernel == "amx" && format.type == Type::bfloat16 && problem.queries > 4;
}

void a_problem_is_as_in_float32(std::uint64_t number) {
    for (const Format& format : kFormats) {
        cases::Case c = cases::make(number);
        const Halves q = rounded(format, c.q.memory()), k = rounded(format, c.k.memory()),
                     v = rounded(format, c.v.memory());
        c.point();
        cases::Case halved = cases::make(number);
        rounded(format, halved.q.memory());
        halved.point();
        regard::Problem& problem = halved.problem;
        problem.q = in_halves(format, c.problem.q, c.q, q);
        problem.k = in_halves(format, c.problem.k, c.k, k);
        problem.v = in_halves(format, c.problem.v, c.v, v);
        const int threads = 1 + static_cast<int>(number % 3);
        kernels::for_each([&](const std::string& kernel) {
            const std::string when = c.name + ", " + kernel + ", " + format.name;
            run::Result expected = run::attend(c, threads);
            run::Result found = run::attend(halved, threads);  // its output is float32, too
            const regard::Problem& p = problem;
            Halves output(p.batch * p.heads * p.queries * p.value_width);
            regard::RowsOut to{
                output.data(),
                {p.heads * p.queries * p.value_width, p.queries * p.value_width, p.value_width},
                format.type};
            const bool judged = by_tiles(kernel, format, p);
            if (judged) {
                judge::Judge(c).judge(found, when, kWeightByTiles);
                expected = run::attend(halved, 1 + threads % 3);  // the bits for any threads
            }
            run::must_be_the_same(expected, found, when);
            regard::attention(p, to, found.seen, threads);
            run::must_be_the_same(expected, found, when + ", output in halves");
            must_be_rounded(format, expected.output.flat(), output, when);
            if (expected.lse.size() == 0) return;
            const exact::Array<float> a = run::weights(c, expected.lse, threads);
            const exact::Array<float> b = run::weights(halved, expected.lse, threads);
            if (!exact::same_bits(a, b)) check::failed(when + ": other weights");
        });
    }
}

// Gradients of halves: those of float32 from the same numbers, and the same output, rounded.
void gradients_are_those_of_float32(std::int64_t keys, int threads) {
    for (const Format& format : kFormats) {
        cases::Case c = cases::plain(keys, cases::sizes(2, 4, 2, 29, keys, 19, 13));
        const Halves q = rounded(format, c.q.memory()), k = rounded(format, c.k.memory()),
                     v = rounded(format, c.v.memory());
        c.point();
        regard::Problem halved = c.problem;
        halved.q = in_halves(format, halved.q, c.q, q);
        halved.k = in_halves(format, halved.k, c.k, k);
        halved.v = in_halves(format, halved.v, c.v, v);
        cases::Wanted lse;
        lse.lse = true;
        run::Result attended = run::attend(c, lse, 1);
        const Halves out = rounded(format, attended.output.memory());
        exact::Array<float> flowing(attended.output.memory().size());
        cases::Random random(7);
        for (std::int64_t n = 0; n < flowing.size(); ++n) flowing[n] = random.normal();
        const Halves gradient = rounded(format, flowing);

        const auto rows = [&](const auto* data, std::int64_t heads, std::int64_t n,
                              std::int64_t width, Type type) {
            return regard::Rows{data, {heads * n * width, n * width, width}, type};
        };
        const auto rows_out = [&](auto& array, std::int64_t heads, std::int64_t n,
                                  std::int64_t width, Type type) {
            return regard::RowsOut{array.data(), {heads * n * width, n * width, width}, type};
        };
        kernels::for_each([&](const std::string& kernel) {
            const std::string when = kernel + ", " + format.name + ", gradients";
            exact::Array<float> dq(2 * 4 * 29 * 19), dk(2 * 2 * keys * 19), dv(2 * 2 * keys * 13);
            Halves half_q(dq.size()), half_k(dk.size()), half_v(dv.size());
            const Type all = Type::float32, half = format.type;
            regard::attention_backward(
                c.problem,
                {rows(attended.output.data(), 4, 29, 13, all), attended.lse.data(),
                 rows(flowing.data(), 4, 29, 13, all)},
                {rows_out(dq, 4, 29, 19, all), rows_out(dk, 2, keys, 19, all),
                 rows_out(dv, 2, keys, 13, all)},
                threads);
            regard::attention_backward(
                halved,
                {rows(out.data(), 4, 29, 13, half), attended.lse.data(),
                 rows(gradient.data(), 4, 29, 13, half)},
                {rows_out(half_q, 4, 29, 19, half), rows_out(half_k, 2, keys, 19, half),
                 rows_out(half_v, 2, keys, 13, half)},
                threads);
            const auto judge = [&](const exact::Array<float>& exact, const Halves& found) {
                must_be_rounded(format, {exact.data(), exact.data() + exact.size()}, found, when);
            };
            judge(dq, half_q);
            judge(dk, half_k);
            judge(dv, half_v);
        });
    }
}

void every_number_is_read_and_rounded(const Format& format) {
    // As values of one key each number comes back as it is; with a sink of the same weight, halved.
    Halves values(1 << 16);
    for (std::int64_t n = 0; n < values.size(); ++n) values[n] = static_cast<std::uint16_t>(n);
    const Halves zero = [&] {
        Halves made(8);
        std::fill_n(made.data(), 8, std::uint16_t{0});
        return made;
    }();
    const float sink = 0;
    for (const bool sunk : {false, true}) {
        for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{5}}) {
            regard::Problem p = cases::sizes(1, 1, 1, queries, 1, 1, values.size());
            p.q = {zero.data(), {0, 0, 1}, format.type};
            p.k = {zero.data(), {0, 0, 1}, format.type};
            p.v = {values.data(), {0, 0, 0}, format.type};
            p.sinks = sunk ? &sink : nullptr;
            kernels::for_each([&](const std::string& kernel) {
                Halves output(queries * values.size());
                regard::attention(p, {output.data(), {0, 0, values.size()}, format.type}, {}, 1);
                bool same = true;
                for (std::int64_t n = 0; n < values.size(); ++n) {
                    const float exact = format.decode(values[n]) * (sunk ? 0.5f : 1.0f);
                    if (!std::isfinite(exact)) continue;
                    same = same && format.decode(output[n]) == format.decode(format.encode(exact));
                }
                if (!same) check::failed(kernel + ", " + format.name + ": a number is another");
            });
        }
    }
}

void a_linear_map_is_that_of_float32(const Format& format, std::int64_t rows, std::int64_t inputs,
                                     std::int64_t outputs) {
    cases::Random random(rows * 101 + inputs);
    const auto draw = [&](std::int64_t size) {
        exact::Array<float> numbers(size);
        for (std::int64_t n = 0; n < size; ++n) numbers[n] = random.normal();
        return numbers;
    };
    exact::Array<float> x = draw(rows * inputs), w = draw(outputs * inputs), b = draw(outputs);
    const Halves half_x = rounded(format, x), half_w = rounded(format, w),
                 half_b = rounded(format, b);
    kernels::for_each([&](const std::string& kernel) {
        exact::Array<float> y(rows * outputs);
        Halves half_y(rows * outputs);
        regard::Map map{outputs, w.data(), inputs, b.data(), y.data(), outputs};
        regard::linear({Type::float32, rows, inputs, x.data(), inputs, &map, 1}, 2);
        map = {outputs, half_w.data(), inputs, half_b.data(), half_y.data(), outputs};
        regard::linear({format.type, rows, inputs, half_x.data(), inputs, &map, 1}, 2);
        must_be_rounded(format, {y.data(), y.data() + y.size()}, half_y,
                        kernel + ", " + format.name + ", linear");
    });
}

}  // namespace

int main() {
    const std::uint64_t problems = run::number_of_problems(42);
    for (std::uint64_t number = 0; number < problems; ++number) a_problem_is_as_in_float32(number);
    for (const int threads : {1, 2}) {
        gradients_are_those_of_float32(67, threads);
        gradients_are_those_of_float32(2311, threads);
    }
    for (const Format& format : kFormats) {
        every_number_is_read_and_rounded(format);
        a_linear_map_is_that_of_float32(format, 1, 67, 31);
        a_linear_map_is_that_of_float32(format, 5, 8, 13);
        a_linear_map_is_that_of_float32(format, 7, 129, 64);
    }
    return check::result();
}
