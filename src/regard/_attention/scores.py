"""The scores of one tile, and the weights that they make: what the torch backend is built of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard._attention.problem import Problem, Tile

__all__ = ["Scores", "Weights", "all_finite", "grouped", "score", "soften", "weigh"]

_NEGATIVE = float("-inf")


@dataclass
class Scores:
    """The scores of a tile, (B, H, n, m): scaled, capped, biased, −inf where barred.

    A score is −inf only where the query may not attend to the key: any other infinity is a NaN.
    """

    values: Tensor
    barred: list[Tensor]  # True where a query may not attend; each broadcasts to `values`
    queries: Tensor  # (B, Hkv, G·n, D), times the scale
    capped: Tensor | None  # what softcap made, before bias

    def bar(self, x: Tensor, value: float = 0.0) -> Tensor:
        """Put `value` in place wherever a query may not attend to a key."""
        for barred in self.barred:
            x.masked_fill_(barred, value)
        return x


@dataclass
class Weights:
    """The weights of a tile that holds all keys of its queries."""

    values: Tensor  # (B, H, n, m)
    lse: Tensor  # (B, H, n)
    has_key: Tensor  # (B, H, n)
    sink: Tensor | None  # (B, H, n), the sink's weight


def grouped(x: Tensor, kv_heads: int) -> Tensor:
    """(B, H, n, ·) as (B, Hkv, G·n, ·): the query heads that share a key head, in one matrix."""
    batch, heads, rows, columns = x.shape
    return x.reshape(batch, kv_heads, heads // kv_heads * rows, columns)


def all_finite(x: Tensor) -> bool:
    """Is there neither a NaN nor an infinity? May say no when the sum alone overflows."""
    return bool(torch.isfinite(x.sum()))


def score(
    problem: Problem,
    tile: Tile,
    *,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
    keep_capped: bool = False,
) -> Scores:
    """The scores of a tile of a promoted problem."""
    batch, heads, _, _ = problem.scores_shape
    rows, keys = slice(tile.row, tile.row_end), slice(tile.key, tile.key_end)
    queries = grouped(problem.q[:, :, rows] * problem.factor, problem.k.shape[1])
    values = multiply(queries, problem.k[:, :, keys].transpose(-1, -2))
    values = values.view(batch, heads, tile.row_end - tile.row, tile.key_end - tile.key)
    if not all_finite(values):
        _spoil(values, queries, problem.k[:, :, keys])
    capped = None
    if problem.softcap is not None:
        values.div_(problem.softcap).tanh_().mul_(problem.softcap)
        capped = values.clone() if keep_capped else None
    barred = _barred(problem, tile)
    if problem.bias is not None:
        bias = _part(problem.bias, rows, keys).to(values.dtype)
        values.add_(bias)
        barred.append(bias == _NEGATIVE)
    scores = Scores(values, barred, queries, capped)
    scores.bar(values, _NEGATIVE)
    return scores


def _spoil(values: Tensor, queries: Tensor, k: Tensor) -> None:
    """Make NaN of every score that something not finite had a part in, or that became too large.

    What merely became too small is the smallest number: its weight is 0 beside any other.
    """
    spoilt = ~torch.isfinite(queries).all(-1)[..., None] | ~torch.isfinite(k).all(-1)[:, :, None]
    values.masked_fill_(values == _NEGATIVE, torch.finfo(values.dtype).min)
    values.masked_fill_(~torch.isfinite(values), torch.nan)
    values.view(spoilt.shape).masked_fill_(spoilt, torch.nan)


def _barred(problem: Problem, tile: Tile) -> list[Tensor]:
    """Where position, mask and lengths forbid to attend."""
    rows, keys = slice(tile.row, tile.row_end), slice(tile.key, tile.key_end)
    device = problem.q.device
    key = torch.arange(tile.key, tile.key_end, device=device)
    barred: list[Tensor] = []
    if problem.causal or problem.left is not None or problem.right is not None:
        first, last = tile.row + problem.offset, tile.row_end + problem.offset
        position = torch.arange(first, last, device=device)[:, None]  # p, beside j: (n, m)
        if problem.causal:
            barred.append(key > position)
        if problem.left is not None:
            barred.append(key < position - problem.left)
        if problem.right is not None:
            barred.append(key > position + problem.right)
    if problem.mask is not None:
        barred.append(~_part(problem.mask, rows, keys))
    if problem.lengths is not None:
        barred.append(key >= problem.lengths[:, None, None, None])
    return barred


def _part(x: Tensor, rows: slice, keys: slice) -> Tensor:
    """The rows and keys of something whose axes may be of length 1, for all alike."""
    x = x[:, :, rows] if x.shape[2] > 1 else x
    return x[..., keys] if x.shape[3] > 1 else x


def soften(scores: Scores, sinks: Tensor | None) -> Weights:
    """Softmax over the keys of the tile, which must be all that its queries have.

    It is done in place of the scores. A query without a key gets weights 0 and lse −inf.
    """
    values = scores.values
    largest = values.amax(-1, keepdim=True)
    has_key = largest != _NEGATIVE
    if sinks is not None:
        largest = torch.maximum(largest, sinks[:, None, None])
    largest = largest.masked_fill(largest == _NEGATIVE, 0.0)
    total = values.sub_(largest).exp_().sum(-1, keepdim=True)
    sink = None
    if sinks is not None:
        sink = torch.exp(sinks[:, None, None] - largest)
        total = total + sink
        sink = (sink / total)[..., 0]
    lse = (largest + total.log()).masked_fill_(~has_key, _NEGATIVE)
    values.div_(total.masked_fill(total == 0, 1.0))
    if not all_finite(total):
        scores.bar(values)
    return Weights(values, lse[..., 0], has_key[..., 0], sink)


def weigh(scores: Scores, lse: Tensor) -> Tensor:
    """The weights of a tile, in place of the scores, from the lse (B, H, n) of the whole rows."""
    lse = lse.masked_fill(lse == _NEGATIVE, 0.0)[..., None]
    weights = scores.values.sub_(lse).exp_()
    if not all_finite(weights):
        scores.bar(weights)
    return weights
