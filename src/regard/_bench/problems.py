"""What is raced: inputs of attention, and the calls of Regard and PyTorch on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard
from regard._bench.machine import NotMeasured, available_memory
from regard._bench.results import Cell

Call = Callable[[], object]

SEE = regard.See(entropy=True, top=8, map=(128, 128))  # what is observed
_PIXELS = (256, 256)  # of a pooled picture
_COPIES = 6  # of the matrix of weights: more than the eager computation holds at once


class Problem(NamedTuple):
    """Queries, keys and values (1, H, N, D), contiguous, float32; and whether causal."""

    q: Tensor
    k: Tensor
    v: Tensor
    causal: bool


def random_problem(heads: int, n: int, d: int, causal: bool = False) -> Problem:
    """Normal numbers of variance 1, always the same."""
    generator = torch.Generator().manual_seed(n * 1000 + d)
    q, k, v = (torch.randn(1, heads, n, d, generator=generator) for _ in range(3))
    return Problem(q, k, v, causal)


def rising_problem(heads: int, n: int, d: int) -> Problem:
    """Scores that rise along every row, so that each key is the strongest so far.

    All keys are alike but for their first number, which rises from −2√d to 2√d; the first number of
    every query is between 1 and 2.
    """
    q, k, v, _ = random_problem(heads, n, d)
    k[:] = k[:, :, :1].clone()
    k[..., 0] = torch.linspace(-2, 2, n) * d**0.5
    q[..., 0] = 1 + q[..., 0].sigmoid()
    return Problem(q, k, v, causal=False)


def contestants(cell: Cell, problem: Problem) -> dict[str, Call]:
    """What is raced by name; `… again` is the same call, raced against itself."""
    q, k, v, causal = problem
    if cell.section == "tiles":
        _, seen = regard.attention(q, k, v, see=regard.See())
        picture = partial(regard.pooled, q, k, shape=_PIXELS, lse=seen.lse)
        mean = partial(picture, reduce="mean")
        return {"mean": mean, "maximum": partial(picture, reduce="max"), "mean again": mean}
    plain, peer = partial(regard.attention, q, k, v, causal=causal), partial(sdpa, problem)
    if cell.section in ("forward", "calls"):
        return {"sdpa": peer, "regard": plain, "sdpa again": peer}
    see_received = replace(SEE, received=True)
    observed, received = partial(plain, see=SEE), partial(plain, see=see_received)
    if cell.section == "eager":
        needed = _COPIES * 4 * cell.heads * cell.n**2
        if (available := available_memory()) is not None and available < needed:
            raise NotMeasured(
                f"eager PyTorch at N = {cell.n:,} needs up to {needed / 1e9:.1f} GB, and "
                f"{available / 1e9:.1f} are free."
            )
        blind = partial(eager, problem, SEE)
        also = {"eager with received": partial(eager, problem, see_received), "received": received}
        return {"eager": blind, "observed": observed, **also, "eager again": blind}
    raced: dict[str, Call] = {"plain": plain, "observed": observed, "sdpa": peer}
    return raced | {"plain again": plain} | ({"received": received} if cell.received else {})


# ── the peers ─────────────────────────────────────────────────────────────────────────────────


def sdpa(problem: Problem) -> Tensor:
    """PyTorch's attention, which sees nothing."""
    q, k, v, causal = problem
    return scaled_dot_product_attention(q, k, v, is_causal=causal)


def sdpa_path(problem: Problem) -> str:
    """Which of its kernels PyTorch takes: "flash" is its fast one."""
    q, k, v, causal = problem
    choice = int(torch.ops.aten._fused_sdp_choice(q, k, v, None, 0.0, causal))
    return {0: "math", 1: "flash", 2: "efficient"}.get(choice, f"number {choice}")


def eager(problem: Problem, see: regard.See) -> tuple[Tensor, regard.Observation]:
    """Entropy, strongest keys, map and received, as one writes them on the whole N × N weights.

    Not causal. N must be a multiple of both sides of the map.
    """
    assert see.map is not None
    q, k, v, _ = problem
    scores = (q * q.shape[-1] ** -0.5) @ k.mT  # (1, H, N, N)
    weights = scores.softmax(-1)
    top_weights, top_keys = weights.topk(see.top)
    bins = weights.unflatten(-1, (see.map[1], -1)).sum(-1)
    seen = regard.Observation(
        lse=scores.logsumexp(-1),
        entropy=torch.special.entr(weights).sum(-1),
        top_keys=top_keys,
        top_weights=top_weights,
        map=bins.unflatten(-2, (see.map[0], -1)).mean(-2),
        received=weights.sum(-2) if see.received else None,
    )
    return weights @ v, seen
