// Sums over queries or keys, of which there may be very many. Added up one after the other as Reals
// they would be rounded each time, equal ones always the same way, and the error would grow with
// their number.
#pragma once

#include "scratch.h"
#include "simd.h"

namespace regard::REGARD_KERNEL {
namespace {

// In double; what that rounds off is kept, too, where the Reals are doubles themselves.
struct Sums {
    static constexpr bool kExact = kType == Type::float64;
    double* sums = nullptr;
    double* lost = nullptr;

    Sums() = default;
    Sums(Index count, Scratch& scratch)
        : sums(scratch.take<double>(count)), lost(scratch.take<double>(kExact ? count : 0)) {}

    void clear(Index count) {
        for (Index n = 0; n < count; ++n) sums[n] = 0.0;
        for (Index n = 0; kExact && n < count; ++n) lost[n] = 0.0;
    }

    void add(Index n, double number) {
        if constexpr (kExact) {
            const double now = sums[n] + number, added = now - sums[n];
            lost[n] += (sums[n] - (now - added)) + (number - added);
            sums[n] = now;
        } else {
            sums[n] += number;
        }
    }

    void scale(Index n, double factor) {
        sums[n] *= factor;
        if constexpr (kExact) lost[n] *= factor;
    }

    double operator[](Index n) const { return kExact ? sums[n] + lost[n] : sums[n]; }
};

}  // namespace
}  // namespace regard::REGARD_KERNEL
