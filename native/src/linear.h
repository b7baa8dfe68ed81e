// Linear maps of the same rows: the weights are read once, as one stream.
//
// A cell of y is always summed in the same order: two chains of vectors along the inputs, their
// sum, the sum of its lanes, the bias. So its bits depend on neither tiles nor threads.
#pragma once

#include "numbers.h"
#include "regard/linear.h"
#include "scratch.h"
#include "share.h"

namespace regard::REGARD_KERNEL {
namespace {

// Outputs are taken in blocks whose weights stay in the caches while all rows pass over them.
constexpr Index kBlockWeights = 1 << 14;
// Weights of a piece of work at least: less is read before another thread has begun.
constexpr Index kPieceWeights = 1 << 15;
// A thread that is held up by others leaves some of its pieces to the rest.
constexpr Index kPiecesOfThread = 4;
// Rows that are taken together: they stay in the caches while all weights pass over them.
constexpr Index kChunkRows = 96;
// Numbers of x that take no memory of their own.
constexpr Index kOnStack = 4096;

// Bytes by which a stream of weights is asked for ahead: the processor's own reading ahead ends
// with a page.
constexpr Index kAhead = 2048;

constexpr Index kPair = 2 * kLanes;

// Numbers as float32, and 0 after them to the end of a pair of vectors.
template <typename Number>
inline void lay_out_floats(const Number* from, Index count, float* to) {
    Index n = 0;
    const auto put = [&](Pair pair) {
        store(to + n, pair.first);
        store(to + n + kLanes, pair.second);
    };
    for (; n + kPair <= count; n += kPair) put(load_pair(from + n));
    if (n < count) put(load_first_pair(from + n, count - n));
}

// write(r, o, sum) for kRows rows of x, laid out, by kOutputs rows of weights.
template <int kRows, int kOutputs, typename Number, typename Write>
[[gnu::always_inline]] inline void linear_tile(const float* x, Index x_stride, const Number* weight,
                                               Index weight_stride, Index inputs, Write write) {
    Vector sums[2][kRows][kOutputs] = {};
    const auto add = [&](Index d, auto read) __attribute__((always_inline)) {
        Pair pairs[kOutputs];
        REGARD_UNROLL(16)
        for (int o = 0; o < kOutputs; ++o) {
            const Number* from = weight + o * weight_stride + d;
            if (kOutputs == 1) __builtin_prefetch(reinterpret_cast<const char*>(from) + kAhead);
            pairs[o] = read(from);
        }
        REGARD_UNROLL(16)
        for (int r = 0; r < kRows; ++r) {
            const Vector factor = held(load(x + r * x_stride + d));
            REGARD_UNROLL(16)
            for (int o = 0; o < kOutputs; ++o) {
                sums[0][r][o] = multiply_add(factor, held(pairs[o].first), sums[0][r][o]);
            }
        }
        REGARD_UNROLL(16)
        for (int r = 0; r < kRows; ++r) {
            const Vector factor = held(load(x + r * x_stride + d + kLanes));
            REGARD_UNROLL(16)
            for (int o = 0; o < kOutputs; ++o) {
                sums[1][r][o] = multiply_add(factor, held(pairs[o].second), sums[1][r][o]);
            }
        }
    };
    Index d = 0;
    for (; d + kPair <= inputs; d += kPair) {
        add(d, [](const Number* from) { return load_pair(from); });
    }
    if (const Index rest = inputs - d) {
        add(d, [rest](const Number* from) { return load_first_pair(from, rest); });
    }
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
        REGARD_UNROLL(16)
        for (int o = 0; o < kOutputs; ++o) write(r, o, sum(sums[0][r][o] + sums[1][r][o]));
    }
}

// Outputs of one map, for rows that are laid out at x.
template <typename Number>
struct LinearBlock {
    const Linear& call;
    const Map& map;
    const float* x;
    Index x_stride, first_row, rows;

    // kRows rows by outputs [first, last), kOutputs at a time, whose weights begin at `weight`.
    template <int kRows, int kOutputs, typename Weight>
    void strip(Index row, const Weight* weight, Index stride, Index inputs, Index first,
               Index last) const {
        const auto* bias = static_cast<const Number*>(map.bias);
        const auto tile = [&](auto outputs, Index output) __attribute__((always_inline)) {
            Number* y = static_cast<Number*>(map.y) + (first_row + row) * map.y_stride + output;
            linear_tile<kRows, outputs()>(
                x + row * x_stride, x_stride, weight + (output - first) * stride, stride, inputs,
                [&](int r, int o, float total) {
                    if (bias) total += to_real(bias[output + o]);
                    store_first_numbers(y + r * map.y_stride + o, all(total), 1);
                });
        };
        Index output = first;
        for (; output + kOutputs <= last; output += kOutputs) {
            tile(std::integral_constant<int, kOutputs>(), output);
        }
        if (output < last) tile(std::integral_constant<int, 1>(), output);
    }

    // Rows [row, rows), the weights being in the caches.
    template <typename Weight>
    void strips(Index row, const Weight* weight, Index stride, Index inputs, Index first,
                Index last) const {
        for (; row + 3 <= rows; row += 3) strip<3, 2>(row, weight, stride, inputs, first, last);
        if (row + 2 == rows) strip<2, 2>(row, weight, stride, inputs, first, last);
        if (row + 1 == rows) strip<1, 2>(row, weight, stride, inputs, first, last);
    }

    // All rows by outputs [first, last). Who reads the weights first takes one output after the
    // other, so that the processor sees one long stream of them and reads ahead.
    void run(Index first, Index last) const {
        const Index stride = map.weight_stride, inputs = call.inputs;
        const Number* weight = static_cast<const Number*>(map.weight) + first * stride;
        if (rows == 1) return strip<1, 1>(0, weight, stride, inputs, first, last);
        if (rows == 2) return strip<2, 1>(0, weight, stride, inputs, first, last);
        if (rows == 3) return strip<3, 1>(0, weight, stride, inputs, first, last);
        if constexpr (std::is_same_v<Number, float>) {
            strip<1, 1>(0, weight, stride, inputs, first, last);
            strips(1, weight, stride, inputs, first, last);
        } else {
            Borrowed borrowed;
            auto* floats = borrowed.scratch.template take<float>((last - first) * x_stride);
            for (Index o = 0; o < last - first; ++o) {
                lay_out_floats(weight + o * stride, inputs, floats + o * x_stride);
            }
            strips(0, floats, x_stride, x_stride, first, last);
        }
    }
};

template <typename Number>
void linear_of(const Linear& call, int threads) {
    Index outputs = 0;
    for (Index n = 0; n < call.count; ++n) outputs += call.maps[n].outputs;
    if (call.rows == 0 || outputs == 0) return;
    threads = threads < 1 ? 1 : threads;
    const Index width = larger(1, call.inputs);
    const Index block = larger(2, kBlockWeights / width / 2 * 2);
    const Index enough = larger(1, outputs * width / kPieceWeights);
    const Index pieces =
        enough < threads ? enough : threads * smaller(kPiecesOfThread, enough / threads);
    const Index size = ((outputs + pieces - 1) / pieces + 1) / 2 * 2;
    const Index x_stride = (call.inputs + kPair - 1) / kPair * kPair;
    alignas(64) float few[kOnStack];
    Scratch shared;
    const Index numbers = smaller(call.rows, kChunkRows) * x_stride;
    float* x = numbers <= kOnStack ? few : shared.take<float>(numbers);
    for (Index row = 0; row < call.rows; row += kChunkRows) {
        const Index rows = smaller(kChunkRows, call.rows - row);
        const auto* from = static_cast<const Number*>(call.x) + row * call.x_stride;
        share_out(rows, rows * width < kPieceWeights ? 1 : threads, [&](Index r) {
            lay_out_floats(from + r * call.x_stride, call.inputs, x + r * x_stride);
        });
        // Outputs are counted through all maps.
        share_out((outputs + size - 1) / size, threads, [&](Index piece) {
            Index begin = piece * size, end = begin + size;
            for (Index n = 0; n < call.count && end > 0; ++n) {
                const Map& map = call.maps[n];
                const LinearBlock<Number> work{call, map, x, x_stride, row, rows};
                const Index upto = smaller(end, map.outputs);
                for (Index first = larger(0, begin); first < upto; first += block) {
                    check_interrupt();
                    work.run(first, smaller(first + block, upto));
                }
                begin -= map.outputs;
                end -= map.outputs;
            }
        });
    }
}

void linear(const Linear& call, int threads) {
    with_numbers(call.type, call.x,
                 [&](const auto* x) { linear_of<std::decay_t<decltype(*x)>>(call, threads); });
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
