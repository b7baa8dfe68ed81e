"""`Levels`: pictures of all weights at one level, from which every coarser one is made."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.run.on_disk import in_memory


@dataclass(frozen=True, eq=False)
class Levels:
    """Blocks of 2^level × 2^level weights, (B, H, R, C), by what was made of them: mean, max.

    `shape` is (queries, keys): the last row and column of blocks may have fewer.
    """

    level: int
    shape: tuple[int, int]
    pictures: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def blocks(
        self, reduce: str, level: int, rows: tuple[int, int], columns: tuple[int, int]
    ) -> Tensor:
        """Blocks [rows) × [columns) of a level that is this one or coarser: (B, H, …).

        >>> levels = Levels(0, (3, 3), {"mean": torch.arange(9.0).view(1, 1, 3, 3)})
        >>> levels.blocks("mean", 1, (0, 2), (0, 2)).tolist()
        [[[[2.0, 3.5], [6.5, 8.0]]]]
        """
        group = 1 << (level - self.level)
        top, left = rows[0] * group, columns[0] * group
        picture = in_memory(
            self.pictures[reduce][..., top : rows[1] * group, left : columns[1] * group]
        )
        if group == 1:
            return picture
        tall = self._sizes(self.shape[0], top, picture.shape[-2]).to(picture)
        wide = self._sizes(self.shape[1], left, picture.shape[-1]).to(picture)
        if reduce == "max":
            return _grouped(_grouped(picture, group, -2).amax(-2), group, -1).amax(-1)
        total = _grouped(picture * tall[:, None] * wide, group, -2).sum(-2)
        total = _grouped(total, group, -1).sum(-1)
        area = _grouped(tall, group, -1).sum(-1)[:, None] * _grouped(wide, group, -1).sum(-1)
        return total / area

    def _sizes(self, length: int, first: int, count: int) -> Tensor:
        """How many weights there are in each of these blocks, along one axis."""
        starts = (torch.arange(count) + first) << self.level
        return (length - starts).clamp(max=1 << self.level)


def _grouped(x: Tensor, group: int, axis: int) -> Tensor:
    """That many neighbours on an axis of their own behind it; the last group is filled with 0."""
    lack = -x.shape[axis] % group
    if lack:
        x = F.pad(x, (0, lack) if axis == -1 else (0, 0, 0, lack))
    return x.unflatten(axis, (-1, group))
