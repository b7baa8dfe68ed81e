"""`Options`: how attention is to be computed, and which keys a query may attend to.

Beside `regard.reference` and the kernel, no other file knows that, or where a query stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import torch
from torch import Tensor

from regard._attention.eager import is_surely

Window = tuple[int | None, int | None]
Position = TypeVar("Position", int, Tensor)

_CELLS = 2**22  # of a mask that are looked at together
_FAR = -1e8  # what is added to a score to forbid a key, at most: exp of it is 0


@dataclass(frozen=True, eq=False)
class Options:
    """The options of `regard.attention`.

    Query i stands at p = i + `position`, which is Nk − Nq unless given, or where its segment says,
    and key j at j. `mask` and `bias` broadcast to (B, H, Nq, Nk), and so do `segments` and
    `indices` on the axes that they have.
    """

    causal: bool = False
    window: Window | None = None
    mask: Tensor | None = None
    bias: Tensor | None = None
    lengths: Tensor | None = None  # (B,)
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None  # (H,)
    position: int | None = None
    segments: Tensor | None = None  # (B, Nq, 3): the keys [first, end), and p
    indices: Tensor | None = None  # (B, H, Nq, K): the keys that are chosen, ascending; −1: none

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments.

        >>> Options(causal=True).arguments()["causal"]
        True
        """
        return dict(vars(self))

    def factor(self, width: int) -> float:
        """What Q Kᵀ is multiplied by, if queries are so wide."""
        return 1.0 / math.sqrt(max(width, 1)) if self.scale is None else self.scale

    def scores(self, dots: Tensor, width: int, bias: Tensor | None) -> Tensor:
        """q · k, if queries are so wide, scaled and capped, and with a bias of that shape."""
        scores = dots * self.factor(width)
        if self.softcap is not None:
            scores = self.softcap * (scores / self.softcap).tanh()
        return scores if bias is None else scores + bias.to(scores.dtype)

    # ── which keys ────────────────────────────────────────────────────────────────────────────

    def offset(self, n_queries: int, n_keys: int) -> int:
        """Where query 0 stands.

        >>> Options().offset(2, 5), Options(position=1).offset(2, 5)
        (3, 1)
        """
        return n_keys - n_queries if self.position is None else self.position

    def places(self, rows: slice, n_queries: int, n_keys: int, device: torch.device) -> Tensor:
        """Where queries stand, (n,) or, by their segments, (1 or B, 1, n).

        >>> Options().places(slice(0, 2), 3, 7, torch.device("cpu"))
        tensor([4, 5])
        """
        if self.segments is not None:
            return self.segments[:, None, rows, 2]
        offset = self.offset(n_queries, n_keys)
        return torch.arange(rows.start + offset, rows.stop + offset, device=device)

    def bounds(self, first: Position, last: Position) -> tuple[Position | None, Position | None]:
        """[low, high): the keys that queries standing from `first` to `last` may attend to by
        causality and window; None is unbounded.

        >>> Options(causal=True, window=(2, None)).bounds(10, 19)
        (8, 20)
        """
        left, right = self.window or (None, None)
        if self.causal:
            right = 0
        return None if left is None else first - left, None if right is None else last + (right + 1)

    def forbidden(
        self,
        rows: slice,
        key: Tensor,
        size: tuple[int, int],
        mask: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> list[Tensor]:
        """True where a query of these rows may not attend to `key`, of Nq and Nk as in `size`.

        The keys are (m,), all from one to another, or (B, 1, n, m), of each query its own. What is
        found broadcasts to the scores (B, H, n, m) of these queries and keys, as must `mask` and
        `bias`: these are `part` of the options'.
        """
        forbidden: list[Tensor] = []
        position = self.places(rows, *size, key.device)[..., None]
        low, high = self.bounds(position, position)
        if low is not None:
            forbidden.append(key < low)
        if high is not None:
            forbidden.append(key >= high)
        if self.lengths is not None:
            forbidden.append(key >= self.lengths[:, None, None, None])
        if self.segments is not None:
            first, end, _ = self.segments[:, None, rows, :, None].unbind(3)
            forbidden += [key < first, key >= end]
        if self.indices is not None:
            forbidden.append(_unchosen(self.indices[:, :, rows], key))
        if mask is not None:
            forbidden.append(~mask)
        if bias is not None:
            forbidden.append(bias == -math.inf)
        return forbidden

    def allowed(self, n_queries: int, n_keys: int, device: torch.device) -> Tensor:
        """True where a query may attend to a key, (1 or B, 1 or H, Nq, Nk).

        >>> Options(causal=True).allowed(2, 3, torch.device("cpu"))[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
        """
        rows, key, size = (
            slice(0, n_queries),
            torch.arange(n_keys, device=device),
            (n_queries, n_keys),
        )
        allowed = torch.ones((1, 1, *size), dtype=torch.bool, device=device)
        for forbidden in self.forbidden(rows, key, size, self.mask, self.bias):
            allowed = allowed & ~forbidden
        return allowed

    def count(
        self, shape: tuple[int, int, int, int], device: torch.device, real: Tensor | None = None
    ) -> Tensor:
        """How many keys, of those that are `real` (B, Nk), each query may attend to: (B, H, Nq).

        Where a bias is as good as −inf (`is_allowed`), a key is not counted; unless none is left:
        such a row is equal everywhere.
        """
        batch, heads, n_queries, n_keys = shape
        given = (self.mask, self.bias, self.indices)
        parts = [four_axes(x) for x in given if x is not None]

        def allowed(options: Options, rows: int) -> Tensor:
            found = replace(options, bias=None).allowed(rows, n_keys, device)
            return found if real is None else found & real[:, None, None]

        if self.bias is None and all(x.shape[2] == 1 for x in parts):
            keys = allowed(replace(self, causal=False, window=None, segments=None), 1)[:, :, 0]
            before = torch.nn.functional.pad(keys.long().cumsum(-1), (1, 0))  # how many before each
            low, high = self._intervals(n_queries, n_keys, device)
            counts = torch.take_along_dim(before, high, -1)
            counts = (counts - torch.take_along_dim(before, low, -1)).clamp(min=0)
            return counts.expand(batch, heads, n_queries)
        counted: list[Tensor] = []
        for rows in row_chunks(n_queries, batch * max(x.shape[1] for x in parts) * n_keys):
            options = self.rows(rows, n_queries, n_keys)
            found = allowed(options, rows.stop - rows.start)
            if options.bias is not None:
                left = found & is_allowed(options.bias)
                is_equal = ~left.any(-1, keepdim=True)
                found = left | (is_equal & found & (options.bias > -math.inf))
            counted.append(found.expand(batch, heads, -1, n_keys).sum(-1))
        if not counted:
            return torch.zeros((batch, heads, 0), dtype=torch.int64, device=device)
        return torch.cat(counted, 2)

    def _intervals(
        self, n_queries: int, n_keys: int, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """[low, high) of each query by causality, window and segment, (1 or B, 1, Nq) each."""
        places = self.places(slice(0, n_queries), n_queries, n_keys, device)
        places = places.expand(1, 1, -1) if places.dim() == 1 else places
        low, high = self.bounds(places, places)
        low = torch.zeros_like(places) if low is None else low
        high = torch.full_like(places, n_keys) if high is None else high
        if self.segments is not None:
            low = torch.maximum(low, self.segments[:, None, :, 0])
            high = torch.minimum(high, self.segments[:, None, :, 1])
        return low.clamp(0, n_keys), high.clamp(0, n_keys)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────

    def rows(self, rows: slice | Tensor, n_queries: int, n_keys: int) -> Options:
        """The options of some queries alone: of a slice of step 1, or of any by their indices.

        Queries with gaps between them have no one position: segments say where each stands.
        """
        options = replace(
            self,
            mask=part(self.mask, rows),
            bias=part(self.bias, rows),
            segments=None if self.segments is None else self.segments[:, rows],
            indices=None if self.indices is None else self.indices[:, :, rows],
        )
        offset = self.offset(n_queries, n_keys)
        if isinstance(rows, slice):
            start, _, _ = rows.indices(n_queries)
            return replace(options, position=offset + start)
        if options.segments is None and (self.causal or self.window is not None):
            all_keys = torch.zeros_like(rows), torch.full_like(rows, n_keys)
            options = replace(options, segments=torch.stack((*all_keys, rows + offset), -1)[None])
        return replace(options, position=None)

    def head(self, head: int | None = None, sequence: int | None = None) -> Options:
        """The options of one head, of one sequence of the batch, or of both."""
        h = slice(None) if head is None else slice(head, head + 1)
        b = slice(None) if sequence is None else slice(sequence, sequence + 1)

        def of(x: Tensor | None) -> Tensor | None:
            if x is None:
                return None
            x = four_axes(x)
            x = x if x.shape[0] == 1 else x[b]
            return x if x.shape[1] == 1 else x[:, h]

        return replace(
            self,
            mask=of(self.mask),
            bias=of(self.bias),
            lengths=None if self.lengths is None else self.lengths[b],
            sinks=None if self.sinks is None else self.sinks[h],
            segments=None
            if self.segments is None
            else self.segments[b if len(self.segments) > 1 else slice(None)],
            indices=of(self.indices),
        )


def _unchosen(chosen: Tensor, key: Tensor) -> Tensor:
    """Is a key, (m,) or (B, 1, n, m), not among those chosen, (B, H, n, K)? (B, H, n, m)"""
    if key.dim() > 1:
        return (chosen[..., None, :] != key[..., None]).all(-1)
    width = len(key)
    place = chosen - key[0] if width else chosen
    place = place.masked_fill((place < 0) | (place >= width), width)
    cells = torch.ones((*chosen.shape[:3], width + 1), dtype=torch.bool, device=key.device)
    return cells.scatter_(3, place, False)[..., :width]


# ── masks ─────────────────────────────────────────────────────────────────────────────────────


def four_axes(x: Tensor) -> Tensor:
    """A mask or bias with axes of length 1 in front."""
    return x[(None,) * (4 - x.dim())] if x.dim() < 4 else x


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Does a mask or bias of this shape broadcast to that of the scores, without growing them?"""
    # Not `n in (1, size)`: torch.compile says no where one of two equal sizes became a constant.
    ends = zip(reversed(shape), reversed(to), strict=False)
    if len(shape) > len(to):
        return False
    if torch.compiler.is_compiling():
        return all(is_surely(n == 1) or n == size for n, size in ends)
    return all(n == 1 or n == size for n, size in ends)


@overload
def part(x: Tensor, rows: slice | Tensor, keys: slice = ...) -> Tensor: ...
@overload
def part(x: Tensor | None, rows: slice | Tensor, keys: slice = ...) -> Tensor | None: ...
def part(x: Tensor | None, rows: slice | Tensor, keys: slice = slice(None)) -> Tensor | None:
    """The rows and keys of a mask or bias, whose axes may be of length 1, for all alike."""
    if x is None:
        return None
    if x.dim() > 1 and x.shape[-2] > 1:
        x = x[..., rows, :]
    return x[..., keys] if x.dim() and x.shape[-1] > 1 else x


def is_allowed(x: Tensor) -> Tensor:
    """Of a mask, or of what is added to scores: where a key may be attended to.

    What adds −inf, the least number of its type or nearly so, or −1e8 and less, forbids it.

    >>> is_allowed(torch.tensor([0.0, -1e9, -math.inf, -3.4e38, -7.0])).tolist()
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
