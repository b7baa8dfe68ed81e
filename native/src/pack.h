// K and V of one head, laid out in panels of kPanel columns, and the keys that hold a NaN or an
// infinity.
#pragma once

#include "numbers.h"
#include "product.h"

namespace regard::REGARD_KERNEL {
namespace {

inline Index round_up(Index number, Index unit) { return (number + unit - 1) / unit * unit; }

// Whether any of `count` numbers is a NaN or an infinity.
template <typename Number>
inline bool any_not_finite(const Number* numbers, Index count) {
    Index n = 0;
    Integers found{};
    for (; n + kLanes <= count; n += kLanes) {
        const Vector vector = load_numbers(numbers + n);
        found |= ((vector - vector) != Vector{});  // x − x is 0 unless x is not finite
    }
    if (n < count) {
        const Vector vector = load_first_numbers(numbers + n, count - n);
        found |= ((vector - vector) != Vector{});
    }
    return bits(found) != 0;
}

// The first place in `keys`, which ascend, that is not before `key`.
template <typename Number>
inline Index first_from(const Number* keys, Index count, Index key) {
    Index first = 0, last = count;
    while (first < last) {
        const Index middle = first + (last - first) / 2;
        if (keys[middle] < key) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first;
}

// Keys that hold something not finite, in order.
struct BadKeys {
    std::int32_t* keys = nullptr;
    Index count = 0;

    Index from(Index key) const { return first_from(keys, count, key); }
};

// kLanes rows of kLanes numbers, turned: to[d][r] = from[r][d].
[[gnu::always_inline]] inline void transpose_numbers(const Real* from, Index stride, Real* to,
                                                     Index to_stride) {
    transpose(from, stride, to, to_stride);
}
template <typename Number>
[[gnu::always_inline]] inline void transpose_numbers(const Number* from, Index stride, Real* to,
                                                     Index to_stride) {
    alignas(64) Real rows[kLanes * kLanes];
    for (int n = 0; n < kLanes; ++n) store(rows + n * kLanes, load_numbers(from + n * stride));
    transpose(rows, kLanes, to, to_stride);
}

// The same for `wide` columns, at most kLanes, from d on, of rows that need not be there: those are
// 0. Only as many lines are written.
template <typename Number>
inline void transpose_some(const Number* const* rows, Index d, Index wide, Real* to,
                           Index to_stride) {
    alignas(64) Real lines[kLanes * kLanes], turned[kLanes * kLanes];
    for (int n = 0; n < kLanes; ++n) {
        store(lines + n * kLanes, !rows[n]         ? Vector{}
                                  : wide == kLanes ? load_numbers(rows[n] + d)
                                                   : load_first_numbers(rows[n] + d, wide));
    }
    transpose(lines, kLanes, turned, kLanes);
    for (Index n = 0; n < wide; ++n) store(to + n * to_stride, load(turned + n * kLanes));
}

// Panels of K: keys [first, last), kPanel at a time, each [width][kPanel]. Missing keys are 0.
template <typename Number>
inline void pack_keys(const Number* k, Index stride, Index first, Index last, Index width,
                      Real* panels, BadKeys& bad) {
    for (Index j = first; j < last; j += kPanel, panels += width * kPanel) {
        const Index count = smaller(kPanel, last - j);
        const Number* rows[kPanel];  // null: not there, or not finite
        bool plain = count == kPanel;
        for (Index c = 0; c < kPanel; ++c) {
            rows[c] = c < count ? k + (j + c) * stride : nullptr;
            if (c >= count || !any_not_finite(rows[c], width)) continue;
            bad.keys[bad.count++] = static_cast<std::int32_t>(j + c);
            rows[c] = nullptr;
            plain = false;
        }
        for (Index d = 0; d < width; d += kLanes) {
            const Index wide = smaller(kLanes, width - d);
            REGARD_UNROLL(16)
            for (Index c = 0; c < kPanel; c += kLanes) {
                Real* to = panels + d * kPanel + c;
                if (plain && wide == kLanes) {
                    transpose_numbers(rows[c] + d, stride, to, kPanel);
                } else {
                    transpose_some(rows + c, d, wide, to, kPanel);
                }
            }
        }
    }
}

// Panels of V: each holds kPanel columns of all keys, [padded_keys][kPanel]. Writes keys [first,
// last) of each.
template <typename Number>
inline void pack_values(const Number* v, Index stride, Index first, Index last, Index width,
                        Index padded_keys, Real* panels, BadKeys& bad) {
    const Index whole = width / kPanel * kPanel;
    for (Index j = first; j < last; ++j) {
        const Number* from = v + j * stride;
        const bool spoilt = any_not_finite(from, width);
        if (spoilt) bad.keys[bad.count++] = static_cast<std::int32_t>(j);
        Real* to = panels + j * kPanel;
        for (Index c = 0; c < whole; c += kPanel, to += padded_keys * kPanel) {
            for (int n = 0; n < kPanel; n += kLanes) {
                store(to + n, spoilt ? Vector{} : load_numbers(from + c + n));
            }
        }
        if (whole < width) {
            for (Index n = 0; n < kPanel; n += kLanes) {
                const Index left = spoilt ? 0 : width - whole - n;
                store(to + n, left >= kLanes ? load_numbers(from + whole + n)
                              : left > 0     ? load_first_numbers(from + whole + n, left)
                                             : Vector{});
            }
        }
    }
}

// Rows of Q times `scale`, one after the other. A row with something not finite becomes 0; returns
// whether it was.
template <typename Number>
inline bool pack_query(const Number* q, Index width, Real scale, Real* to) {
    if (any_not_finite(q, width)) {
        for (Index d = 0; d < width; ++d) to[d] = 0.0f;
        return true;
    }
    write_scaled(q, width, scale, to);
    return false;
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
