"""`Call`: one attention that a watched model computes, as `regard.attention` takes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard._attention import Options, attention, weights
from regard._attention.options import four_axes
from regard._merge import merge
from regard.observation import Observation, See

_PIECE = 2**18  # numbers


@dataclass(frozen=True, eq=False)
class Call:
    """q (B, H, Nq, D), k and v (B, Hkv, Nk, D), and how they are to be computed.

    `queries` (B, Nq) and `keys` (B, Nk) say which are real tokens, None: all. `start` is the
    position of the first key in the text, which is not 0 where a cache forgets. `said` is whether
    `cross` was told by the caller, not guessed from the lengths. `links` are blocked, by query:
    {query: [(head, key), …]}. `grows` says that no query looks ahead, so that more tokens may
    follow, though `options` do not.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    options: Options = field(default_factory=Options)
    dropout: float = 0.0
    cross: bool = False
    queries: Tensor | None = None
    keys: Tensor | None = None
    start: int = 0
    said: bool = False
    backend: str | None = None
    grows: bool = False
    links: dict[int, list[tuple[int, int]]] = field(
        default_factory=dict[int, list[tuple[int, int]]]
    )

    @property
    def position(self) -> int:
        """Query i stands at i + position, as key j at j."""
        return self.options.offset(self.q.shape[2], self.k.shape[2])

    def compute(self, see: See | None) -> tuple[Tensor, Observation | None]:
        """The output, and what was seen of it."""
        if self.links:
            return self._without_links(See() if see is None else see)
        arguments = self.options.arguments()
        arguments |= {"dropout": self.dropout, "backend": self.backend}
        if see is None:
            return attention(self.q, self.k, self.v, **arguments), None
        if self.queries is not None and (see.map is not None or see.received):
            see = replace(see, queries=self.queries)
        if self.cross and see.distance:
            see = replace(see, distance=False)  # between two sequences it means nothing
        return attention(self.q, self.k, self.v, see=see, **arguments)

    def look(self, see: See) -> Observation:
        """What somebody else asks for, who says for himself which queries count."""
        if self.links:
            return self._without_links(see)[1]
        return attention(self.q, self.k, self.v, see=see, **self.options.arguments())[1]

    def _without_links(self, see: See) -> tuple[Tensor, Observation]:
        """The same with links masked, but for map and received.

        The queries with a link less are computed one by one, and those between them in one piece
        each, so that no mask of all queries by all keys is made.
        """
        parts: list[tuple[Tensor, Observation]] = []
        links, n_queries = self.links, self.q.shape[2]
        rows = sorted(links)
        at = 0
        pieces: list[tuple[int, int]] = []
        for row in rows:
            if at < row:
                pieces.append((at, row))
            pieces.append((row, row + 1))
            at = row + 1
        if at < n_queries:
            pieces.append((at, n_queries))
        plain = replace(see, map=None, received=False)
        for start, stop in pieces:
            part = self._rows(start, stop)
            if start in links:
                part = part.mask_keys([(head, None, key) for head, key in links[start]])
            out, seen = part.compute(plain)
            assert seen is not None
            parts.append((out, seen))
        out, seen = merge(parts)
        return out, replace(seen, position=self.position)

    def _rows(self, start: int, stop: int) -> Call:
        """Queries [start, stop) alone, at their positions."""
        rows = slice(start, stop)
        return replace(
            self,
            links={},
            q=self.q[:, :, rows],
            queries=None if self.queries is None else self.queries[:, rows],
            options=self.options.rows(rows, self.q.shape[2], self.k.shape[2]),
        )

    def mask_keys(self, links: list[tuple[int | None, int | None, int]]) -> Call:
        """The call without links (head, None, key) of every query; a head of None is every one."""
        heads, n_keys = self.q.shape[1], self.k.shape[2]
        allowed = torch.ones((1, heads, 1, n_keys), dtype=torch.bool, device=self.q.device)
        for head, _, key in links:
            allowed[0, slice(None) if head is None else head, 0, key] = False
        mask = self.options.mask
        mask = allowed if mask is None else mask & allowed
        return replace(self, options=replace(self.options, mask=mask))

    def weights(self) -> Tensor:
        """All of them, for a caller who asks for all: (B, H, Nq, Nk)."""
        options = self.options
        if self.links:
            shape = (1, *self.q.shape[1:3], self.k.shape[2])
            allowed = torch.ones(shape, dtype=torch.bool, device=self.q.device)
            for query, links in self.links.items():
                for head, key in links:
                    allowed[0, head, query, key] = False
            mask = allowed if options.mask is None else options.mask & allowed
            options = replace(options, mask=mask)
        wanted = (self.q, self.k, options.bias, options.sinks)
        if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in wanted):
            return _with_graph(replace(self, options=options)).to(self.q.dtype)
        return weights(self.q, self.k, **options.arguments()).to(self.q.dtype)


def _with_graph(call: Call) -> Tensor:
    """The same weights, through which gradients flow."""
    options, q, k = call.options, call.q, call.k
    dtype = torch.promote_types(q.dtype, torch.float32)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = q.to(dtype) @ k.to(dtype).mT * options.factor(q.shape[3])
    if options.softcap is not None:
        scores = options.softcap * (scores / options.softcap).tanh()
    if options.bias is not None:
        scores = scores + options.bias.to(dtype).masked_fill(options.bias == -math.inf, 0.0)
    forbidden = ~options.allowed(q.shape[2], k.shape[2], q.device).expand_as(scores)
    if options.sinks is None:
        is_empty = forbidden.all(-1, keepdim=True)  # its softmax would be NaN
        scores = scores.masked_fill(forbidden & ~is_empty, -math.inf)
    else:
        sinks = options.sinks.to(dtype)[:, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores.masked_fill(forbidden, -math.inf), sinks], -1)
    return scores.softmax(-1)[..., : k.shape[2]].masked_fill(forbidden, 0.0)


def as_autocast(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What autocast makes of the arguments of attention."""
    kind = q.device.type
    if not torch.is_autocast_enabled(kind):
        return q, k, v
    dtype = torch.get_autocast_dtype(kind)
    q, k, v = (x if x.dtype == torch.float64 else x.to(dtype) for x in (q, k, v))
    return q, k, v


@torch.no_grad()
def weights_at(call: Call, lse: Tensor, index: Tensor, offset: int | None = None) -> Tensor:
    """The weight of each query on one key of its own, `index` (B or 1, Nq): (B, H, Nq).

    Costs N · D. NaN where the index is not a key; 0 where it may not be attended to. `offset` says
    that the index of query i is i + offset, where it is one at all.
    """
    options = call.options
    n_queries, width = call.q.shape[2:]
    n_keys = call.k.shape[2]
    exists = (index >= 0) & (index < n_keys)
    at = index.clamp(0, max(n_keys - 1, 0))
    if index.stride(1) == 0:  # one key for all queries of a sequence: it stays so
        at = at[:, :1].expand(-1, n_queries)
    scores = _dots(call, at, exists, offset, lse.dtype)
    scores = scores * options.factor(width)
    if options.softcap is not None:
        scores = options.softcap * (scores / options.softcap).tanh()
    if options.bias is not None:
        scores = scores + _cells(options.bias, at, call).to(lse.dtype)
    weights = (scores - lse).exp().clamp(max=1.0)
    position = torch.arange(n_queries, device=at.device)[:, None] + call.position
    mask = None if options.mask is None else _cells(options.mask, at, call)[..., None]
    allowed = exists[:, None, :]
    for forbidden in options.forbidden(position, at[:, None, :, None], mask):
        allowed = allowed & ~forbidden[..., 0]
    weights = torch.where(allowed & (lse > -math.inf), weights, 0.0)
    return torch.where(exists[:, None, :], weights, math.nan)


def _dots(call: Call, at: Tensor, exists: Tensor, offset: int | None, dtype: torch.dtype) -> Tensor:
    """q · k of each query and its key, (B, H, Nq); anything where there is none."""
    # In the type of the result before the product: float16 would overflow.
    q, k = call.q.detach().to(dtype), call.k.detach().to(dtype)
    batch, _, n_queries, _ = q.shape
    n_keys = k.shape[2]
    if offset is not None:  # neighbours lie beside each other: nothing is copied
        low, high = max(0, -offset), min(n_queries, n_keys - offset)
        dots = q.new_zeros(q.shape[:3])
        if low < high:
            near = k[:, :, low + offset : high + offset]
            dots[:, :, low:high] = _product(q[:, :, low:high], near)
        return dots
    if at.stride(1) == 0:
        chosen = at[:, 0].expand(batch)
        return _product(q, k[torch.arange(batch, device=k.device), :, chosen][:, :, None])
    sequence, query = exists.expand(batch, n_queries).nonzero(as_tuple=True)
    key = at.expand(batch, n_queries)[sequence, query]
    dots = q.new_zeros((batch, n_queries, q.shape[1]))
    found = _product(q[sequence, :, query][:, :, None], k[sequence, :, key][:, :, None])
    dots[sequence, query] = found[..., 0]
    return dots.transpose(1, 2)


def _product(q: Tensor, k: Tensor) -> Tensor:
    """Row by row, (B, H, N): k may have fewer heads, and one row for all."""
    axis = 0 if q.shape[0] > 1 else 2
    pieces = q.numel() // _PIECE + 1
    if pieces > 1 and q.shape[axis] > 1:  # so that the products stay in the cache
        size = -(-q.shape[axis] // pieces)
        parts = q.split(size, axis)
        same = k.shape[axis] == 1 != q.shape[axis]
        others = [k] * len(parts) if same else k.split(size, axis)
        return torch.cat([_product_of(*pair) for pair in zip(parts, others, strict=True)], axis)
    return _product_of(q, k)


def _product_of(q: Tensor, k: Tensor) -> Tensor:
    if q.shape[1] == k.shape[1]:
        return (q * k).sum(-1)
    groups = q.unflatten(1, (k.shape[1], -1))
    return (groups * k[:, :, None]).sum(-1).flatten(1, 2)


def _cells(x: Tensor, index: Tensor, call: Call) -> Tensor:
    """x, which broadcasts to (B, H, Nq, Nk), at key `index` of each query: (B, H, Nq) or 1s."""
    x = four_axes(x.detach())
    n_keys = call.k.shape[2]
    if x.shape[3] != n_keys:  # one for all keys
        return x[..., 0]
    if x.shape[2] == 1:
        rows = x[:, :, 0]  # (B, H, Nk)
        if index.shape[0] == 1:
            return rows[:, :, index[0]]
        rows = rows.expand(index.shape[0], -1, -1)
        return rows.gather(2, index[:, None, :].expand(-1, rows.shape[1], -1))
    at = index[:, None, :, None].expand(-1, x.shape[1], -1, -1)
    x = x.expand(max(x.shape[0], index.shape[0]), -1, -1, -1)
    return x.gather(3, at.expand(x.shape[0], -1, -1, -1))[..., 0]
