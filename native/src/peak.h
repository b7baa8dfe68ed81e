// How fast multiply-adds can be.
#pragma once

#include <time.h>

#include "simd.h"

namespace regard::REGARD_KERNEL {
namespace {

// As many independent chains as hide the latency of a multiply-add.
double measure_peak(double seconds) {
    constexpr int kChains = 12;
    constexpr int kRounds = 1 << 16;
    const auto now = [] {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double start = now();
    double best = 0;
    do {
        Vector chains[kChains];
        for (int n = 0; n < kChains; ++n) chains[n] = all(1.0f + static_cast<float>(n));
        Vector factor = all(0.999f), added = all(0.001f);
        const double from = now();
        for (int round = 0; round < kRounds; ++round) {
            for (int n = 0; n < kChains; ++n) chains[n] = multiply_add(chains[n], factor, added);
            factor = held(factor);
            added = held(added);
        }
        const double took = now() - from;
        for (int n = 0; n < kChains; ++n) asm volatile("" : : "m"(chains[n]));
        const double speed = 2.0 * kLanes * kChains * kRounds / took;
        best = speed > best ? speed : best;
    } while (now() - start < seconds);
    return best;
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
