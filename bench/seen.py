"""What more there is to see, beside the pass that is observed anyway: `bench/seen.py [rounds]`.

Each statistic is compared with the reference on a short problem first; then the contestants take
turns, best of several. Times are printed beside what they should be.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from racing import line, race

import regard
from regard import reference

HEADS, WIDTH, SPANS = 8, 64, 16
USUAL = regard.See(entropy=True, top=8, map=(128, 128))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    verify()
    print(f"{HEADS} heads, {WIDTH} wide, causal, {torch.get_num_threads()} threads")
    for n_keys, limits in ((2048, (1.10, 1.20, 1.15)), (8192, (1.06, 1.20, 1.08))):
        q, k, v = (torch.randn(1, HEADS, n_keys, WIDTH) for _ in range(3))
        tokens = torch.arange(n_keys)
        sights = {
            "lse": regard.See(),
            "lse again": regard.See(),
            "max_logit": regard.See(max_logit=True),
            "usual": USUAL,
            "usual again": USUAL,
            "contiguous": replace(USUAL, spans=tokens * SPANS // n_keys),
            "interleaved": replace(USUAL, spans=tokens % SPANS),
            "contribution": replace(USUAL, contribution=8),
        }
        calls = {
            name: partial(regard.attention, q, k, v, causal=True, see=see)
            for name, see in sights.items()
        }
        best = race(calls, rounds if n_keys < 4096 else max(rounds // 3, 2))
        print(f"\nN = {n_keys:,}")
        line("lse alone beside itself", f"{best['lse again'] / best['lse']:.3f} ×")
        line("max_logit beside lse alone", f"{best['max_logit'] / best['lse']:.3f} ×", "as lse")
        line("observed beside itself", f"{best['usual again'] / best['usual']:.3f} ×")
        named = (f"{SPANS} spans, contiguous", f"{SPANS} spans, interleaved", "contribution=8")
        found = ("contiguous", "interleaved", "contribution")
        for what, name, limit in zip(named, found, limits, strict=True):
            line(f"{what} beside observed", f"{best[name] / best['usual']:.3f} ×", f"≤ {limit} ×")


def verify() -> None:
    """Are they what the reference says?"""
    q, k, v = (torch.randn(1, 3, 97, 16) for _ in range(3))
    labels = torch.arange(97) % 5
    see = regard.See(max_logit=True, spans=labels, contribution=8)
    _, seen = regard.attention(q, k, v, causal=True, see=see)
    whole = reference.attention(q.numpy(), k.numpy(), v.numpy(), causal=True)
    norms = np.linalg.norm(v.numpy(), axis=-1)
    truths = (
        (seen.max_logit, reference.max_logit(whole.scaled, whole.allowed)),
        (seen.spans, reference.spans(whole.weights, labels)),
        (seen.contribution, reference.contribution(whole.weights, norms, 8, whole.allowed)[1]),
    )
    for found, truth in truths:
        if found is None or not np.allclose(found.numpy(), truth, atol=1e-5):
            raise SystemExit("bench/seen.py: what was seen is not what the reference says")


if __name__ == "__main__":
    main()
