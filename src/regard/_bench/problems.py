"""Inputs of attention, how much work they are, and the calls that are raced on them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard

__all__ = [
    "Eager",
    "Problem",
    "eager",
    "random_problem",
    "rising_problem",
    "sdpa",
    "sdpa_path",
    "see",
    "work",
]


class Problem(NamedTuple):
    """Queries, keys and values (1, H, N, D), contiguous, float32; and whether causal."""

    q: Tensor
    k: Tensor
    v: Tensor
    causal: bool


class Eager(NamedTuple):
    """What eager PyTorch makes of the whole matrix of weights."""

    out: Tensor
    lse: Tensor
    entropy: Tensor
    top_keys: Tensor
    top_weights: Tensor
    map: Tensor
    received: Tensor | None


def random_problem(heads: int, n: int, d: int, causal: bool = False) -> Problem:
    """Normal numbers of variance 1, always the same.

    >>> random_problem(2, 3, 5).q.shape
    torch.Size([1, 2, 3, 5])
    """
    generator = torch.Generator().manual_seed(n * 1000 + d)
    q, k, v = (torch.randn(1, heads, n, d, generator=generator) for _ in range(3))
    return Problem(q, k, v, causal)


def rising_problem(heads: int, n: int, d: int) -> Problem:
    """Scores that rise along every row, so that each key is the strongest so far.

    All keys are alike but for their first number, which rises from −2√d to 2√d; the first number of
    every query is between 1 and 2.

    >>> q, k, _, _ = rising_problem(1, 8, 4)
    >>> bool(((q @ k.mT).diff(dim=-1) > 0).all())
    True
    """
    q, k, v, _ = random_problem(heads, n, d)
    k[:] = k[:, :, :1].clone()
    k[..., 0] = torch.linspace(-2, 2, n) * d**0.5
    q[..., 0] = 1 + q[..., 0].sigmoid()
    return Problem(q, k, v, causal=False)


def work(problem: Problem) -> float:
    """The floating-point operations of both products, half of them where causal.

    >>> work(random_problem(8, 64, 32))
    4194304.0
    """
    _, heads, n, d = problem.q.shape
    return 4.0 * heads * n * n * d / (2 if problem.causal else 1)


def see(shape: tuple[int, int], received: bool = False) -> regard.See:
    """What is observed: lse always, entropy, the eight strongest keys, and the map."""
    return regard.See(entropy=True, top=8, map=shape, received=received)


def sdpa(problem: Problem) -> Tensor:
    """PyTorch's attention, which sees nothing."""
    q, k, v, causal = problem
    return scaled_dot_product_attention(q, k, v, is_causal=causal)


def sdpa_path(problem: Problem) -> str:
    """Which of its kernels PyTorch takes: "flash" is its fast one.

    >>> sdpa_path(random_problem(2, 64, 32))
    'flash'
    """
    q, k, v, causal = problem
    choice = torch.ops.aten._fused_sdp_choice(q, k, v, None, 0.0, causal)
    names = {0: "math", 1: "flash", 2: "efficient"}
    return names.get(int(choice), f"number {int(choice)}")


def eager(problem: Problem, shape: tuple[int, int], received: bool) -> Eager:
    """The same statistics as `see` asks for, as one writes them on the whole matrix of weights.

    N must be a multiple of both sides of the map.
    """
    q, k, v, _ = problem
    scores = (q * q.shape[-1] ** -0.5) @ k.mT  # (1, H, N, N)
    weights = scores.softmax(-1)
    top_weights, top_keys = weights.topk(8)
    bins = weights.unflatten(-1, (shape[1], -1)).sum(-1)
    return Eager(
        out=weights @ v,
        lse=scores.logsumexp(-1),
        entropy=torch.special.entr(weights).sum(-1),
        top_keys=top_keys,
        top_weights=top_weights,
        map=bins.unflatten(-2, (shape[0], -1)).mean(-2),
        received=weights.sum(-2) if received else None,
    )
