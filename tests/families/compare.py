"""Two outputs of a model: how far they lie apart at real positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def leaves(output: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of an output with their names, without attentions, and without caches."""
    if isinstance(output, Tensor):
        yield name, output
    elif isinstance(output, dict):
        for key, value in output.items():
            if "attentions" not in str(key):
                yield from leaves(value, f"{name}.{key}" if name else str(key))
    elif isinstance(output, list | tuple):
        for n, value in enumerate(output):
            yield from leaves(value, f"{name}.{n}" if name else str(n))


def largest(x: Tensor) -> Tensor:
    return x.abs().max()


def mean(x: Tensor) -> Tensor:
    """The root of the mean square."""
    return x.square().mean().sqrt()


def distance(
    found: Any, expected: Any, real: Tensor | None, size: Callable[[Tensor], Tensor] = largest
) -> tuple[float, str]:
    """The size of the difference at real positions relative to that of the numbers there, the worst
    of all tensors of the outputs, and the name of the tensor that has it."""
    ours, theirs = dict(leaves(found)), dict(leaves(expected))
    if ours.keys() != theirs.keys():
        return math.inf, f"has {sorted(ours.keys() ^ theirs.keys())}, or has not"
    worst, where = 0.0, ""
    for name, x in theirs.items():
        apart = _apart(ours[name], x, real, size)
        if apart > worst:
            worst, where = apart, name
    return worst, where


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


def _apart(
    found: Tensor, expected: Tensor, real: Tensor | None, size: Callable[[Tensor], Tensor]
) -> float:
    if found.shape != expected.shape:
        return math.inf
    chosen = ... if real is None else _chosen(expected, real)
    a, b = found.detach()[chosen].double(), expected.detach()[chosen].double()
    if not b.numel():
        return 0.0
    finite = b.isfinite()
    if not bool((a.isfinite() == finite).all()):
        return math.inf
    a, b = a[finite], b[finite]
    # A model's own −1e9 for what is ruled out would hide all else.
    usual = b.abs() < 1e6
    a, b = (a[usual], b[usual]) if bool(usual.any()) else (a, b)
    if not b.numel():
        return 0.0
    return float(size(a - b) / size(b).clamp(min=1e-6))


def _chosen(x: Tensor, real: Tensor) -> Any:
    """Which of x, whose sequences are padded as `real` (B, N) says: its real tokens, if it has an
    axis for them; else those of its sequences that have no padding."""
    if x.shape[:2] == real.shape:
        return real
    if x.dim() >= 3 and (x.shape[0], x.shape[2]) == tuple(real.shape):  # (B, heads, N, …)
        return (slice(None), slice(None), real.all(0))
    if x.shape[:1] == real.shape[:1]:
        return real.all(1)
    return ...
