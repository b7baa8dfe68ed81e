"""Pictures of a head's weights in which every cell is a square block of them, to the edges."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from regard.run.layer import Layer

__all__ = ["blocks", "levels"]


def levels(layer: Layer, size: int = 256) -> int:
    """The level at which a picture of `size` × `size` cells holds all weights of a head.

    >>> import regard
    >>> q = torch.zeros(1, 1, 1000, 2)
    >>> _, seen = regard.attention(q, q, q, see=regard.See())
    >>> levels(Layer("a", seen))
    2
    """
    _, _, n_queries, n_keys = layer.shape
    level = 0
    while max(n_queries, n_keys) > size << level:
        level += 1
    return level


def blocks(
    layer: Layer,
    head: int | None,
    level: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
    reduce: Literal["mean", "max"] = "mean",
) -> Tensor:
    """Blocks [rows) × [columns) of 2^level × 2^level weights: (B, H, …), or (B, …) of one head.

    Exact: each is the mean or the maximum of the weights that it has, which are fewer at the last
    row and column. Needs q and k.

    >>> import regard
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=99.0, see=regard.See())
    >>> layer = Layer("a", seen, regard.run.Options(scale=99.0), q=q, k=q)
    >>> blocks(layer, 0, 1, (0, 2), (0, 2)).tolist()
    [[[0.5, 0.0], [0.0, 1.0]]]
    """
    size = 1 << level
    _, _, n_queries, n_keys = layer.shape
    strips = [
        torch.cat(
            [
                layer.pooled(
                    head,
                    slice(top, bottom),
                    slice(left, right),
                    shape=(max((bottom - top) // size, 1), max((right - left) // size, 1)),
                    reduce=reduce,
                )
                for left, right in _spans(*columns, size, n_keys)
            ],
            dim=-1,
        )
        for top, bottom in _spans(*rows, size, n_queries)
    ]
    return torch.cat(strips, dim=-2)


def _spans(first: int, last: int, size: int, length: int) -> list[tuple[int, int]]:
    """Where whole blocks begin and end, and what is left of one at the end."""
    whole = min(last, length // size)
    spans = [(first * size, whole * size)] if first < whole else []
    if last > whole and whole * size < length:
        spans.append((max(first, whole) * size, length))
    return spans
