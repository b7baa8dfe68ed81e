"""How much weight each query puts on keys that have a name: first, self, previous, induction."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from regard._attention.options import four_axes
from regard._watch.call import Call

NAMES = ("first", "self", "previous", "induction")


def shares_of(
    call: Call,
    lse: Tensor,
    first_real: Tensor,
    tokens: Tensor | None,
    forgets: bool,
    names: Sequence[str] = NAMES,
) -> dict[str, Tensor]:
    """(B, H, Nq) each, NaN where there is no such key. Costs N · D.

    `first_real` (B or 1, 1) is where the first real token stands, and `tokens` (B, N) are the ids
    of all tokens up to the last key; without them there is no induction, and no duplicate, which
    is the last earlier key of a query's own token. `forgets` says that the first keys of the text
    are not there any more.
    """
    if _is_plain_step(call) and "duplicate" not in names:
        shares = _of_step(call, lse, int(first_real[0, 0]), tokens, forgets)
        return {name: share for name, share in shares.items() if name in names}
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
    indices = {name: index for name, index in indices.items() if name in names}
    repeats = [name for name in ("induction", "duplicate") if name in names]
    if repeats and tokens is not None and tokens.shape == (batch, call.end):
        after = _after_last_time(tokens, call.keys, position + start, n_queries)
        for name in repeats:  # the token itself stands one before what followed it
            moved = after - start - int(name == "duplicate")
            indices[name] = torch.where(after < 0, call.end, moved)
    if segments is not None:  # what stands before a segment is nothing to it
        for name in indices.keys() & {"previous", "induction", "duplicate"}:
            indices[name] = torch.where(indices[name] < segments[..., 0], -1, indices[name])
    # In the type of the result before the product: float16 would overflow.
    q, k = q.to(lse.dtype), k.to(lse.dtype)
    if not indices:
        return {}
    found: list[Tensor] = []
    for name, index in indices.items():
        at = index.clamp(0, n_keys - 1).expand(batch, -1)
        if name == "first" and segments is None:
            dots = dots_of(q, k[torch.arange(batch, device=k.device), :, at[:, 0]][:, :, None])
        elif name in repeats or segments is not None:  # of few queries, mostly
            row, query = ((index >= 0) & (index < n_keys)).expand(batch, -1).nonzero().unbind(1)
            ours, theirs = q.transpose(1, 2)[row, query], k.transpose(1, 2)[row, at[row, query]]
            dots = q.new_zeros((batch, n_queries, q.shape[1]))
            dots[row, query] = dots_of(ours[:, :, None], theirs[:, :, None])[..., 0]
            dots = dots.transpose(1, 2)
        else:  # neighbours lie beside each other: nothing is copied
            offset = position if name == "self" else position - 1
            low, high = max(0, -offset), min(n_queries, n_keys - offset)
            dots = q.new_zeros(q.shape[:3])
            if low < high:
                near = k[:, :, low + offset : high + offset]
                dots[:, :, low:high] = dots_of(q[:, :, low:high], near)
        found.append(dots)
    every = torch.stack([index.expand(batch, -1) for index in indices.values()], 2)
    weights = _weights(call, lse, torch.stack(found).permute(1, 2, 3, 0), every)
    shares = dict(zip(indices, weights.unbind(3), strict=True))
    for query, links in call.links.items():
        for head, _, key in links:
            for name, index in indices.items():
                share = shares[name][:, head, query]
                blocked = index[:, query] == key
                share[blocked.view(-1, *(1,) * (share.dim() - 1)).expand_as(share)] = 0.0
    for name in shares.keys() & {"first", *repeats} if forgets else ():  # they get nothing
        shares[name] = torch.where((indices[name] < 0)[:, None, :], 0.0, shares[name])
    return shares


def _is_plain_step(call: Call) -> bool:
    """Is it one query of one sequence, behind all keys, with nothing forbidden but by a window?"""
    options = call.options
    return (
        call.q.shape[0] == call.q.shape[2] == 1
        and call.position == call.k.shape[2] - 1
        and options.mask is options.bias is options.lengths is options.segments is None
        and options.indices is call.keys is None
        and not call.links
    )


def _of_step(
    call: Call, lse: Tensor, first_real: int, tokens: Tensor | None, forgets: bool
) -> dict[str, Tensor]:
    """The same for one query: a step of a generation is to cost a few operations."""
    last, start = call.position, call.start
    indices = {"first": first_real - start, "self": last, "previous": last - 1}
    if tokens is not None and tokens.shape == (1, call.end):
        ids = tokens[0]
        before = (ids[:-1] == ids[-1]).nonzero()
        indices["induction"] = int(before[-1]) + 1 - start if len(before) else call.end
    at = [min(max(index, 0), last) for index in indices.values()]
    keys = call.k.detach()[0, :, at].to(lse.dtype)  # (Hkv, shares, D)
    q = call.q.detach()[0, :, 0].to(lse.dtype).unflatten(0, (keys.shape[0], -1))
    dots = (q @ keys.mT).flatten(0, 1)[None]  # (1, H, shares)
    weights = (call.options.scores(dots, call.q.shape[3], None) - lse).exp().clamp(max=1.0)
    left = None if call.options.window is None else call.options.window[0]
    shares: dict[str, Tensor] = {}
    for n, (name, index) in enumerate(indices.items()):
        share = weights[:, :, n : n + 1]
        if index > last or (index < 0 and not (forgets and name in ("first", "induction"))):
            share = torch.full_like(share, math.nan)
        elif index < 0 or (left is not None and last - index > left):
            share = torch.zeros_like(share)
        shares[name] = share
    return shares


def _weights(call: Call, lse: Tensor, dots: Tensor, index: Tensor) -> Tensor:
    """The weights of each query on some keys of its own, `index` (B, Nq, m), `dots` (B, H, Nq, m)
    being q · k: 0 where it may not attend to that key, NaN where there is none."""
    options, n_keys = call.options, call.k.shape[2]
    batch, n_queries = index.shape[:2]
    at, exists = index.clamp(0, n_keys - 1)[:, None], (index >= 0) & (index < n_keys)

    def cells(x: Tensor) -> Tensor:
        x = four_axes(x.detach()).expand(batch, -1, n_queries, n_keys)
        return x.gather(3, at.expand(-1, x.shape[1], -1, -1))

    bias = None if options.bias is None else cells(options.bias)
    mask = None if options.mask is None else cells(options.mask)
    weights = (options.scores(dots, call.q.shape[3], bias) - lse[..., None]).exp_().clamp_(max=1.0)
    allowed = (lse > -math.inf)[..., None]
    for forbidden in options.forbidden(slice(0, n_queries), at, (n_queries, n_keys), mask):
        allowed = allowed & ~forbidden
    return weights.masked_fill_(~allowed, 0.0).masked_fill_(~exists[:, None], math.nan)


def dots_of(q: Tensor, k: Tensor) -> Tensor:
    """q · k row by row, (B, H, N): k may have fewer heads, and one row for all."""
    batch, heads, n_rows, width = q.shape
    groups = q.view(batch, k.shape[1], heads // max(k.shape[1], 1), n_rows, width)
    keys = k[:, :, None]
    if q.device.type == "cpu":  # NumPy sums up without writing the products first
        dots = np.einsum("bgrnd,bgrnd->bgrn", groups.numpy(), keys.expand_as(groups).numpy())
        return torch.from_numpy(dots).flatten(1, 2)
    return (groups * keys).sum(-1).flatten(1, 2)


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
