// linear.h: against a loop by hand in double, and its bits over threads, rows and outputs.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "check.h"
#include "exact.h"
#include "kernels.h"
#include "regard/linear.h"

namespace {

using Index = std::int64_t;

// A map with gaps between its rows, which stay unset: NaN, so that reading one shows.
struct Case {
    Index rows, inputs, outputs;
    bool biased;
    Index x_stride, weight_stride, y_stride;
    exact::Array<float> x, weight, bias;

    Case(Index rows_, Index inputs_, Index outputs_, bool biased_, Index gap, unsigned seed)
        : rows(rows_),
          inputs(inputs_),
          outputs(outputs_),
          biased(biased_),
          x_stride(inputs + gap),
          weight_stride(inputs + 2 * gap),
          y_stride(outputs + 3 * gap),
          x((rows - 1) * x_stride + inputs, gap),
          weight((outputs - 1) * weight_stride + inputs, gap),
          bias(outputs) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        for (Index r = 0; r < rows; ++r)
            for (Index d = 0; d < inputs; ++d) x[r * x_stride + d] = normal(random);
        for (Index o = 0; o < outputs; ++o) {
            for (Index d = 0; d < inputs; ++d) weight[o * weight_stride + d] = normal(random);
            bias[o] = normal(random);
        }
    }

    std::string name() const {
        return std::to_string(rows) + " × " + std::to_string(inputs) + " to " +
               std::to_string(outputs) + (biased ? " with" : " without") + " a bias";
    }
};

regard::Map map_of(const Case& c, Index output, Index outputs, float* y) {
    regard::Map map;
    map.outputs = outputs;
    map.weight = c.weight.data() + output * c.weight_stride;
    map.weight_stride = c.weight_stride;
    map.bias = c.biased ? c.bias.data() + output : nullptr;
    map.y = y;
    map.y_stride = c.y_stride;
    return map;
}

regard::Linear call_of(const Case& c, Index row, Index rows, const regard::Map* maps, Index count) {
    regard::Linear call;
    call.rows = rows;
    call.inputs = c.inputs;
    call.x = c.x.data() + row * c.x_stride;
    call.x_stride = c.x_stride;
    call.maps = maps;
    call.count = count;
    return call;
}

// Rows [row, row + rows) by outputs [output, output + outputs), in memory of their own.
exact::Array<float> part(const Case& c, Index row, Index rows, Index output, Index outputs,
                         int threads) {
    exact::Array<float> y((rows - 1) * c.y_stride + outputs);
    const regard::Map map = map_of(c, output, outputs, y.data());
    regard::linear(call_of(c, row, rows, &map, 1), threads);
    return y;
}

exact::Array<float> all(const Case& c, int threads) {
    return part(c, 0, c.rows, 0, c.outputs, threads);
}

void it_is_the_loop_by_hand(const Case& c) {
    const exact::Array<float> y = all(c, 2);
    const float none = exact::unset<float>();
    // Eight partial sums at least: a number goes through inputs/8 additions, and a few more.
    const double roundings = static_cast<double>(c.inputs / 8 + 12);
    for (Index r = 0; r < c.rows; ++r) {
        for (Index o = 0; o < c.outputs; ++o) {
            double sum = c.biased ? c.bias[o] : 0.0, size = std::fabs(sum);
            for (Index d = 0; d < c.inputs; ++d) {
                const double product = static_cast<double>(c.x[r * c.x_stride + d]) *
                                       static_cast<double>(c.weight[o * c.weight_stride + d]);
                sum += product;
                size += std::fabs(product);
            }
            const double error = std::fabs(y[r * c.y_stride + o] - sum);
            if (!(error <= roundings * 0x1p-24 * size)) check::failed(c.name() + ": wrong");
        }
        for (Index n = r * c.y_stride + c.outputs; n < (r + 1) * c.y_stride && n < y.size(); ++n)
            if (!exact::same_bits(&y[n], &none, 1)) check::failed(c.name() + ": wrote into a gap");
    }
}

void threads_make_no_difference(const Case& c) {
    const exact::Array<float> one = all(c, 1);
    for (const int threads : {0, 2, 3, 4, 7})
        if (!exact::same_bits(one, all(c, threads)))
            check::failed(c.name() + ": other bits on " + std::to_string(threads) + " threads");
}

void other_rows_and_outputs_make_no_difference(const Case& c) {
    const exact::Array<float> y = all(c, 2);
    for (Index row = 0; row < c.rows; ++row) {
        for (Index rows = 1; row + rows <= c.rows; ++rows) {
            const exact::Array<float> some = part(c, row, rows, 0, c.outputs, 1);
            for (Index r = 0; r < rows; ++r)
                if (!exact::same_bits(&some[r * c.y_stride], &y[(row + r) * c.y_stride], c.outputs))
                    check::failed(c.name() + ": other bits beside other rows");
        }
        for (Index o = 0; o < c.outputs; ++o)
            if (!exact::same_bits(part(c, row, 1, o, 1, 1).data(), &y[row * c.y_stride + o], 1))
                check::failed(c.name() + ": other bits beside other outputs");
    }
}

void other_maps_make_no_difference(const Case& c) {
    const exact::Array<float> y = all(c, 2);
    const Index cut = c.outputs / 3;
    for (const int threads : {1, 3}) {
        exact::Array<float> first(c.rows * c.y_stride), second(c.rows * c.y_stride);
        const regard::Map maps[] = {map_of(c, 0, cut, first.data()),
                                    map_of(c, cut, c.outputs - cut, second.data())};
        regard::linear(call_of(c, 0, c.rows, maps, 2), threads);
        for (Index r = 0; r < c.rows; ++r) {
            const Index at = r * c.y_stride;
            if (!exact::same_bits(&first[at], &y[at], cut) ||
                !exact::same_bits(&second[at], &y[at + cut], c.outputs - cut))
                check::failed(c.name() + ": other bits beside another map");
        }
    }
}

void what_is_not_finite_stays_in_its_cells() {
    Case c(5, 37, 11, true, 1, 7);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const Index at : {0, 9, 20, 33, 36}) {  // in either chain, and behind them
        c.x[2 * c.x_stride + at] = nan;
        c.weight[3 * c.weight_stride + at] = std::numeric_limits<float>::infinity();
        const exact::Array<float> y = all(c, 1);
        for (Index r = 0; r < c.rows; ++r)
            for (Index o = 0; o < c.outputs; ++o)
                CHECK(std::isfinite(y[r * c.y_stride + o]) == (r != 2 && o != 3));
        for (Index o = 0; o < c.outputs; ++o) CHECK(std::isnan(y[2 * c.y_stride + o]));
        c.x[2 * c.x_stride + at] = c.weight[3 * c.weight_stride + at] = 1;
    }
}

void nothing_is_summed_to_the_bias() {
    const Case c(3, 0, 5, true, 1, 11);
    const exact::Array<float> y = all(c, 2);
    for (Index r = 0; r < c.rows; ++r)
        CHECK(exact::same_bits(&y[r * c.y_stride], c.bias.data(), c.outputs));
}

void nothing_is_written_where_there_is_nothing() {
    regard::Map map;
    map.outputs = 5;
    regard::Linear call;
    call.inputs = 3;
    call.maps = &map;
    call.count = 1;
    regard::linear(call, 2);
    call.rows = 5;
    map.outputs = 0;
    regard::linear(call, 2);
    call.count = 0;
    regard::linear(call, 2);
}

}  // namespace

int main() {
    kernels::for_each([](const std::string&) {
        unsigned seed = 0;
        for (const Index inputs : {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 97, 257}) {
            for (const Index outputs : {1, 2, 3, 5, 17}) {
                for (const Index rows : {1, 2, 3, 4, 5, 7, 8, 11}) {
                    ++seed;
                    const Case c(rows, inputs, outputs, seed % 2 == 0, seed % 3, seed);
                    it_is_the_loop_by_hand(c);
                    other_rows_and_outputs_make_no_difference(c);
                }
            }
        }
        // Several pieces of work, and several blocks in each; and inputs as long as a block.
        for (const Index rows : {1, 3, 8, 101}) {
            const Case many(rows, 67, 2053, true, 1, 3), wide(rows, 9001, 13, true, 1, 5);
            for (const Case* c : {&many, &wide}) {
                it_is_the_loop_by_hand(*c);
                threads_make_no_difference(*c);
                other_maps_make_no_difference(*c);
            }
        }
        what_is_not_finite_stays_in_its_cells();
        nothing_is_summed_to_the_bias();
        nothing_is_written_where_there_is_nothing();
    });
    return check::result();
}
