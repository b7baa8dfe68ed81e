// Each token's vector by itself: the RMS norm, the turn of rotary positions, SwiGLU's gate, a sum.
#pragma once

#include "numbers.h"
#include "regard/tokens.h"
#include "share.h"

namespace regard::REGARD_KERNEL {
namespace {

// Numbers of a piece of work: fewer are done before another thread has begun.
constexpr Index kPieceNumbers = 1 << 14;

// work(first, last) for vectors [0, count) of this width, in pieces.
template <typename Work>
void share_out_vectors(Index count, Index width, int threads, Work work) {
    const Index size = larger(1, kPieceNumbers / larger(1, width));
    share_out((count + size - 1) / size, threads, [&](Index piece) {
        check_interrupt();
        work(piece * size, smaller(count, (piece + 1) * size));
    });
}

inline Vector rounded_to(const Real*, Vector vector) { return vector; }
template <typename Number>
inline Vector rounded_to(const Number*, Vector vector) {
    Number numbers[kLanes];
    store_numbers(numbers, vector);
    return load_numbers(numbers);
}

template <typename Number>
inline void rms_norm_row(const Number* x, const Number* weight, Index width, float eps, Number* y) {
    Vector sums[2] = {};
    Index n = 0;
    for (; n + 2 * kLanes <= width; n += 2 * kLanes) {
        const Pair pair = load_pair(x + n);
        sums[0] = multiply_add(pair.first, pair.first, sums[0]);
        sums[1] = multiply_add(pair.second, pair.second, sums[1]);
    }
    if (n < width) {
        const Pair pair = load_first_pair(x + n, width - n);
        sums[0] = multiply_add(pair.first, pair.first, sums[0]);
        sums[1] = multiply_add(pair.second, pair.second, sums[1]);
    }
    const float mean = sum(sums[0] + sums[1]) / static_cast<float>(width);
    const Vector factor = all(1.0f / __builtin_sqrtf(mean + eps));
    const auto normed = [&](Vector numbers, Vector weights) {
        return rounded_to(x, numbers * factor) * weights;
    };
    for (n = 0; n + kLanes <= width; n += kLanes) {
        store_numbers(y + n, normed(load_numbers(x + n), load_numbers(weight + n)));
    }
    if (const Index rest = width - n) {
        store_first_numbers(
            y + n, normed(load_first_numbers(x + n, rest), load_first_numbers(weight + n, rest)),
            rest);
    }
}

void rms_norm(const RmsNorm& call, int threads) {
    with_numbers(call.type, call.x, [&](const auto* x) {
        using Number = std::decay_t<decltype(*x)>;
        const auto* weight = static_cast<const Number*>(call.weight);
        auto* y = static_cast<Number*>(call.y);
        const Index width = call.width;
        share_out_vectors(call.rows, width, threads, [&](Index first, Index last) {
            for (Index row = first; row < last; ++row) {
                rms_norm_row(x + row * width, weight, width, call.eps, y + row * width);
            }
        });
    });
}

// to[n] = x[n] · cosine[n] + partner[n] · sine[n]
template <typename Number>
inline void turn_numbers(const Number* x, const Number* partner, const Number* cosine,
                         const Number* sine, Index count, Number* to) {
    const auto turned = [](Vector x, Vector partner, Vector cosine, Vector sine) {
        return multiply_add(partner, sine, x * cosine);
    };
    Index n = 0;
    for (; n + kLanes <= count; n += kLanes) {
        store_numbers(to + n, turned(load_numbers(x + n), load_numbers(partner + n),
                                     load_numbers(cosine + n), load_numbers(sine + n)));
    }
    if (const Index rest = count - n) {
        const auto first = [n, rest](const Number* from) {
            return load_first_numbers(from + n, rest);
        };
        store_first_numbers(to + n, turned(first(x), first(partner), first(cosine), first(sine)),
                            rest);
    }
}

// The same, neighbours being partners.
template <typename Number>
inline void turn_neighbours(const Number* x, const Number* cosine, const Number* sine, Index count,
                            Number* to) {
    const auto turned = [](Vector x, Vector cosine, Vector sine) {
        return multiply_add(swap_lanes<1>(x), sine, x * cosine);
    };
    Index n = 0;
    for (; n + kLanes <= count; n += kLanes) {
        store_numbers(
            to + n, turned(load_numbers(x + n), load_numbers(cosine + n), load_numbers(sine + n)));
    }
    if (const Index rest = count - n) {
        const auto first = [n, rest](const Number* from) {
            return load_first_numbers(from + n, rest);
        };
        store_first_numbers(to + n, turned(first(x), first(cosine), first(sine)), rest);
    }
}

void turn(const Turn& call, int threads) {
    with_numbers(call.x.type, call.x.data, [&](const auto* numbers) {
        using Number = std::decay_t<decltype(*numbers)>;
        const Index half = call.turned / 2;
        const auto one = [&](Index vector) {
            const Index b = vector / call.tokens / call.heads;
            const Index h = vector / call.tokens % call.heads, n = vector % call.tokens;
            const auto at = [&](const auto& rows) {
                return b * rows.strides[0] + h * rows.strides[1] + n * rows.strides[2];
            };
            const Number* x = numbers + at(call.x);
            const Number* cosine = static_cast<const Number*>(call.cosine.data) + at(call.cosine);
            const Number* sine = static_cast<const Number*>(call.sine.data) + at(call.sine);
            Number* y = static_cast<Number*>(call.y.data) + at(call.y);
            if (call.halves) {
                turn_numbers(x, x + half, cosine, sine, half, y);
                turn_numbers(x + half, x, cosine + half, sine + half, half, y + half);
            } else {
                turn_neighbours(x, cosine, sine, call.turned, y);
            }
            for (Index d = call.turned; d < call.width; ++d) y[d] = x[d];
        };
        share_out_vectors(call.batch * call.heads * call.tokens, call.width, threads,
                          [&](Index first, Index last) {
                              for (Index vector = first; vector < last; ++vector) one(vector);
                          });
    });
}

// x / (1 + exp(−x)), exp(−x) = 2^whole · exp(rest): products of whole numbers with the first part
// of ln 2 are exact.
inline Vector silu(Vector x) {
    constexpr float kHigh = 0x1.62e4p-1f, kLow = 0x1.7f7d1cp-20f;  // their sum is ln 2
    const Vector negative = all(0.0f) - x;
    const Vector argument = larger(all(kLeast), negative * all(kLog2E));
    const Vector shifted = smaller(all(-kLeast), argument) + all(kRounds);
    const Vector whole = shifted - all(kRounds);
    // Beyond half a step only where x is out of range, and the result of no account.
    const Vector beyond = (negative - whole * all(kHigh) - whole * all(kLow)) * all(kLog2E);
    const Vector rest = larger(all(-1.0f), smaller(all(1.0f), beyond));
    const Vector power = multiply_add(power_less_one(rest), rest, all(1.0f));
    const Vector exponential = reinterpret_cast<Vector>(
        reinterpret_cast<Integers>(power) + (reinterpret_cast<Integers>(shifted) << kExponent));
    const Vector found = x / (all(1.0f) + exponential);
    // Where exp(−x) is as good as 0: x itself. Where it is beyond float32: −0, and NaN of −∞.
    const Vector above = argument > all(kLeast) ? found : x;
    return argument < all(-kLeast) ? above : x / all(__builtin_inff());
}

// y[n] = function(a[n], b[n])
template <typename Function>
void each_of_two(const Two& call, int threads, Function function) {
    with_numbers(call.type, call.y, [&](auto* y) {
        using Number = std::decay_t<decltype(*y)>;
        const auto* a = static_cast<const Number*>(call.a);
        const auto* b = static_cast<const Number*>(call.b);
        share_out_vectors(call.count, 1, threads, [&](Index n, Index end) {
            for (; n + kLanes <= end; n += kLanes) {
                store_numbers(y + n, function(y, load_numbers(a + n), load_numbers(b + n)));
            }
            if (const Index rest = end - n) {
                store_first_numbers(
                    y + n,
                    function(y, load_first_numbers(a + n, rest), load_first_numbers(b + n, rest)),
                    rest);
            }
        });
    });
}

void gated(const Two& call, int threads) {
    each_of_two(call, threads, [](const auto* to, Vector gate, Vector hidden) {
        return rounded_to(to, silu(gate)) * hidden;
    });
}

void add(const Two& call, int threads) {
    each_of_two(call, threads, [](const auto*, Vector a, Vector b) { return a + b; });
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
