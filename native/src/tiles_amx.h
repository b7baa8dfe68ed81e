// Products of bfloat16 by the tiles of AMX: how K, V, queries and weights lie for them.
//
// A tile is 16 rows of 64 bytes. A product of two adds, for 16 rows by 16 columns of float32, the
// products of 32 numbers, each of which is exact, in an order that is always the same. What the
// tiles would do to very small numbers (they are taken as 0), and to products beyond all floats,
// never reaches a result: rows that could come there are `odd`, and computed in another way.
#pragma once

#include <immintrin.h>

#include "pack.h"

namespace regard::REGARD_KERNEL {
namespace {

constexpr Index kAmxRows = 16;   // of a tile; as many columns of a product
constexpr Index kAmxInner = 32;  // numbers that one product of tiles adds up
constexpr Index kAmxCells = kAmxRows * kAmxInner;
constexpr Index kAmxStrip = 2 * kAmxRows;  // rows of scores at a time
static_assert(kPanel % kAmxInner == 0 && kLanes == kAmxRows, "a panel is whole tiles");

// Tiles of 16 rows by 64 bytes, all eight of them, as long as this lives. A signal handler finds
// them empty, and leaves them as they were: the system keeps them for it.
struct Tiles {
    Tiles() {
        alignas(64) std::uint8_t shape[64] = {1};
        for (int n = 0; n < 8; ++n) {
            shape[16 + 2 * n] = 64;
            shape[48 + n] = static_cast<std::uint8_t>(kAmxRows);
        }
        asm volatile("" ::"r"(shape) : "memory");
        _tile_loadconfig(shape);
    }
    ~Tiles() { _tile_release(); }
    Tiles(const Tiles&) = delete;
    Tiles& operator=(const Tiles&) = delete;
};

// 32 numbers, or the first `count` of them and 0 for the others, which are not read.
inline __m512i load_shorts(const BFloat16* from, Index count) {
    if (count >= kAmxInner) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi16((__mmask32{1} << count) - 1, from);
}

// What a row of numbers holds: something not finite; something that is not 0 and whose magnitude
// is outside of [least, most], both as bits.
struct Held {
    bool bad, odd;
};
inline Held look_at(const BFloat16* row, Index width, std::uint16_t least, std::uint16_t most) {
    const auto as_shorts = [](int number) { return _mm512_set1_epi16(static_cast<short>(number)); };
    __mmask32 bad = 0, odd = 0;
    for (Index d = 0; d < width; d += kAmxInner) {
        const __m512i numbers =
            _mm512_and_si512(load_shorts(row + d, width - d), as_shorts(0x7fff));
        bad |= _mm512_cmpge_epu16_mask(numbers, as_shorts(0x7f80));
        odd |= _mm512_cmpgt_epu16_mask(_mm512_sub_epi16(numbers, as_shorts(least)),
                                       as_shorts(most - least)) &
               _mm512_test_epi16_mask(numbers, numbers);
    }
    return {bad != 0, odd != 0};
}

// A query or a key is odd beyond 2⁻⁶⁰ and 2⁴⁰: no product of two that are not is flushed to 0, and
// no sum of them overflows.
inline Held look_at_factor(const BFloat16* row, Index width) {
    return look_at(row, width, (127 - 60) << 7, (127 + 40) << 7);
}
// A value is if it is so small that a product with a weight might be flushed.
inline Held look_at_value(const BFloat16* row, Index width) {
    return look_at(row, width, (127 - 90) << 7, 0x7f7f);
}

// Keys [first, last) as tiles of 16 keys by 32 numbers, pairs of numbers side by side: [key / 16]
// [d / 32][pair][key]. Missing keys, up to whole panels, are 0, and so are those that are not
// finite. `odd` says of each panel whether it has an odd key.
inline void pack_keys(const BFloat16* k, Index stride, Index first, Index last, Index width,
                      BFloat16* tiles, std::uint8_t* odd, BadKeys& bad) {
    const Index inner = round_up(width, kAmxInner);
    for (Index j = first; j < last; j += kPanel) {
        bool any_odd = false;
        for (Index half = 0; half < kPanel; half += kAmxRows, tiles += kAmxRows * inner) {
            const BFloat16* rows[kAmxRows];  // null: not there, or not finite
            for (Index n = 0; n < kAmxRows; ++n) {
                const Index key = j + half + n;
                rows[n] = key < last ? k + key * stride : nullptr;
                if (!rows[n]) continue;
                const Held held = look_at_factor(rows[n], width);
                any_odd |= held.odd;
                if (!held.bad) continue;
                bad.keys[bad.count++] = static_cast<std::int32_t>(key);
                rows[n] = nullptr;
            }
            for (Index d = 0; d < width; d += kAmxInner) {
                alignas(64) float lines[kAmxCells / 2];  // two numbers to a float
                for (Index n = 0; n < kAmxRows; ++n) {
                    _mm512_store_si512(
                        lines + n * kAmxRows,
                        rows[n] ? load_shorts(rows[n] + d, width - d) : _mm512_setzero_si512());
                }
                transpose(lines, kAmxRows, reinterpret_cast<float*>(tiles + d * kAmxRows),
                          kAmxRows);
            }
        }
        *odd++ = any_odd;
    }
}

// Values [first, last) as tiles of 32 keys by 16 columns, pairs of keys side by side: [key / 32]
// [column / 16][pair][column]. Missing keys are 0, and so are those that are listed in `bad`: not
// finite, or odd.
inline void pack_values(const BFloat16* v, Index stride, Index first, Index last, Index width,
                        Index padded_width, BFloat16* tiles, BadKeys& bad) {
    for (Index j = first; j < last; j += kAmxInner, tiles += kAmxInner * padded_width) {
        for (Index pair = 0; pair < kAmxRows; ++pair) {
            const BFloat16* rows[2];
            for (Index n = 0; n < 2; ++n) {
                const Index key = j + 2 * pair + n;
                rows[n] = key < last ? v + key * stride : nullptr;
                if (!rows[n]) continue;
                const Held held = look_at_value(rows[n], width);
                if (!held.bad && !held.odd) continue;
                bad.keys[bad.count++] = static_cast<std::int32_t>(key);
                rows[n] = nullptr;
            }
            for (Index d = 0; d < padded_width; d += kAmxRows) {
                __m512i columns[2];
                for (Index n = 0; n < 2; ++n) {
                    const Index left = width - d;
                    const __m256i numbers =
                        !rows[n] || left <= 0 ? _mm256_setzero_si256()
                        : left >= kAmxRows
                            ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[n] + d))
                            : _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << left) - 1),
                                                       rows[n] + d);
                    columns[n] = _mm512_cvtepu16_epi32(numbers);
                }
                _mm512_store_si512(tiles + d * kAmxInner + pair * kAmxInner,
                                   _mm512_or_si512(columns[0], _mm512_slli_epi32(columns[1], 16)));
            }
        }
    }
}

// Weights [first, last), whole tiles, as two numbers each: what they are rounded to, and the rest.
// Together they have 16 digits, twice as many as a value.
inline void split_weights(const Real* weights, Index first, Index last, BFloat16* high,
                          BFloat16* rest) {
    const auto shorts_of = [](__m512 a, __m512 b) {
        return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
    };
    for (Index n = first; n < last; n += kAmxInner) {
        const __m512 a = load(weights + n), b = load(weights + n + kLanes);
        const __m512i rounded = shorts_of(a, b);
        _mm512_store_si512(high + n, rounded);
        const auto back = [](__m256i half) {
            return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
        };
        const __m512 left_a = a - back(_mm512_castsi512_si256(rounded));
        const __m512 left_b = b - back(_mm512_extracti64x4_epi64(rounded, 1));
        _mm512_store_si512(rest + n, shorts_of(left_a, left_b));
    }
}

// scores[r][…] = Σ_d q[r][d] · k[…][d] of 32 keys, and of 16 rows or, kBoth, 32.
template <bool kBoth>
inline void score_tiles(const BFloat16* q, Index inner, const BFloat16* keys, Real* scores) {
    const BFloat16* more = keys + kAmxRows * inner;
    const Index bytes = 2 * inner, to = sizeof(Real) * kScoreStride;
    asm volatile("" ::: "memory");  // what the tiles read has been written
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (Index d = 0; d < inner; d += kAmxInner) {
        _tile_loadd(4, q + d, bytes);
        _tile_loadd(6, keys + d * kAmxRows, 64);
        _tile_loadd(7, more + d * kAmxRows, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if constexpr (kBoth) {
            _tile_loadd(5, q + kAmxRows * inner + d, bytes);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, scores, to);
    _tile_stored(1, scores + kAmxRows, to);
    if constexpr (kBoth) {
        _tile_stored(2, scores + kAmxRows * kScoreStride, to);
        _tile_stored(3, scores + kAmxRows * kScoreStride + kAmxRows, to);
    }
    asm volatile("" ::: "memory");
}

// sums[r][…] = Σ_j weights[r][j] · v[j][…] of 32 columns, `groups` of 32 keys, and of 16 rows or,
// kBoth, 32. Weights have two parts, each with kBlock to a row.
template <bool kBoth>
inline void weigh_tiles(const BFloat16* high, const BFloat16* rest, const BFloat16* values,
                        Index padded_width, Index groups, Real* sums) {
    constexpr Index kBytes = 2 * kBlock, kTo = sizeof(Real) * 2 * kAmxRows;
    asm volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (Index n = 0; n < groups; ++n, values += kAmxInner * padded_width) {
        _tile_loadd(6, values, 64);
        _tile_loadd(7, values + kAmxCells, 64);
        for (const BFloat16* part : {high, rest}) {
            _tile_loadd(4, part + n * kAmxInner, kBytes);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            if constexpr (kBoth) {
                _tile_loadd(5, part + kAmxRows * kBlock + n * kAmxInner, kBytes);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
    }
    _tile_stored(0, sums, kTo);
    _tile_stored(1, sums + kAmxRows, kTo);
    if constexpr (kBoth) {
        _tile_stored(2, sums + kAmxRows * 2 * kAmxRows, kTo);
        _tile_stored(3, sums + kAmxRows * 2 * kAmxRows + kAmxRows, kTo);
    }
    asm volatile("" ::: "memory");
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
