"""How much weight each query puts on keys that have a name: first, self, previous, induction."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard._attention.options import four_axes
from regard._watch.call import Call

_PIECE = 2**18  # numbers, so that products stay in the processor's cache


def shares_of(
    call: Call, lse: Tensor, first_real: Tensor, tokens: Tensor | None, forgets: bool
) -> dict[str, Tensor]:
    """(B, H, Nq) each, NaN where there is no such key. Costs N · D.

    `first_real` (B or 1, 1) is where the first real token stands, and `tokens` (B, N) are the ids
    of all tokens up to the last key; without them there is no induction. `forgets` says that the
    first keys of the text are not there any more.
    """
    q, k, start, position = call.q.detach(), call.k.detach(), call.start, call.position
    batch, _, n_queries, _ = q.shape
    n_keys = k.shape[2]
    segments = call.options.segments
    p = (torch.arange(n_queries, device=q.device) + position)[None]
    first = (first_real - start).expand(batch, n_queries)
    if segments is not None:
        p = segments[..., 2]
        first = segments[..., 0].masked_fill(segments[..., 0] >= segments[..., 1], -1)
        first = first.expand(batch, n_queries)
    indices = {"first": first, "self": p, "previous": _real(p - 1, call.keys)}
    if tokens is not None and tokens.shape == (batch, call.end):
        after = _after_last_time(tokens, call.keys, position + start, n_queries)
        indices["induction"] = torch.where(after < 0, call.end, after - start)
    if segments is not None:  # what stands before a segment is nothing to it
        for name in indices.keys() & {"previous", "induction"}:
            indices[name] = torch.where(indices[name] < segments[..., 0], -1, indices[name])
    # In the type of the result before the product: float16 would overflow.
    q, k = q.to(lse.dtype), k.to(lse.dtype)
    shares: dict[str, Tensor] = {}
    for name, index in indices.items():
        at = index.clamp(0, n_keys - 1).expand(batch, -1)
        if name == "first" and segments is None:
            dots = _dots(q, k[torch.arange(batch, device=k.device), :, at[:, 0]][:, :, None])
        elif name == "induction" or segments is not None:
            every = at[:, None, :, None].expand(-1, k.shape[1], -1, k.shape[3])
            dots = _dots(q, k.gather(2, every))
        else:  # neighbours lie beside each other: nothing is copied
            offset = position if name == "self" else position - 1
            low, high = max(0, -offset), min(n_queries, n_keys - offset)
            dots = q.new_zeros(q.shape[:3])
            if low < high:
                near = k[:, :, low + offset : high + offset]
                dots[:, :, low:high] = _dots(q[:, :, low:high], near)
        shares[name] = _weights(call, lse, dots, at, (index >= 0) & (index < n_keys))
    for query, links in call.links.items():
        for head, _, key in links:
            for name, index in indices.items():
                share = shares[name][:, head, query]
                blocked = index[:, query] == key
                share[blocked.view(-1, *(1,) * (share.dim() - 1)).expand_as(share)] = 0.0
    for name in shares.keys() & {"first", "induction"} if forgets else ():  # they get nothing
        shares[name] = torch.where((indices[name] < 0)[:, None, :], 0.0, shares[name])
    return shares


def _weights(call: Call, lse: Tensor, dots: Tensor, at: Tensor, exists: Tensor) -> Tensor:
    """The weight of each query on one key of its own, `at` (B, Nq), `dots` (B, H, Nq) being q · k:
    0 where it may not attend to that key, NaN where there is none."""
    options = call.options
    batch, n_queries = at.shape

    def cells(x: Tensor) -> Tensor:
        x = four_axes(x.detach()).expand(batch, -1, n_queries, call.k.shape[2])
        return x.gather(3, at[:, None, :, None].expand(-1, x.shape[1], -1, -1))

    bias = None if options.bias is None else cells(options.bias)[..., 0]
    weights = (options.scores(dots, call.q.shape[3], bias) - lse).exp().clamp(max=1.0)
    size = (n_queries, call.k.shape[2])
    mask = None if options.mask is None else cells(options.mask)
    allowed = lse > -math.inf
    for forbidden in options.forbidden(slice(0, n_queries), at[:, None, :, None], size, mask):
        allowed = allowed & ~forbidden[..., 0]
    return torch.where(exists[:, None, :], torch.where(allowed, weights, 0.0), math.nan)


def _dots(q: Tensor, k: Tensor) -> Tensor:
    """q · k row by row, (B, H, N): k may have fewer heads, and one row for all."""
    batch, heads, n_rows, width = q.shape
    groups = q.view(batch, k.shape[1], heads // max(k.shape[1], 1), n_rows, width)
    keys = k[:, :, None]
    if q.numel() <= _PIECE:
        return (groups * keys).sum(-1).flatten(1, 2)
    rows = -(-n_rows // (q.numel() // _PIECE + 1))
    pieces = zip(groups.split(rows, 3), keys.expand_as(groups).split(rows, 3), strict=True)
    return torch.cat([(a * b).sum(-1) for a, b in pieces], 3).flatten(1, 2)


def _real(index: Tensor, keys: Tensor | None) -> Tensor:
    """The index, −1 where it is padding."""
    if keys is None:
        return index
    index = index.expand(keys.shape[0], -1)
    inside = (index >= 0) & (index < keys.shape[1])
    real = keys.gather(1, index.clamp(0, keys.shape[1] - 1)) & inside
    return torch.where(real, index, -1)


def _after_last_time(tokens: Tensor, keys: Tensor | None, position: int, n_queries: int) -> Tensor:
    """For each query the key behind the last earlier one with its token, −1 if there is none.
    Padding is no token: each of `keys` (B, the last of them) that is none stands for itself."""
    batch, n_keys = tokens.shape
    if keys is not None:
        real = pad(keys, (n_keys - keys.shape[1], 0), value=True)
        own = -1 - torch.arange(n_keys, device=tokens.device, dtype=tokens.dtype)
        tokens = torch.where(real, tokens, own)
    order = torch.argsort(tokens, dim=1, stable=True)
    sorted_tokens = tokens.gather(1, order)
    same = sorted_tokens[:, 1:] == sorted_tokens[:, :-1]
    before = torch.where(same, order[:, :-1], -1)  # where the token stood the time before
    last = torch.full((batch, n_keys), -1, dtype=torch.int64, device=tokens.device)
    last.scatter_(1, order[:, 1:], before)
    p = torch.arange(n_queries, device=tokens.device) + position
    inside = (p >= 0) & (p < n_keys)
    found = last[:, p.clamp(0, max(n_keys - 1, 0))]
    return torch.where(inside & (found >= 0), found + 1, -1)
