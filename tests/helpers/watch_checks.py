"""What a layer of a run says, compared with the full weights that a model reports itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard import Layer, See

_STATISTICS = ("entropy", "top_keys", "top_weights", "map", "received", "distance")

__all__ = ["assert_layer_is"]


def assert_layer_is(
    layer: Layer,
    weights: Tensor,
    queries: Tensor | None = None,
    keys: Tensor | None = None,
    atol: float = 2e-5,
    position: int | None = None,
    see: See | None = None,
) -> None:
    """Every statistic of the layer is that of these weights (B, H, Nq, Nk), at real queries.

    Query i stands at i + position; None: the last one stands at the last key. What `see` asked
    for is there, and nothing else; None asked for everything.
    """
    asked = {name for name in _STATISTICS if see is None or getattr(see, name.split("_")[0])}
    asked -= {"distance"} if layer.cross else set()
    assert {name for name in _STATISTICS if getattr(layer, name) is not None} == asked
    assert bool(layer.shares) != layer.cross
    w = weights.detach().double()
    batch, heads, n_queries, n_keys = w.shape
    assert layer.shape == (batch, heads, n_queries, n_keys)
    real = torch.ones(batch, n_queries, dtype=torch.bool) if queries is None else queries
    rows = real[:, None, :].expand(batch, heads, n_queries)
    if keys is not None:
        w = torch.where(keys[:, None, None, :], w, 0.0)  # eager leaves a rest of exp(−3e38)
    if layer.entropy is not None:
        entropy = -torch.special.xlogy(w, w).sum(-1)
        _close(layer.entropy, entropy, rows, 20 * atol)
    if layer.top_keys is not None and layer.top_weights is not None:
        count = layer.top_keys.shape[-1]
        best = w.sort(-1, descending=True)[0]
        best = torch.nn.functional.pad(best, (0, max(count - n_keys, 0)))[..., :count]
        _close(layer.top_weights, best, rows[..., None], atol)
        named = w.gather(-1, layer.top_keys.clamp(min=0))
        named = torch.where(layer.top_keys >= 0, named, 0.0)
        _close(layer.top_weights, named, rows[..., None], atol)
    if layer.map is not None:
        _close(layer.map, _map(w, real, (layer.map.shape[2], layer.map.shape[3])), None, atol)
    if layer.received is not None:
        received = torch.where(rows[..., None], w, 0.0).sum(2)
        _close(layer.received, received, None, 50 * atol)
    _assert_spread(layer, w, rows, atol)
    first = n_keys - n_queries if position is None else position
    _assert_heads(layer, w, rows, keys, atol, first)


def _assert_spread(layer: Layer, w: Tensor, rows: Tensor, atol: float) -> None:
    allowed = layer.allowed
    assert (allowed >= (w > 1e-7).sum(-1))[rows].all()  # less is a rest of what is shut
    if layer.entropy is None:
        return
    entropy = -torch.special.xlogy(w, w).sum(-1)
    counted = rows & (w.sum(-1) > 0) & (allowed > 1)
    share = torch.where(counted, entropy / allowed.clamp(min=2).double().log(), 0.0)
    spread = share.sum((0, 2)) / counted.sum((0, 2))
    for head, expected, count in zip(layer.heads, spread, counted.sum((0, 2)), strict=True):
        if count:
            assert head.spread is not None
            assert abs(head.spread - expected.item()) <= 20 * atol


def _assert_heads(
    layer: Layer, w: Tensor, rows: Tensor, keys: Tensor | None, atol: float, position: int
) -> None:
    _, heads, n_queries, n_keys = w.shape
    if layer.cross:
        assert layer.distance is None
        assert not layer.shares
        return
    p = torch.arange(n_queries) + position
    if layer.distance is not None:
        distance = (w * (p[:, None] - torch.arange(n_keys)).abs()).sum(-1)
        _close(layer.distance, distance, rows, atol * n_keys * 5)
    if layer.shares:
        itself = w.gather(-1, p.expand(*w.shape[:2], -1)[..., None])[..., 0]
        _close(layer.shares["self"], itself, rows, atol)
        previous = w.gather(-1, (p - 1).clamp(min=0).expand(*w.shape[:2], -1)[..., None])[..., 0]
        exists = rows & (p > 0)
        if keys is not None:
            exists = exists & keys[:, (p - 1).clamp(min=0)][:, None, :]
        _close(layer.shares["previous"], previous, exists, atol)
        assert layer.shares["previous"][~exists & rows].isnan().all()
        first = torch.zeros(len(w), dtype=torch.int64)
        if keys is not None:
            first = keys.int().argmax(1)
        chosen = w.gather(-1, first[:, None, None, None].expand(-1, heads, n_queries, 1))[..., 0]
        _close(layer.shares["first"], chosen, rows, atol)
        means = torch.where(rows, itself, 0.0).sum((0, 2)) / rows.sum((0, 2))
        found = [head.self_ for head in layer.heads]
        torch.testing.assert_close(
            torch.tensor(found, dtype=torch.float64), means, atol=atol, rtol=0
        )


def _map(w: Tensor, real: Tensor, shape: tuple[int, int]) -> Tensor:
    batch, heads, n_queries, n_keys = w.shape
    r, c = shape
    row = torch.arange(n_queries) * r // n_queries
    column = torch.arange(n_keys) * c // n_keys
    columns = torch.zeros(batch, heads, n_queries, c, dtype=w.dtype)
    columns.index_add_(3, column, w)
    counted = real[:, None, :] & (w.sum(-1) > 0)
    columns = torch.where(counted[..., None], columns, 0.0)
    sums = torch.zeros(batch, heads, r, c, dtype=w.dtype).index_add_(2, row, columns)
    counts = torch.zeros(batch, heads, r, dtype=w.dtype)
    counts.index_add_(2, row, counted.to(w.dtype))
    return sums / counts.clamp(min=1)[..., None]


def _close(found: Tensor, expected: Tensor, where: Tensor | None, atol: float) -> None:
    found, expected = found.double(), expected.double()
    assert found.shape == expected.shape
    difference = (found - expected).abs()
    if where is not None:
        difference = torch.where(where, difference, 0.0)
    worst = difference.max().item() if difference.numel() else 0.0
    assert not math.isnan(worst)
    assert worst <= atol, worst
