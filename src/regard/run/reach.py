"""How many keys a query may attend to: by position, padding, mask and bias."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from regard.run.layer import Layer

__all__ = ["count", "is_open", "row_chunks"]

_CELLS = 2**22  # of a mask that are looked at together
_FAR = -1e8  # what is added to a score to shut it out, at most: exp of it is 0


def is_open(x: Tensor) -> Tensor:
    """Of a mask, or of what is added to scores: where a key may be attended to.

    What adds −inf, the least number of its type or nearly so, or −1e8 and less, shuts.

    >>> is_open(torch.tensor([0.0, -1e9, -math.inf, -3.4e38, -7.0])).tolist()
    [True, False, False, False, True]
    """
    if x.dtype == torch.bool:
        return x
    return (x <= max(torch.finfo(x.dtype).min / 2, _FAR)).logical_not_()


def row_chunks(n_queries: int, width: int) -> Iterator[slice]:
    """Rows that have few enough cells together, `width` being those of one.

    >>> list(row_chunks(5, 2**21))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    height = max(_CELLS // max(width, 1), 1)
    for start in range(0, n_queries, height):
        yield slice(start, min(start + height, n_queries))


def count(layer: Layer) -> Tensor:
    """(B, H, Nq): what `Layer.allowed` says."""
    batch, heads, n_queries, n_keys = layer.shape
    options, device = layer.options, layer.lse.device
    real = torch.ones((1, 1, n_keys), dtype=torch.bool, device=device)
    if layer.keys is not None:
        real = real & layer.keys[:, None]
    if options.lengths is not None:
        within = torch.arange(n_keys, device=device) < options.lengths[:, None]
        real = real & within[:, None]
    parts = [_four_axes(x) for x in (options.mask, options.bias) if x is not None]
    for x in parts:
        if x.shape[2] == 1 and x.dtype == torch.bool:
            real = real & x[:, :, 0]
    by_row = [x for x in parts if x.shape[2] > 1 or x.dtype != torch.bool]
    low, high = _bounds(layer)
    if by_row:
        rows = _count_rows(real, by_row, low, high)
    else:
        real = real.expand(real.shape[0], real.shape[1], n_keys)
        before = torch.nn.functional.pad(real.long().cumsum(-1), (1, 0))  # real keys before each
        rows = (before[..., high] - before[..., low]).clamp(min=0)
    return rows.expand(batch, heads, n_queries)


def _bounds(layer: Layer) -> tuple[Tensor, Tensor]:
    """(Nq,) each: the first key in reach of a query, and the one behind the last."""
    _, _, n_queries, n_keys = layer.shape
    options = layer.options
    p = torch.arange(n_queries, device=layer.lse.device)
    p = p + (n_keys - n_queries if options.position is None else options.position)
    left, right = options.window or (None, None)
    if options.causal:
        right = 0 if right is None else min(right, 0)
    low = torch.zeros_like(p) if left is None else p - left
    high = torch.full_like(p, n_keys) if right is None else p + right + 1
    return low.clamp(0, n_keys), high.clamp(0, n_keys)


def _count_rows(real: Tensor, parts: list[Tensor], low: Tensor, high: Tensor) -> Tensor:
    """The same with masks that differ from query to query, some rows at a time."""
    n_keys = real.shape[-1]
    key = torch.arange(n_keys, device=real.device)
    lead = torch.broadcast_shapes(real.shape[:2], *(x.shape[:2] for x in parts))
    found: list[Tensor] = []
    for rows in row_chunks(len(low), math.prod(lead) * n_keys):
        reach = (key >= low[rows, None]) & (key < high[rows, None])
        allowed = real[:, :, None] & reach
        biases: list[Tensor] = []
        for x in parts:
            some = x if x.shape[2] == 1 else x[:, :, rows]
            if some.dtype == torch.bool:
                allowed = allowed & some
            else:
                biases.append(some)
        for some in biases:
            # A row that is shut by finite numbers only is as open as before: all are equal.
            shut = allowed & is_open(some)
            dead = ~shut.any(-1, keepdim=True)
            allowed = shut | (dead & allowed & (some > -math.inf))
        found.append(allowed.expand(*lead, -1, n_keys).sum(-1))
    return torch.cat(found, 2) if found else real.new_zeros((*lead, 0), dtype=torch.int64)


def _four_axes(x: Tensor) -> Tensor:
    return x.detach()[(None,) * (4 - x.dim())]
