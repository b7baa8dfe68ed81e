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

Window = tuple[int | None, int | None]
Position = TypeVar("Position", int, Tensor)

_CELLS = 2**22  # of a mask that are looked at together
_FAR = -1e8  # what is added to a score to forbid a key, at most: exp of it is 0


@dataclass(frozen=True, eq=False)
class Options:
    """The options of `regard.attention`.

    Query i stands at p = i + `position`, which is Nk − Nq unless given, and key j at j. `mask` and
    `bias` broadcast to (B, H, Nq, Nk).
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
        self, position: Tensor, key: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> list[Tensor]:
        """True where the query at `position` (…, n, 1) may not attend to `key` (…, m).

        Each broadcasts to the scores (B, H, n, m) of these queries and keys, as must `mask` and
        `bias`: these are `part` of the options'.
        """
        forbidden: list[Tensor] = []
        low, high = self.bounds(position, position)
        if low is not None:
            forbidden.append(key < low)
        if high is not None:
            forbidden.append(key >= high)
        if self.lengths is not None:
            forbidden.append(key >= self.lengths[:, None, None, None])
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
        queries = torch.arange(n_queries, device=device)
        return self._allowed(queries + self.offset(n_queries, n_keys), n_keys, self.mask, self.bias)

    def _allowed(
        self, positions: Tensor, n_keys: int, mask: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        key = torch.arange(n_keys, device=positions.device)
        allowed = torch.ones(
            (1, 1, len(positions), n_keys), dtype=torch.bool, device=positions.device
        )
        for forbidden in self.forbidden(positions[:, None], key, mask, bias):
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
        parts = [four_axes(x) for x in (self.mask, self.bias) if x is not None]

        def allowed(options: Options, rows: int) -> Tensor:
            found = replace(options, bias=None).allowed(rows, n_keys, device)
            return found if real is None else found & real[:, None, None]

        if self.bias is None and all(x.shape[2] == 1 for x in parts):
            keys = allowed(replace(self, causal=False, window=None), 1)[:, :, 0]
            before = torch.nn.functional.pad(keys.long().cumsum(-1), (1, 0))  # how many before each
            positions = torch.arange(n_queries, device=device) + self.offset(n_queries, n_keys)
            low, high = self.bounds(positions, positions)
            counts = before[..., -1:] if high is None else before[..., high.clamp(0, n_keys)]
            if low is not None:
                counts = (counts - before[..., low.clamp(0, n_keys)]).clamp(min=0)
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

    # ── parts ─────────────────────────────────────────────────────────────────────────────────

    def rows(self, rows: slice | Tensor, n_queries: int, n_keys: int) -> Options:
        """The options of some queries alone: of a slice of step 1, or of any by their indices.

        Queries with gaps between them have no one position: a mask says what they may attend to.
        """
        mask, bias = part(self.mask, rows), part(self.bias, rows)
        offset = self.offset(n_queries, n_keys)
        if isinstance(rows, slice):
            start, _, _ = rows.indices(n_queries)
            return replace(self, mask=mask, bias=bias, position=offset + start)
        return replace(
            self,
            causal=False,
            window=None,
            mask=self._allowed(rows + offset, n_keys, mask, None),
            bias=bias,
            lengths=None,
            position=None,
        )

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
        )


# ── masks ─────────────────────────────────────────────────────────────────────────────────────


def four_axes(x: Tensor) -> Tensor:
    """A mask or bias with axes of length 1 in front."""
    return x[(None,) * (4 - x.dim())] if x.dim() < 4 else x


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Does a mask or bias of this shape broadcast to that of the scores, without growing them?"""
    # Not `n in (1, size)`: torch.compile says no where one of two equal sizes became a constant.
    ends = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(n == 1 or n == size for n, size in ends)


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
