// What dropout makes of weights, for whoever computes with them elsewhere.
#pragma once

#include "drop.h"
#include "share.h"

namespace regard::REGARD_KERNEL {
namespace {

void kept(const Dropout& dropout, Index b, Index heads, const Rectangle& box, float* out,
          int threads) {
    const Drops drops(dropout);
    share_out(heads * box.rows, threads, [&](Index task) {
        const RowDrops row(drops, b, task / box.rows, box.row + task % box.rows);
        float* to = out + task * box.keys;
        Naturals keys = row.begin(box.key);
        for (Index n = 0; n < box.keys; n += kLanes, keys = row.next(keys)) {
            const Vector factors = row.dropped(keys) ? Vector{} : all(drops.growth);
            for (Index lane = 0; lane < smaller(kLanes, box.keys - n); ++lane) {
                to[n + lane] = factors[lane];
            }
        }
    });
}

}  // namespace
}  // namespace regard::REGARD_KERNEL
