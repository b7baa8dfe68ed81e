"""Two outputs of a model: how far they lie apart at real positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor


def leaves(output: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of an output with their names, without attentions, and without caches."""
    if isinstance(output, Tensor):
        yield name, output
        return
    if isinstance(output, Mapping):
        items = [(str(key), value) for key, value in output.items()]
    elif isinstance(output, list | tuple):
        items = [(str(n), value) for n, value in enumerate(output)]
    elif is_dataclass(output) and not isinstance(output, type):
        items = [(field.name, getattr(output, field.name, None)) for field in fields(output)]
    else:
        items = []
    for key, value in items:
        if "attentions" not in key:
            yield from leaves(value, f"{name}.{key}" if name else key)


def largest(x: Tensor) -> Tensor:
    return x.abs().max()


def mean(x: Tensor) -> Tensor:
    """The root of the mean square."""
    return x.square().mean().sqrt()


@dataclass(frozen=True)
class Distance:
    """The size of a difference relative to that of the numbers, the tensor that has the largest
    such, its largest difference, where that is, and the numbers there; infinite, if the tensors are
    not alike."""

    apart: float = 0.0
    name: str = ""
    largest: float = 0.0
    at: tuple[int, ...] = ()
    numbers: tuple[float, float] = (0.0, 0.0)


def distance(
    found: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    real: Sequence[Tensor] = (),
    size: Callable[[Tensor], Tensor] = largest,
) -> Distance:
    """How far the tensors of two outputs lie apart, at worst. `real` (B, N) each say which tokens
    of a text are no padding."""
    if found.keys() != expected.keys():
        names = ", ".join(sorted(found.keys() ^ expected.keys()))
        return Distance(math.inf, names, math.inf)
    every = (_apart(name, found[name], x, real, size) for name, x in expected.items())
    return max(every, key=lambda each: each.apart, default=Distance())


def _apart(
    name: str,
    found: Tensor,
    expected: Tensor,
    real: Sequence[Tensor],
    size: Callable[[Tensor], Tensor],
) -> Distance:
    if found.shape != expected.shape:
        return Distance(math.inf, name, math.inf)
    counted = _counted(expected, real).expand(expected.shape)
    a, b = found.detach(), expected.detach()
    if b.is_complex():
        a, b, counted = torch.view_as_real(a), torch.view_as_real(b), counted[..., None]
        counted = counted.expand(b.shape)
    a, b = a.double(), b.double()
    finite = b.isfinite()
    is_same = (a == b) | (a.isnan() & b.isnan()) | (finite & a.isfinite())
    wrong = (counted & ~is_same).nonzero()
    if len(wrong):
        return _at(Distance(math.inf, name, math.inf), wrong[0], a, b)
    counted = counted & finite
    # A model's own −1e9 for what is ruled out would hide all else.
    usual = counted & (b.abs() < 1e6)
    counted = usual if bool(usual.any()) else counted
    if not bool(counted.any()):
        return Distance()
    off = (a - b).masked_fill(~counted, 0.0).abs()
    apart = float(size((a - b)[counted]) / size(b[counted]).clamp(min=1e-6))
    at = np.unravel_index(int(off.argmax()), off.shape)
    return _at(Distance(apart, name, float(off.max())), at, a, b)


def _at(apart: Distance, place: Iterable[Any], a: Tensor, b: Tensor) -> Distance:
    at = tuple(int(x) for x in place)
    return replace(apart, at=at, numbers=(float(a[at]), float(b[at])))


def _counted(x: Tensor, real: Sequence[Tensor]) -> Tensor:
    """Which of x count, as far as its shape says that it holds these tokens: the real ones, if it
    has an axis for them; else those of its sequences that have no padding."""
    counted = torch.ones((1,) * x.dim(), dtype=torch.bool, device=x.device)
    for tokens in (each.to(x.device) for each in real):
        if x.shape[:2] == tokens.shape:
            chosen = tokens
        elif x.dim() >= 3 and (x.shape[0], x.shape[2]) == tuple(tokens.shape):  # (B, heads, N, …)
            chosen = tokens.all(0)[None, None]
        elif x.shape[:2] == tokens.mT.shape:
            chosen = tokens.mT
        elif x.shape[:1] == tokens.shape[:1]:
            chosen = tokens.all(1)
        else:
            continue
        counted = counted & chosen.reshape(*chosen.shape, *(1,) * (x.dim() - chosen.dim()))
    return counted
