"""What one call of attention is given: tensors that fit together, and options that are in order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["Problem", "Tile"]

# Elements of the scores that are in memory at a time, over all sequences and heads: 16 MB.
_CHUNK = 2**22


@dataclass(frozen=True)
class Tile:
    """Queries [row, row_end) by keys [key, key_end)."""

    row: int
    row_end: int
    key: int
    key_end: int


@dataclass(frozen=True)
class Problem:
    """The arguments of `regard.attention`, checked.

    `mask` and `bias` have four axes, each of full length or of 1; `lengths` is int64. `layout` is
    how the output is to lie in memory: "joined" is (B, Nq, H, Dv), so that joining the heads
    copies nothing, "query" as q does, "contiguous" as its axes are.
    """

    q: Tensor  # (B, H, Nq, D)
    k: Tensor  # (B, Hkv, Nk, D)
    v: Tensor  # (B, Hkv, Nk, Dv)
    causal: bool = False
    left: int | None = None
    right: int | None = None
    position: int | None = None
    mask: Tensor | None = None
    bias: Tensor | None = None
    lengths: Tensor | None = None  # (B,)
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None  # (H,)
    layout: str = "joined"

    @property
    def factor(self) -> float:
        """What Q Kᵀ is multiplied by."""
        return 1.0 / math.sqrt(max(self.q.shape[-1], 1)) if self.scale is None else self.scale

    @property
    def offset(self) -> int:
        """Query i stands at i + offset."""
        return self.k.shape[2] - self.q.shape[2] if self.position is None else self.position

    @property
    def dtype(self) -> torch.dtype:
        """The type in which scores and softmax are computed, and observations are made."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    @property
    def scores_shape(self) -> tuple[int, int, int, int]:
        """(B, H, Nq, Nk)."""
        batch, heads, n_queries, _ = self.q.shape
        return batch, heads, n_queries, self.k.shape[2]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that were given."""
        options = (self.mask, self.bias, self.lengths, self.sinks)
        return (self.q, self.k, self.v, *(x for x in options if x is not None))

    @property
    def has_keys(self) -> bool:
        """Is there any query, and any key?"""
        return 0 not in self.scores_shape

    def promoted(self) -> Problem:
        """The same with everything in the type of the computation, k and v contiguous."""
        dtype = self.dtype
        return replace(
            self,
            q=self.q.to(dtype),
            k=self.k.to(dtype).contiguous(),
            v=self.v.to(dtype).contiguous(),
            sinks=None if self.sinks is None else self.sinks.to(dtype),
        )

    def sequence(self, b: int) -> Problem:
        """Sequence b of the batch alone, its q, k and v in memory of their own."""
        one = slice(b, b + 1)

        def of(x: Tensor | None) -> Tensor | None:
            return x[one] if x is not None and x.shape[0] > 1 else x

        return replace(
            self,
            q=self.q[one].clone(memory_format=torch.contiguous_format),
            k=self.k[one].clone(memory_format=torch.contiguous_format),
            v=self.v[one].clone(memory_format=torch.contiguous_format),
            mask=of(self.mask),
            bias=of(self.bias),
            lengths=None if self.lengths is None else self.lengths[one],
        )

    def reach(self, row: int, row_end: int, key: int, key_end: int) -> Tile:
        """The part of a rectangle that causality and window leave, for any of its queries."""
        first, last = row + self.offset, row_end - 1 + self.offset
        if self.left is not None:
            key = max(key, first - self.left)
        if self.causal:
            key_end = min(key_end, last + 1)
        if self.right is not None:
            key_end = min(key_end, last + self.right + 1)
        return Tile(row, row_end, key, max(key, key_end))

    def tiles(
        self, rows: tuple[int, int] | None = None, keys: tuple[int, int] | None = None
    ) -> Iterator[Tile]:
        """The chunks of a rectangle, or of everything, which hold about `_CHUNK` scores each.

        Chunks in which no query has a key are left out.
        """
        batch, heads, n_queries, n_keys = self.scores_shape
        row, stop = rows or (0, n_queries)
        key, key_end = keys or (0, n_keys)
        budget = _CHUNK // max(batch * heads, 1)
        height = budget // max(key_end - key, 1)
        right = 0 if self.causal else self.right
        if self.left is not None and right is not None:
            # n queries reach n + span keys: the largest n with n · (n + span) ≤ budget.
            span = self.left + right
            height = max(height, (math.isqrt(span * span + 4 * budget) - span) // 2)
        height = max(height, 1)
        for start in range(row, stop, height):
            tile = self.reach(start, min(start + height, stop), key, key_end)
            if tile.key < tile.key_end:
                yield tile
