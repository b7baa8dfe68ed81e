"""What one call of attention is given, in order, and new tensors for what it returns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard._attention.options import Options
from regard.observation import Observation, See

# Elements of the scores that are in memory at a time, over all sequences and heads: 16 MB.
_CHUNK = 2**22

# Looked up once: small calls are measured in microseconds.
_empty, _empty_like, _empty_strided = torch.empty, torch.empty_like, torch.empty_strided


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """The type in which attention on numbers of type `dtype` is computed."""
    return torch.float64 if dtype == torch.float64 else torch.float32


@dataclass(frozen=True)
class Tile:
    """Queries [row, row_end) by keys [key, key_end)."""

    row: int
    row_end: int
    key: int
    key_end: int

    @property
    def rows(self) -> slice:
        return slice(self.row, self.row_end)

    @property
    def keys(self) -> slice:
        return slice(self.key, self.key_end)

    @property
    def shape(self) -> tuple[int, int]:
        return self.row_end - self.row, self.key_end - self.key


@dataclass(frozen=True, eq=False)
class Problem:
    """The arguments of `regard.attention`, checked.

    `mask` and `bias` have four axes, each of full length or of 1; `lengths` is int64. `layout` is
    how the output is to lie in memory: "joined" is (B, Nq, H, Dv), so that joining the heads
    copies nothing, "query" as q does, "contiguous" as its axes are.
    """

    q: Tensor  # (B, H, Nq, D)
    k: Tensor  # (B, Hkv, Nk, D)
    v: Tensor  # (B, Hkv, Nk, Dv)
    options: Options = field(default_factory=Options)
    layout: str = "joined"
    dropout: float = 0.0
    seed: Tensor | None = None  # what dropout is drawn with, or what was drawn (drawn.py)

    @property
    def factor(self) -> float:
        """What Q Kᵀ is multiplied by."""
        return self.options.factor(self.q.shape[-1])

    @property
    def offset(self) -> int:
        """Query i stands at i + offset."""
        return self.options.offset(self.q.shape[2], self.k.shape[2])

    @property
    def is_drawn(self) -> bool:
        """Is it known before which weights are dropped?"""
        return self.seed is not None and self.seed.dim() > 0

    @property
    def dtype(self) -> torch.dtype:
        """The type in which scores and softmax are computed, and observations are made."""
        return computed_in(self.q.dtype)

    @property
    def scores_shape(self) -> tuple[int, int, int, int]:
        """(B, H, Nq, Nk)."""
        batch, heads, n_queries, _ = self.q.shape
        return batch, heads, n_queries, self.k.shape[2]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that were given."""
        options = self.options
        others = (options.mask, options.bias, options.lengths, options.sinks)
        others += (options.segments, options.indices)
        return (self.q, self.k, self.v, *(x for x in others if x is not None))

    @property
    def has_keys(self) -> bool:
        """Is there any query, and any key?"""
        return 0 not in self.scores_shape

    def promoted(self) -> Problem:
        """The same with everything in the type of the computation, k and v contiguous."""
        dtype, options = self.dtype, self.options
        if options.sinks is not None:
            options = replace(options, sinks=options.sinks.to(dtype))
        return replace(
            self,
            q=self.q.to(dtype),
            k=self.k.to(dtype).contiguous(),
            v=self.v.to(dtype).contiguous(),
            options=options,
        )

    def sequence(self, b: int) -> Problem:
        """Sequence b of the batch alone, its q, k and v in memory of their own."""
        q, k, v = (
            x[b : b + 1].clone(memory_format=torch.contiguous_format)
            for x in (self.q, self.k, self.v)
        )
        return replace(self, q=q, k=k, v=v, options=self.options.head(sequence=b))

    def tiles(self, whole: Tile | None = None) -> Iterator[Tile]:
        """The chunks of a tile, or of everything, which hold about `_CHUNK` scores each.

        Keys that causality, window and segments leave to none of the queries of a chunk are left
        out.
        """
        batch, heads, n_queries, n_keys = self.scores_shape
        whole = whole or Tile(0, n_queries, 0, n_keys)
        budget = _CHUNK // max(batch * heads, 1)
        height = budget // max(whole.shape[1], 1)
        low, high = self.options.bounds(0, 0)
        if low is not None and high is not None:
            # n queries have n + span keys: the largest n with n · (n + span) ≤ budget.
            span = high - 1 - low
            height = max(height, (math.isqrt(span * span + 4 * budget) - span) // 2)
        height, offset = max(height, 1), self.offset
        for start in range(whole.row, whole.row_end, height):
            stop = min(start + height, whole.row_end)
            position, last_position = start + offset, stop - 1 + offset
            first, last = whole.key, whole.key_end
            if (segments := self.options.segments) is not None:
                some = segments[:, start:stop]
                least, most = some.amin((0, 1)).tolist(), some.amax((0, 1)).tolist()
                position, last_position = least[2], most[2]
                first, last = max(first, least[0]), min(last, most[1])
            low, high = self.options.bounds(position, last_position)
            first = first if low is None else max(first, low)
            last = last if high is None else min(last, high)
            if first < last:
                yield Tile(start, stop, first, last)

    def norms(self, see: See) -> Tensor:
        """‖v‖ by query head, (B, H, Nk), or the norms that were given, in the type of the
        computation."""
        if see.norms is not None:
            return see.norms.detach().to(self.dtype)
        v = self.v.detach().to(self.dtype)
        # Relative to the largest number, as squares may become too large or too small.
        most = v.abs().amax(-1, keepdim=True) if v.shape[3] else v.new_zeros((*v.shape[:3], 1))
        relative = v / most.masked_fill(most == 0, 1.0)
        found = most[..., 0] * torch.linalg.vector_norm(relative, dim=-1)  # (B, Hkv, Nk)
        group = self.q.shape[1] // max(self.v.shape[1], 1)
        return found.repeat_interleave(group, dim=1) if group != 1 else found

    # ── results ───────────────────────────────────────────────────────────────────────────────

    def new_output(self) -> Tensor:
        """(B, H, Nq, Dv), which lies in memory as the problem wants it."""
        batch, heads, rows, _ = self.q.shape
        return new_output(self.q, (batch, heads, rows, self.v.shape[3]), self.layout)

    def new_observation(self, see: See) -> Observation:
        """What is asked for in `see`, not yet filled in."""
        sinks = self.options.sinks
        sinks = None if sinks is None else sinks.detach().clone()
        return new_observation(
            see, self.scores_shape, self.dtype, self.q.device, self.offset, sinks
        )


def new_output(q: Tensor, shape: tuple[int, int, int, int], layout: str) -> Tensor:
    """Room for an output of this shape, of q's type and on its device."""
    if layout == "query":
        return _empty_like(q, requires_grad=False)
    if layout == "contiguous":
        return _empty(shape, dtype=q.dtype, device=q.device)
    _, heads, rows, width = shape
    row = heads * width
    return _empty_strided(shape, (rows * row, width, row, 1), dtype=q.dtype, device=q.device)


def new_observation(
    see: See,
    scores_shape: tuple[int, int, int, int],
    dtype: torch.dtype,
    device: torch.device | str,
    position: int,
    sinks: Tensor | None = None,
) -> Observation:
    """What is asked for in `see`, not yet filled in; position and sinks go in as they are."""
    batch, heads, n_queries, n_keys = scores_shape
    row, listed = (batch, heads, n_queries), (batch, heads, n_queries, see.top)
    moving, spans = (*row, see.contribution), (*row, see.n_spans)
    return Observation(
        lse=_empty(row, dtype=dtype, device=device),
        entropy=_empty(row, dtype=dtype, device=device) if see.entropy else None,
        top_keys=_empty(listed, dtype=torch.int64, device=device) if see.top else None,
        top_weights=_empty(listed, dtype=dtype, device=device) if see.top else None,
        map=_empty((batch, heads, *see.map), dtype=dtype, device=device) if see.map else None,
        received=_empty((batch, heads, n_keys), dtype=dtype, device=device)
        if see.received
        else None,
        distance=_empty(row, dtype=dtype, device=device) if see.distance else None,
        max_logit=_empty(row, dtype=dtype, device=device) if see.max_logit else None,
        spans=_empty(spans, dtype=dtype, device=device) if see.spans is not None else None,
        contribution_keys=_empty(moving, dtype=torch.int64, device=device)
        if see.contribution
        else None,
        contribution=_empty(moving, dtype=dtype, device=device) if see.contribution else None,
        n_keys=n_keys,
        position=position,
        sinks=sinks,
    )


def new_gradient(x: Tensor, dtype: torch.dtype, wanted: bool) -> Tensor:
    """Room for the gradient of x, which lies in memory as x does; empty if it is not wanted.

    Its last axis is contiguous, which x's may not be.
    """
    if not wanted:
        return torch.empty(0, dtype=dtype, device=x.device)
    gradient = torch.empty_like(x, dtype=dtype)
    strides = gradient.stride()
    return gradient.contiguous() if strides and strides[-1] != 1 else gradient
