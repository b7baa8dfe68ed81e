// tokens.h: against loops by hand in double, and bits over threads and other vectors.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "check.h"
#include "exact.h"
#include "kernels.h"
#include "regard/tokens.h"

namespace {

using Index = std::int64_t;
using Numbers = exact::Array<float>;

Numbers made(Index count, unsigned seed) {
    Numbers numbers(count);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (Index n = 0; n < count; ++n) numbers[n] = 3 * normal(random);
    return numbers;
}

bool is_near(double found, double expected, double size) {
    return std::fabs(found - expected) <= 8 * 0x1p-24 * size;
}

Numbers normed(const Numbers& x, const Numbers& weight, Index row, Index rows, int threads) {
    const Index width = weight.size();
    Numbers y(rows * width);
    regard::RmsNorm call;
    call.rows = rows;
    call.width = width;
    call.x = x.data() + row * width;
    call.weight = weight.data();
    call.eps = 1e-5f;
    call.y = y.data();
    regard::rms_norm(call, threads);
    return y;
}

void a_norm_is_the_loop_by_hand(Index rows, Index width) {
    const std::string name = std::to_string(rows) + " × " + std::to_string(width);
    const Numbers x = made(rows * width, 3), weight = made(width, 5);
    const Numbers y = normed(x, weight, 0, rows, 1);
    if (!exact::same_bits(y, normed(x, weight, 0, rows, 3)))
        check::failed(name + ": a norm has other bits on 3 threads");
    for (Index r = 0; r < rows; ++r) {
        double sum = 0;
        for (Index n = 0; n < width; ++n) sum += std::pow(double{x[r * width + n]}, 2);
        const double root = std::sqrt(sum / static_cast<double>(width) + 1e-5);
        for (Index n = 0; n < width; ++n) {
            const double expected = x[r * width + n] / root * weight[n];
            if (!is_near(y[r * width + n], expected, std::fabs(expected)))
                check::failed(name + ": a norm is wrong");
        }
        if (!exact::same_bits(normed(x, weight, r, 1, 1).data(), &y[r * width], width))
            check::failed(name + ": a norm has other bits beside other rows");
    }
}

void a_turn_is_the_loop_by_hand(Index batch, Index heads, Index tokens, Index width, Index turned,
                                bool halves) {
    const Numbers x = made(batch * heads * tokens * width, 7);
    const Numbers cosine = made(tokens * turned, 11), sine = made(tokens * turned, 13);
    Numbers y(x.size()), again(x.size());
    regard::Turn call;
    call.batch = batch;
    call.heads = heads;
    call.tokens = tokens;
    call.width = width;
    call.turned = turned;
    call.halves = halves;
    // As a projection leaves it: (batch, tokens, heads, width).
    call.x = {x.data(), {heads * tokens * width, width, heads * width}, regard::Type::float32};
    call.cosine = {cosine.data(), {0, 0, turned}, regard::Type::float32};
    call.sine = {sine.data(), {0, 0, turned}, regard::Type::float32};
    call.y = {y.data(), {heads * tokens * width, tokens * width, width}, regard::Type::float32};
    regard::turn(call, 1);
    call.y.data = again.data();
    regard::turn(call, 3);
    CHECK(exact::same_bits(y, again));
    for (Index b = 0; b < batch; ++b)
        for (Index h = 0; h < heads; ++h)
            for (Index n = 0; n < tokens; ++n)
                for (Index d = 0; d < width; ++d) {
                    const float* from = x.data() + ((b * tokens + n) * heads + h) * width;
                    const float found = y[((b * heads + h) * tokens + n) * width + d];
                    if (d >= turned) {
                        CHECK(found == from[d]);
                        continue;
                    }
                    const Index other = halves ? (d + turned / 2) % turned : d ^ 1;
                    const double first = double{from[d]} * cosine[n * turned + d];
                    const double second = double{from[other]} * sine[n * turned + d];
                    CHECK(is_near(found, first + second, std::fabs(first) + std::fabs(second)));
                }
}

void a_gate_and_a_sum_are_the_loops_by_hand(Index count) {
    Numbers gate = made(count, 17);
    const Numbers hidden = made(count, 19);
    for (Index n = 0; n < count; n += 7) gate[n] *= 12;  // far out, too
    Numbers y(count), again(count), sum(count);
    regard::gated({regard::Type::float32, count, gate.data(), hidden.data(), y.data()}, 1);
    regard::gated({regard::Type::float32, count, gate.data(), hidden.data(), again.data()}, 3);
    regard::add({regard::Type::float32, count, gate.data(), hidden.data(), sum.data()}, 2);
    CHECK(exact::same_bits(y, again));
    for (Index n = 0; n < count; ++n) {
        const double expected = gate[n] / (1 + std::exp(-double{gate[n]})) * hidden[n];
        // Beyond, exp(−gate) is as good as infinite.
        const bool ends = gate[n] < -88 && std::fabs(expected) < 1e-34 && y[n] == 0;
        CHECK(ends || is_near(y[n], expected, std::fabs(expected)));
        CHECK(sum[n] == gate[n] + hidden[n]);
    }
}

void the_ends_of_a_gate() {
    const float infinity = INFINITY;
    const float gates[] = {infinity, -infinity, NAN, 100, -100, 0, -0.0f, -87, 3e38f, -3e38f};
    const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    float y[10];
    regard::gated({regard::Type::float32, 10, gates, ones, y}, 1);
    CHECK(y[0] == infinity);
    CHECK(std::isnan(y[1]));  // −∞ / ∞, as PyTorch has it
    CHECK(std::isnan(y[2]));
    CHECK(y[3] == 100);
    CHECK(std::fabs(y[4]) < 1e-36f);
    CHECK(y[5] == 0 && y[6] == 0);
    CHECK(std::fabs(y[7] + 87 * std::exp(-87.0)) < 1e-42);
    CHECK(y[8] == 3e38f);
    CHECK(y[9] == 0);
}

}  // namespace

int main() {
    kernels::for_each([](const std::string&) {
        for (const Index width : {1, 2, 7, 8, 15, 16, 17, 31, 97, 577}) {
            for (const Index rows : {1, 2, 5}) a_norm_is_the_loop_by_hand(rows, width);
            a_gate_and_a_sum_are_the_loops_by_hand(width);
        }
        a_norm_is_the_loop_by_hand(211, 331);  // several pieces
        a_gate_and_a_sum_are_the_loops_by_hand(50021);
        for (const bool halves : {true, false}) {
            for (const Index turned : {0, 2, 6, 16, 22, 64})
                a_turn_is_the_loop_by_hand(2, 3, 5, turned + 3, turned, halves);
            a_turn_is_the_loop_by_hand(2, 3, 131, 64, 64, halves);
        }
        the_ends_of_a_gate();
    });
    return check::result();
}
