"""Pictures of a head's weights in which every cell is a square block of them, to the edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from regard._wanted import still_wanted
from regard.run.layer import Layer
from regard.run.levels import Levels

Reduce = Literal["mean", "max"]
# The finest level that is kept: a tile of a finer one has at most 4,096 × 4,096 weights, which are
# computed while a reader hardly waits.
UPPER = 5
_WEIGHTS = 2**27  # that are computed at a time: some tenths of a second


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
    reduce: Reduce = "mean",
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
    kept = layer.levels
    if kept is not None and level >= kept.level and reduce in kept.pictures:
        found = kept.blocks(reduce, level, rows, columns)
        return found if head is None else found[:, head]
    size = 1 << level
    _, _, n_queries, n_keys = layer.shape
    across = _spans(*columns, size, n_keys)
    width = sum(right - left for left, right in across)
    height = max(_WEIGHTS // (size * max(width, 1)), 1)  # in blocks
    strips: list[Tensor] = []
    for first in range(*rows, height):
        for top, bottom in _spans(first, min(first + height, rows[1]), size, n_queries):
            still_wanted()
            parts = [
                layer.pooled(
                    head,
                    slice(top, bottom),
                    slice(left, right),
                    shape=(max((bottom - top) // size, 1), max((right - left) // size, 1)),
                    reduce=reduce,
                )
                for left, right in across
            ]
            strips.append(torch.cat(parts, dim=-1))
    return torch.cat(strips, dim=-2)


def build_levels(
    layer: Layer,
    reduces: Sequence[Reduce] = ("mean",),
    tell: Callable[[int], None] | None = None,
) -> Layer:
    """The layer with pictures of its upper levels, so that a map of all of it is there at once.

    A text of up to 4,096 tokens needs none. `tell` is called with the number of every head that is
    done, and may raise.

    >>> import regard
    >>> q = torch.zeros(1, 1, 9000, 2)
    >>> _, seen = regard.attention(q, q, q, see=regard.See())
    >>> layer = build_levels(Layer("a", seen, q=q, k=q))
    >>> layer.levels.level, tuple(layer.levels.pictures["mean"].shape)
    (5, (1, 1, 282, 282))
    """
    if levels(layer) < UPPER:
        return layer
    rows, columns = (-(-n >> UPPER) for n in layer.shape[2:])
    pictures: dict[str, list[Tensor]] = {reduce: [] for reduce in reduces}
    for head in range(layer.shape[1]):
        for reduce in reduces:
            pictures[reduce].append(blocks(layer, head, UPPER, (0, rows), (0, columns), reduce))
        if tell is not None:
            tell(head)
    stacked = {reduce: torch.stack(heads, dim=1) for reduce, heads in pictures.items()}
    return replace(layer, levels=Levels(UPPER, layer.shape[2:], stacked))


def _spans(first: int, last: int, size: int, length: int) -> list[tuple[int, int]]:
    """Where whole blocks begin and end, and what is left of one at the end."""
    whole = min(last, length // size)
    spans = [(first * size, whole * size)] if first < whole else []
    if last > whole and whole * size < length:
        spans.append((max(first, whole) * size, length))
    return spans
