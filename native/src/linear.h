// A linear map for few rows: the weights are read once, as one stream.
//
// A cell of y is always summed in the same order: two chains of vectors along the inputs, their
// sum, the sum of its lanes, the bias. So its bits depend on neither tiles nor threads.
#pragma once

#include "numbers.h"
#include "regard/linear.h"
#include "share.h"

namespace regard::REGARD_KERNEL {
namespace {

// Outputs are taken in blocks whose weights stay in the caches while all rows pass over them.
constexpr Index kBlockWeights = 1 << 14;
// Weights of a piece of work at least: less is read before another thread has begun.
constexpr Index kPieceWeights = 1 << 15;
// A thread that is held up by others leaves some of its pieces to the rest.
constexpr Index kPiecesOfThread = 4;

// kRows rows of x by kOutputs rows of weights.
template <typename Number, int kRows, int kOutputs>
inline void linear_tile(const Linear& map, Index row, Index output) {
    const auto* bias = static_cast<const Number*>(map.bias);
    const Number* x[kRows];
    const Number* weight[kOutputs];
    for (int r = 0; r < kRows; ++r) {
        x[r] = static_cast<const Number*>(map.x) + (row + r) * map.x_stride;
    }
    for (int o = 0; o < kOutputs; ++o) {
        weight[o] = static_cast<const Number*>(map.weight) + (output + o) * map.weight_stride;
    }
    Vector sums[2][kRows][kOutputs] = {};
    const auto add = [&](int chain, auto read) __attribute__((always_inline)) {
        Vector columns[kOutputs];
        REGARD_UNROLL(16)
        for (int o = 0; o < kOutputs; ++o) columns[o] = held(read(weight[o]));
        REGARD_UNROLL(16)
        for (int r = 0; r < kRows; ++r) {
            const Vector factor = held(read(x[r]));
            REGARD_UNROLL(16)
            for (int o = 0; o < kOutputs; ++o) {
                sums[chain][r][o] = multiply_add(factor, columns[o], sums[chain][r][o]);
            }
        }
    };
    Index d = 0;
    for (; d + 2 * kLanes <= map.inputs; d += 2 * kLanes) {
        add(0, [d](const Number* from) { return load_numbers(from + d); });
        add(1, [d](const Number* from) { return load_numbers(from + d + kLanes); });
    }
    if (d + kLanes <= map.inputs) {
        add(0, [d](const Number* from) { return load_numbers(from + d); });
        d += kLanes;
    }
    if (d < map.inputs) {
        const Index rest = map.inputs - d;
        add(1, [d, rest](const Number* from) { return load_first_numbers(from + d, rest); });
    }
    REGARD_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
        REGARD_UNROLL(16)
        for (int o = 0; o < kOutputs; ++o) {
            float total = sum(sums[0][r][o] + sums[1][r][o]);
            if (bias) total += to_real(bias[output + o]);
            Number* y = static_cast<Number*>(map.y) + (row + r) * map.y_stride + output + o;
            store_first_numbers(y, all(total), 1);
        }
    }
}

// kRows rows by outputs [first, last), two at a time.
template <typename Number, int kRows>
inline void linear_strip(const Linear& map, Index row, Index first, Index last) {
    Index output = first;
    for (; output + 2 <= last; output += 2) linear_tile<Number, kRows, 2>(map, row, output);
    if (output < last) linear_tile<Number, kRows, 1>(map, row, output);
}

// All rows by outputs [first, last). The first row takes one output after the other, so that the
// processor sees one long stream of weights and reads ahead; the others find them in the caches.
template <typename Number>
inline void linear_block(const Linear& map, Index first, Index last) {
    for (Index output = first; output < last; ++output) linear_tile<Number, 1, 1>(map, 0, output);
    Index row = 1;
    for (; row + 3 <= map.rows; row += 3) linear_strip<Number, 3>(map, row, first, last);
    if (row + 2 == map.rows) linear_strip<Number, 2>(map, row, first, last);
    if (row + 1 == map.rows) linear_strip<Number, 1>(map, row, first, last);
}

void linear(const Linear& map, int threads) {
    if (map.rows == 0 || map.outputs == 0) return;
    threads = threads < 1 ? 1 : threads;
    const Index width = larger(1, map.inputs);
    const Index block = larger(2, kBlockWeights / width / 2 * 2);
    const Index enough = larger(1, map.outputs * width / kPieceWeights);
    const Index pieces =
        enough < threads ? enough : threads * smaller(kPiecesOfThread, enough / threads);
    const Index size = ((map.outputs + pieces - 1) / pieces + 1) / 2 * 2;
    const auto work = [&](Index piece) {
        const Index end = smaller((piece + 1) * size, map.outputs);
        for (Index first = piece * size; first < end; first += block) {
            check_interrupt();
            with_numbers(map.type, map.weight, [&](const auto* weight) {
                using Number = std::decay_t<decltype(*weight)>;
                linear_block<Number>(map, first, smaller(first + block, end));
            });
        }
    };
    share_out((map.outputs + size - 1) / size, threads, work);
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
