// Which weights dropout leaves: by a hash of seed, sequence, head, query and key, and of nothing
// else, or as somebody has drawn before. Every build of the kernel drops the same ones.
#pragma once

#include <cstring>

#include "regard/attention.h"
#include "simd.h"

namespace regard::REGARD_KERNEL {
namespace {

// What a call drops: a weight whose 32 random bits, as an integer with a sign, lie below `floor`.
struct Drops {
    bool any;
    std::uint64_t seed;
    Real growth;  // of the weights that are kept
    std::int32_t floor;
    const Dropout& given;

    explicit Drops(const Dropout& dropout)
        : any(dropout.chance > 0),
          seed(dropout.seed),
          growth(static_cast<Real>(1 / (1 - dropout.chance))),
          floor(floor_of(dropout.chance)),
          given(dropout) {}

    // chance · 2³² numbers lie below it, to the nearest; never all of them.
    static std::int32_t floor_of(double chance) {
        const double below = chance * 0x1p32 + 0.5;
        const Index count = below < 0x1p32 ? static_cast<Index>(below) : 0xffffffff;
        return static_cast<std::int32_t>(count - 0x80000000);
    }
};

// A bijection of 64 bits, of which each depends on all.
inline std::uint64_t mixed(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

// The decisions on one row of weights: 64 bits of its own, spread over the keys. No two queries of
// a head have the same.
class RowDrops {
  public:
    RowDrops() = default;  // none at all

    RowDrops(const Drops& drops, Index b, Index h, Index i) : floor_(drops.floor - Signed{}) {
        if (drops.given.drawn) {
            const std::int64_t* strides = drops.given.strides;
            drawn_ = drops.given.drawn + b * strides[0] + h * strides[1] + i * strides[2];
            return;
        }
        std::uint64_t state = drops.seed;
        const Index places[] = {b, h, i};
        for (const Index place : places) {
            state = mixed(state + (static_cast<std::uint64_t>(place) + 1) * 0x9e3779b97f4a7c15u);
        }
        first_ = static_cast<std::uint32_t>(state >> 32);
        second_ = all(static_cast<std::uint32_t>(state));
    }

    // The keys from j on.
    Naturals begin(Index j) const {
        Naturals keys;
        for (int lane = 0; lane < kLanes; ++lane) {
            keys[lane] = static_cast<std::uint32_t>(j + lane) * stride() + first_;
        }
        return keys;
    }

    Naturals next(Naturals keys) const { return keys + all(kLanes * stride()); }

    Integers dropped(Naturals keys) const {
        if (drawn_) {
            std::uint32_t word;  // of the key of each lane, and up to 7 before
            std::memcpy(&word, drawn_ + keys[0] / 8, sizeof word);
            const Naturals kept = all(word >> keys[0] % 8) & lane_bits();
            return __builtin_convertvector(kept == Naturals{}, Integers);
        }
        Naturals bits = (keys ^ (keys >> 16)) * all(0x85ebca77u) + second_;
        bits = (bits ^ (bits >> 15)) * all(0xc2b2ae3du);
        return __builtin_convertvector(reinterpret_cast<Signed>(bits) < floor_, Integers);
    }

  private:
    using Signed = VectorOf<std::int32_t, kLanes>::Type;
    static constexpr std::uint32_t kStride = 0x9e3779b9u;  // 2³² times the golden section
    static_assert(kLanes + 7 <= 32);

    std::uint32_t stride() const { return drawn_ ? 1 : kStride; }

    static Naturals lane_bits() {
        Naturals bits;
        for (int lane = 0; lane < kLanes; ++lane) bits[lane] = 1u << lane;
        return bits;
    }

    const std::uint8_t* drawn_ = nullptr;
    std::uint32_t first_ = 0;
    Naturals second_{};
    Signed floor_{};
};

// Drop what is to be dropped of `count` weights, a multiple of kLanes, of the keys from j on. The
// others do not grow here: the row does, at its end.
__attribute__((noinline)) void drop_row(const Drops& drops, Index b, Index h, Index i, Index j,
                                        Index count, Real* weights) {
    const RowDrops row(drops, b, h, i);
    Naturals keys = row.begin(j);
    for (Index n = 0; n < count; n += kLanes, keys = row.next(keys)) {
        store(weights + n, row.dropped(keys) ? Vector{} : load(weights + n));
    }
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
