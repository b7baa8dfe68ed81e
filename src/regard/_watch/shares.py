"""How much weight each query puts on keys that have a name: first, self, previous, induction."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard._watch.call import Call, weights_at


def shares_of(
    call: Call, lse: Tensor, first_real: Tensor, tokens: Tensor | None, forgets: bool
) -> dict[str, Tensor]:
    """(B, H, Nq) each, NaN where there is no such key.

    `first_real` (B or 1, 1) is where the first real token stands, and `tokens` (B, N) are the ids
    of all tokens up to the last key; without them there is no induction. `forgets` says that the
    first keys of the text are not there any more.
    """
    n_queries, end = call.q.shape[2], call.start + call.k.shape[2]
    p = (torch.arange(n_queries, device=call.q.device) + call.position)[None]
    first = (first_real - call.start).expand(-1, n_queries)
    indices = {"first": first, "self": p, "previous": _real(p - 1, call.keys)}
    if tokens is not None and tokens.shape == (call.q.shape[0], end):
        after = _after_last_time(tokens, call.keys, call.position + call.start, n_queries)
        indices["induction"] = torch.where(after < 0, end, after - call.start)
    near = {"self": call.position, "previous": call.position - 1}
    shares = {name: weights_at(call, lse, index, near.get(name)) for name, index in indices.items()}
    for query, links in call.links.items():
        for head, key in links:
            for name, index in indices.items():
                share = shares[name][:, head, query]
                share[(index[:, query] == key).expand_as(share)] = 0.0
    for name in shares.keys() & {"first", "induction"} if forgets else ():  # they get nothing
        shares[name] = torch.where((indices[name] < 0)[:, None, :], 0.0, shares[name])
    return shares


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
