"""`Call`: one attention that a watched model computes, as `regard.attention` takes it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard._attention import Options, attention, weights
from regard._attention.attend import attend
from regard._merge import merge
from regard.observation import Observation, See

# A head and a query or, as slice(None), all of them, and a key.
Blocked = tuple[int | slice, int | slice, int]


@dataclass(frozen=True, eq=False)
class Call:
    """q (B, H, Nq, D), k and v (B, Hkv, Nk, D), and how they are to be computed.

    `queries` (B, Nq) and `keys` (B, Nk) say which are real tokens, None: all. `start` is the
    position of the first key in the text, which is not 0 where a cache forgets. `is_cross_known`
    is whether `cross` was told by the caller, not guessed from the lengths. `links` of single
    queries are blocked, by query. `grows` says that no query looks ahead, so that more tokens may
    follow, though `options` do not. The outputs of heads that are `ablated` are 0. `as_pytorch`
    says that dropout is PyTorch's, which draws in an order of its own.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    options: Options = field(default_factory=Options)
    dropout: float = 0.0
    cross: bool = False
    is_cross_known: bool = False
    queries: Tensor | None = None
    keys: Tensor | None = None
    start: int = 0
    backend: str | None = None
    grows: bool = False
    links: dict[int, list[Blocked]] = field(default_factory=dict[int, list[Blocked]])
    spans: Tensor | None = None  # (Nk, 2), the tokens [first, end) that each key stands for
    ablated: tuple[int, ...] = ()
    as_pytorch: bool = False

    @property
    def vectors(self) -> dict[str, Tensor]:
        """What was multiplied, by name."""
        return {"q": self.q, "k": self.k, "v": self.v}

    @property
    def scores(self) -> Tensor | None:
        """Those that the module has computed by itself, (B, H, Nq, Nk), if it has."""
        return None

    @property
    def plain(self) -> Call:
        """A call from whose q, k and options the weights follow."""
        return self

    @property
    def alive(self) -> Tensor:
        """(H,) The heads that are not ablated."""
        alive = torch.ones(self.q.shape[1], dtype=torch.bool, device=self.q.device)
        alive[list(self.ablated)] = False
        return alive

    @property
    def position(self) -> int:
        """Query i stands at i + position, as key j at j."""
        return self.options.offset(self.q.shape[2], self.k.shape[2])

    @property
    def end(self) -> int:
        """The position in the text behind the last key."""
        return self.start + self.k.shape[2]

    def compute(self, see: See | None) -> tuple[Tensor, Observation | None]:
        """The output, and what was seen of it."""
        out, seen = self._compute(see)
        if self.ablated:
            out = torch.where(self.alive[:, None, None], out, 0.0)
        return out, seen

    def by_head(self, output: Tensor) -> Tensor:
        """The output that was computed as (B, H, Nq, Dv)."""
        return output

    def _compute(self, see: See | None) -> tuple[Tensor, Observation | None]:
        if self.links:
            return self._without_links(See() if see is None else self._with_labels(see))
        if see is None:
            return self._attention(None), None
        n_keys = self.k.shape[2]
        if self.queries is not None and (see.map is not None or see.received):
            see = replace(see, queries=self.queries)
        if see.distance and (self.cross or self.spans is not None):
            see = replace(see, distance=False)  # between two sequences, or to a block, is none
        see = self._with_labels(see)
        if see.received and see.map is see.queries is None and self.q.shape[2] == 1 <= n_keys:
            # What each key receives from one query is its weights: a map of one row, which the
            # pass makes by the way, where received takes another.
            out, seen = self._attention(replace(see, received=False, map=(1, n_keys)))
            return out, replace(seen, map=None, received=seen.map[:, :, 0])
        return self._attention(see)

    def _with_labels(self, see: See) -> See:
        """The labels of the tokens as those of the keys; keys that are no tokens have none."""
        if see.spans is None:
            return see
        if self.cross or self.spans is not None:
            return replace(see, spans=None, n_spans=0)
        labels = see.spans[..., self.start : self.end]
        labels = pad(labels, (0, self.k.shape[2] - labels.shape[-1]), value=-1)
        return replace(see, spans=labels)

    def _attention(self, see: See | None) -> Any:
        tensors = self.q, self.k, self.v
        if self.dropout and self.as_pytorch:
            rest = self.options, self.dropout, see, self.backend
            return attend("attention()", *tensors, *rest, as_pytorch=True)
        arguments: dict[str, Any] = self.options.arguments()
        arguments |= {"dropout": self.dropout, "see": see, "backend": self.backend}
        return attention(*tensors, **arguments)

    def _without_links(self, see: See) -> tuple[Tensor, Observation]:
        """The same with links of single queries masked, but for map and received.

        These queries are computed one by one, and those between them in one piece each, so that no
        mask of all queries by all keys is made.
        """
        parts: list[tuple[Tensor, Observation]] = []
        see = replace(see, map=None, received=False)
        n_queries, n_keys = self.q.shape[2], self.k.shape[2]
        edges = sorted({0, n_queries, *self.links, *(query + 1 for query in self.links)})
        for start, stop in pairwise(edges):
            rows = slice(start, stop)
            part = replace(
                self,
                q=self.q[:, :, rows],
                queries=None if self.queries is None else self.queries[:, rows],
                options=self.options.rows(rows, n_queries, n_keys),
                links={},
            )
            if start in self.links:
                part = part.without((head, 0, key) for head, _, key in self.links[start])
            out, seen = part._compute(see)
            assert seen is not None
            parts.append((out, seen))
        out, seen = merge(parts)
        return out, replace(seen, position=self.position)

    def without(self, links: Iterable[Blocked], rows: int = 1) -> Call:
        """The call with links masked, by a mask of as many rows: one is for all queries."""
        shape = (1, self.q.shape[1], rows, self.k.shape[2])
        mask = torch.ones(shape, dtype=torch.bool, device=self.q.device)
        for head, query, key in links:
            mask[0, head, query, key] = False
        if self.options.mask is not None:
            mask = self.options.mask & mask
        return replace(self, options=replace(self.options, mask=mask))

    def remembered(self, **changes: Any) -> Call:
        """The call with other tensors, and without those that only computing it needs."""
        return replace(self, **changes)

    def with_links(self, links: dict[int, list[Blocked]]) -> Call:
        """The call with links of single queries masked."""
        return replace(self, links=links)

    def weights(self) -> Tensor:
        """All of them, for a caller who asks for all: (B, H, Nq, Nk)."""
        q, k, options = self.q, self.k, self.options
        if self.links:
            every = [link for links in self.links.values() for link in links]
            options = self.without(every, q.shape[2]).options
        sources = (q, k, options.bias, options.sinks)
        if not torch.is_grad_enabled() or not any(
            x is not None and x.requires_grad for x in sources
        ):
            return weights(q, k, **options.arguments()).to(q.dtype)
        # The same, through which gradients flow.
        dtype = torch.promote_types(q.dtype, torch.float32)
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        bias = options.bias
        bias = None if bias is None else bias.masked_fill(bias == -math.inf, 0.0)
        scores = options.scores(q.to(dtype) @ k.to(dtype).mT, q.shape[3], bias)
        forbidden = ~options.allowed(q.shape[2], k.shape[2], q.device).expand_as(scores)
        if options.sinks is None:
            is_empty = forbidden.all(-1, keepdim=True)  # its softmax would be NaN
            scores = scores.masked_fill(forbidden & ~is_empty, -math.inf)
        else:
            sinks = options.sinks.to(dtype)[:, None, None].expand(*scores.shape[:3], 1)
            scores = torch.cat([scores.masked_fill(forbidden, -math.inf), sinks], -1)
        return scores.softmax(-1)[..., : k.shape[2]].masked_fill(forbidden, 0.0).to(q.dtype)
