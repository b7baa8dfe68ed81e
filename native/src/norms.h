// How long the values are: log2 ‖v‖ of each key, which is added to scores to find the keys that
// move an output most.
#pragma once

#include <cmath>

#include "share.h"
#include "tile.h"

namespace regard::REGARD_KERNEL {
namespace {

// log2 ‖x‖ of `count` numbers: −inf of zeros, +inf where one is not finite.
template <typename Number>
inline Real log_norm(const Number* x, Index count) {
    Vector squares{};
    Index n = 0;
    for (; n + kLanes <= count; n += kLanes) {
        const Vector numbers = load_numbers(x + n);
        squares = multiply_add(numbers, numbers, squares);
    }
    if (n < count) {
        const Vector numbers = load_first_numbers(x + n, count - n);
        squares = multiply_add(numbers, numbers, squares);
    }
    const Real total = sum(squares);
    constexpr Real kSmall = 1e-20f, kLarge = 1e20f;
    if (total > kSmall && total < kLarge) {
        return static_cast<Real>(0.5 * std::log2(static_cast<double>(total)));
    }
    // Squares may have become too large or too small: once more, relative to the largest number.
    double most = 0;
    for (n = 0; n < count; ++n) {
        const double number = std::fabs(static_cast<double>(to_real(x[n])));
        if (!(number - number == 0)) return infinity();
        most = number > most ? number : most;
    }
    if (most == 0) return -infinity();
    double relative = 0;
    for (n = 0; n < count; ++n) {
        const double number = static_cast<double>(to_real(x[n])) / most;
        relative += number * number;
    }
    return static_cast<Real>(std::log2(most) + 0.5 * std::log2(relative));
}

// Those of all keys, of the values or of the norms that were given.
void find_log_norms(Call& call, int threads, Scratch& shared) {
    const Problem& problem = call.problem;
    const Real* given = call.seen.norms;
    call.norm_heads = given ? problem.heads : problem.kv_heads;
    auto* logs = shared.take<Real>(problem.batch * call.norm_heads * problem.keys);
    call.log_norms = logs;
    share_out(problem.batch * call.norm_heads, threads, [&](Index head) {
        Real* to = logs + head * problem.keys;
        if (given) {
            for (Index j = 0; j < problem.keys; ++j) {
                to[j] = log_norm(given + head * problem.keys + j, 1);
            }
            return;
        }
        const Index b = head / problem.kv_heads, h = head % problem.kv_heads;
        with_numbers(problem.v.type, row_of(problem.v, b, h, 0), [&](const auto* v) {
            for (Index j = 0; j < problem.keys; ++j) {
                to[j] = log_norm(v + j * problem.v.strides[2], problem.value_width);
            }
        });
    });
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
