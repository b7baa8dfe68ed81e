"""Is weights · V what a model computed? As near as rounding lets it be."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from regard.reference import Array


class Rounding(NamedTuple):
    """How far a model's output is from the truth, and how far rounding takes it at most."""

    difference: float
    limit: float

    @property
    def is_enough(self) -> bool:
        return self.difference <= self.limit

    def __str__(self) -> str:
        found, most = (f"{number:.1e}".replace("-", "−") for number in self)
        return f"{found}, and rounding explains {most} at most"


def within(difference: float) -> str:
    """A power of ten, as the last bits are others on other machines.

    >>> within(3e-8), within(0.0)
    ('1e−07', 'rounding')
    """
    return f"1e−{-math.ceil(math.log10(difference)):02}" if 0 < difference < 1 else "rounding"


def rounding(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    scaled: Array,
    truth: Array,
    divisor: float,
    bias: Tensor | None = None,
) -> Rounding:
    """How far an output is from the truth, and how far rounding may take it.

    That is twice as far as PyTorch's own plain computation is, and a few last bits.
    q (H, Nq, D), k (Hkv, Nk, D), v (Hkv, Nk, Dv), output (H, Nq, Dv). `scaled` (H, Nq, Nk), −∞
    where a query may not look, and `truth` (H, Nq, Dv) follow from them in float64.

    >>> from regard import reference
    >>> x = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> step = reference.attention(x.numpy(), x.numpy(), x.numpy())
    >>> output = torch.from_numpy(step.output)
    >>> difference, limit = rounding(x, x, x, output, step.scaled, step.output, 2**0.5)
    >>> difference <= limit < 1e-6
    True
    """
    shared = len(q) // len(k)
    k, v = (x.repeat_interleave(shared, 0) if shared > 1 else x for x in (k, v))
    logits, exact = (torch.from_numpy(x).to(q.device) for x in (scaled, truth))
    masked = logits == -math.inf
    scores = q @ k.transpose(-1, -2) / divisor
    scores = scores if bias is None else scores + bias
    eager = scores.masked_fill(masked, -math.inf).softmax(-1).nan_to_num(0.0) @ v
    seen = logits[~masked]
    # However small the scores are, weights of about 1 / N times V have last bits of V's size.
    largest = max(1.0, float(seen.abs().max())) * float(v.abs().max()) if seen.numel() else 0.0
    bits = torch.finfo(q.dtype).eps / 2
    limit = 2 * float((eager - exact).abs().max()) + 4 * bits * largest
    return Rounding(float((output - exact).abs().max()), limit)
