"""Pictures of a head's weights: square blocks of them at any level, and small maps of them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard._wanted import still_wanted
from regard.run.on_disk import in_memory

if TYPE_CHECKING:
    from regard.run.layer import Layer

Reduce = Literal["mean", "max"]
# The finest level that is kept: a tile of a finer one has at most 4,096 × 4,096 weights, which are
# computed while a reader hardly waits.
UPPER = 5
_WEIGHTS = 2**27  # that are computed at a time: some tenths of a second
_MAP = 64  # cells of a small map, in height and in width


@dataclass(frozen=True, eq=False)
class Levels:
    """Blocks of 2^level × 2^level weights, (B, H, R, C), by what was made of them: mean, max.

    The last row and column of blocks may have fewer.
    """

    level: int
    pictures: dict[str, Tensor] = field(default_factory=dict[str, Tensor])


def levels(layer: Layer, size: int = 256) -> int:
    """The level at which a picture of `size` × `size` cells holds all weights of a head."""
    level = 0
    while max(layer.shape[2:]) > size << level:
        level += 1
    return level


def blocks(
    layer: Layer,
    head: int | None,
    level: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
    reduce: Reduce = "mean",
    *,
    sequence: int | None = None,
) -> Tensor:
    """Blocks [rows) × [columns) of 2^level × 2^level weights: (B, H, …), without B of one sequence,
    without H of one head.

    Exact: each is the mean or the maximum of the weights that it has, which are fewer at the last
    row and column. Needs q and k.

    >>> import regard
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=99.0, see=regard.See())
    >>> layer = regard.run.Layer("a", seen, regard.run.Options(scale=99.0), q=q, k=q)
    >>> blocks(layer, 0, 1, (0, 2), (0, 2), sequence=0).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    kept = layer.levels
    if kept is not None and level >= kept.level and reduce in kept.pictures:
        b, h = (slice(None) if one is None else one for one in (sequence, head))
        picture, finer = kept.pictures[reduce][b, h], kept.level
        return _coarser(picture, layer.shape[2:], finer, level, rows, columns, reduce)
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
                    sequence=sequence,
                )
                for left, right in across
            ]
            strips.append(torch.cat(parts, dim=-1))
    return torch.cat(strips, dim=-2)


def _spans(first: int, last: int, size: int, length: int) -> list[tuple[int, int]]:
    """Where whole blocks begin and end, and what is left of one at the end."""
    whole = min(last, length // size)
    spans = [(first * size, whole * size)] if first < whole else []
    if last > whole and whole * size < length:
        spans.append((max(first, whole) * size, length))
    return spans


def _coarser(
    picture: Tensor,
    lengths: tuple[int, int],
    finer: int,
    level: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
    reduce: Reduce,
) -> Tensor:
    """The blocks from the picture of a finer level, or the same, of so many queries and keys."""
    group = min(1 << (level - finer), max(lengths))
    top, left = rows[0] * group, columns[0] * group
    picture = in_memory(picture[..., top : rows[1] * group, left : columns[1] * group])
    if group == 1:
        return picture
    flat = picture.reshape(-1, *picture.shape[-2:])
    if reduce == "max":
        found = F.max_pool2d(flat, group, ceil_mode=True)
    else:
        # How many weights there are in each block, along either axis.
        tall, wide = (
            block_sizes(length, finer, first, count).to(picture)
            for length, first, count in zip(lengths, (top, left), flat.shape[1:], strict=True)
        )
        counts = tall[:, None] * wide
        totals = torch.cat([flat * counts, counts[None]])
        totals = F.avg_pool2d(totals, group, ceil_mode=True, divisor_override=1)
        found = totals[:-1] / totals[-1]
    return found.reshape(*picture.shape[:-2], *found.shape[1:])


def block_sizes(length: int, level: int, first: int, count: int) -> Tensor:
    """How many places there are in blocks of an axis, which has fewer in its last one."""
    return (length - ((torch.arange(count) + first) << level)).clamp(max=1 << level)


def build_levels(layer: Layer, reduces: Sequence[Reduce] = ("mean",)) -> Layer:
    """The layer with pictures of its upper levels, so that a map of all of it is there at once.

    A text of up to 4,096 tokens needs none.
    """
    if levels(layer) < UPPER:
        return layer
    rows, columns = ((0, -(-n >> UPPER)) for n in layer.shape[2:])
    pictures: dict[str, Tensor] = {}
    for reduce in reduces:
        heads = range(layer.shape[1])
        by_head = [blocks(layer, head, UPPER, rows, columns, reduce) for head in heads]
        pictures[reduce] = torch.stack(by_head, dim=1)
    return replace(layer, levels=Levels(UPPER, pictures))


def shares(
    layer: Layer,
    shape: tuple[int, int],
    head: int | None = None,
    queries: slice = slice(None),
    keys: slice = slice(None),
    *,
    sequence: int | None = None,
) -> Tensor:
    """(B, H, *shape), as `blocks`: the mean over the queries of a row of their weight on all keys
    of a column, so that a row sums to 1. Of at most as many rows and columns as queries and keys.
    """
    picture = layer.pooled(head, queries, keys, shape, sequence=sequence)
    n_keys = len(range(*keys.indices(layer.shape[3])))
    return picture * torch.bincount(torch.arange(n_keys) * shape[1] // n_keys).to(picture)


def small_map(
    layer: Layer, head: int | None = None, *, sequence: int | None = None
) -> Tensor | None:
    """`shares` of 64 × 64 cells at most, or what was recorded as such; None: it cannot be had."""
    if layer.map is not None and max(layer.map.shape[2:]) <= 2 * _MAP:
        b, h = (slice(None) if one is None else one for one in (sequence, head))
        return layer.map[b, h]
    rows, columns = (min(_MAP, n) for n in layer.shape[2:])
    if not layer.has_weights or not rows or not columns:
        return None
    return shares(layer, (rows, columns), head, sequence=sequence)
