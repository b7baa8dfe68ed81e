"""A norm whose scale is held: what is left of it is linear, and can be told part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class HeldNorm:
    """y = gain ⊙ x + shift, or gain ⊙ (x − mean(x)) + shift: a norm as it was for one vector.

    `gain` is γ / √(variance + ε), or γ / √(mean(x²) + ε), with the numbers of that vector; so are
    both (width,), in float64.
    """

    gain: Tensor
    shift: Tensor
    is_centred: bool

    def back(self, direction: Tensor) -> tuple[Tensor, float]:
        """(u, c) with direction · y = u · x + c for every x, u being (width,).

        >>> norm = HeldNorm(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 0.0]), True)
        >>> norm.back(torch.tensor([1.0, 1.0]))
        (tensor([-1.,  1.]), 1.0)
        """
        u = direction * self.gain
        u = u - u.mean() if self.is_centred else u
        return u, float(direction @ self.shift)


def held(norm: nn.Module | None, x: Tensor, y: Tensor, tolerance: float) -> HeldNorm | None:
    """The norm as it was for x (width,), of which it made y (width,); None if it is no such norm.

    Which one it is, with a mean or without, γ as it is or as what is added to 1, is told by its
    numbers: the one that makes y of x, within the tolerance of y's length. No norm is one that
    leaves x as it is.

    >>> x = torch.tensor([1.0, 3.0]).double()
    >>> found = held(nn.LayerNorm(2), x, torch.tensor([-1.0, 1.0]).double(), 1e-6)
    >>> found.gain.tolist(), found.is_centred
    ([1.0, 1.0], True)
    """
    x, y = x.double(), y.double()
    if norm is None:
        return HeldNorm(torch.ones_like(x), torch.zeros_like(x), False)
    module: Any = norm
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    gamma = torch.ones_like(x) if weight is None else weight.detach().double()
    shift = torch.zeros_like(x) if bias is None else bias.detach().double()
    if gamma.shape != x.shape or shift.shape != x.shape:
        return None
    best, least = None, tolerance
    for is_centred in (False, True):
        for added in (0.0, 1.0):
            made = (x - x.mean() if is_centred else x) * (gamma + added)
            length = float(made @ made)
            if length == 0.0:
                continue
            scale = float(made @ (y - shift)) / length
            away = float((y - shift - scale * made).norm() / (y - shift).norm())
            if away <= least:
                best, least = HeldNorm((gamma + added) * scale, shift, is_centred), away
    return best
