"""Two outputs of a model, by the rule that `watch(check=True)` goes by, and bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard._watch import compare
from regard._watch.compare import largest, leaves, mean

__all__ = ["distance", "has_nan", "is_same", "largest", "leaves", "mean"]


def distance(
    found: Any, expected: Any, real: Tensor | None, size: Callable[[Tensor], Tensor] = largest
) -> tuple[float, str]:
    """The size of the difference at real positions relative to that of the numbers there, the worst
    of all tensors of the outputs, and the name of the tensor that has it."""
    known = () if real is None else (real,)
    worst = compare.distance(dict(leaves(found)), dict(leaves(expected)), known, size)
    return worst.apart, worst.name


def is_same(found: Any, expected: Any) -> bool:
    """Bit for bit."""
    ours, theirs = dict(leaves(found)), dict(leaves(expected))
    return ours.keys() == theirs.keys() and all(
        x.shape == ours[name].shape and _bits_equal(ours[name], x) for name, x in theirs.items()
    )


def has_nan(output: Any) -> bool:
    return any(bool(x.isnan().any()) for _, x in leaves(output) if x.is_floating_point())


def _bits_equal(a: Tensor, b: Tensor) -> bool:
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    return bool(((a == b) | (a.isnan() & b.isnan())).all())
