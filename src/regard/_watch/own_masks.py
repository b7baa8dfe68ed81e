"""What scores of a module's own say: what was multiplied, which tokens are real, who looks back."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from regard._attention.options import Options, is_allowed
from regard._watch.call import Call
from regard._watch.masks import read_masks
from regard._watch.own_axes import fitted
from regard._watch.own_call import Own, OwnCall
from regard._watch.products import Product, read_scores

# A score that is no more than this, and so far below the others that it gets no weight, was put
# there to forbid a key.
_FAR, _BELOW = -5e3, 2e3
_SAMPLES = 6  # rows that are looked at before all are


def read_own(product: Product, v: Tensor, own: Own) -> OwnCall:
    """The call whose scores were made of a product, and whose values are v (B, Hkv, Nk, Dv)."""
    batch, heads, n_queries, n_keys = own.scores.shape
    q, k = own.scores.new_zeros(()).expand(batch, heads, n_queries, 1), v
    found = read_scores(product)
    if found is not None:
        told_q, told_k = (fitted(x, batch, heads) for x in (found.q, found.k))
        if (
            told_q is not None
            and told_k is not None
            and told_q.shape[:3] == (batch, heads, n_queries)
            and told_k.shape[2] == n_keys
        ):
            q, k, own = told_q, told_k, replace(own, has_q_and_k=True)
    call = OwnCall(q, k, v, own=replace(own, scores=_near(own.scores)))
    told = _told(own.scores.detach())
    read = read_masks(Call(q, k, v, Options(bias=told)))
    keys, causal = read.keys, read.options.causal or read.grows
    if keys is None and not causal:
        allowed = _fewest(is_allowed(told))
        if not bool(allowed.all()):
            return _with_pattern(call, allowed)
    mask = None if keys is None else keys[:, None, None, :]
    return replace(
        call,
        options=Options(causal=causal, mask=mask, position=read.options.position),
        cross=read.cross,
        queries=read.queries,
        keys=keys,
        grows=read.grows,
    )


def _told(scores: Tensor) -> Tensor:
    """Scores, the least number where a key was forbidden by adding a large one that is not yet so
    large as to forbid by itself. A few rows tell whether there are any."""
    n_queries = scores.shape[2]
    rows = sorted({n * (n_queries - 1) // _SAMPLES for n in range(_SAMPLES + 1)})
    if not bool(_is_far(scores[:, :, rows]).any()):
        return scores
    return scores.masked_fill(_is_far(scores), torch.finfo(scores.dtype).min)


def _is_far(scores: Tensor) -> Tensor:
    least = scores.amax(-1, keepdim=True) - _BELOW
    return (scores <= _FAR) & (scores <= least) & is_allowed(scores)


def _near(scores: Tensor) -> Tensor:
    """Scores, less the greatest in rows that were forbidden as a whole by finite numbers: beside
    these, what a log-sum-exp adds for the number of keys would be lost."""
    most = scores.detach().amax(-1, keepdim=True)
    is_far = (most <= _FAR) & (most > -math.inf)
    return scores - torch.where(is_far, most, 0.0) if bool(is_far.any()) else scores


def _fewest(allowed: Tensor) -> Tensor:
    """A mask with one head, and one sequence, for all that are alike."""
    for axis in (1, 0):
        first = allowed.narrow(axis, 0, 1)
        allowed = first if bool((allowed == first).all()) else allowed
    return allowed


# ── windows, and padding that looks at itself ─────────────────────────────────────────────────


def _with_pattern(call: OwnCall, allowed: Tensor) -> OwnCall:
    """The call with what is `allowed` (B or 1, H or 1, Nq, Nk): a window and padding, if it is
    that, and else a mask that means nothing more."""
    batch, _, n_queries, n_keys = call.parts.scores.shape
    one = allowed[:, 0]
    every = [one.any(1)]
    if n_queries == n_keys:
        itself = torch.eye(n_keys, dtype=torch.bool, device=one.device)
        every.append((one & ~itself).any(1))  # padding may look at itself
    places = dict.fromkeys((n_keys - n_queries, 0)) if n_queries <= n_keys else ()
    for keys in every if allowed.shape[1] == 1 else ():
        for position in places:
            window = _window(one, keys, position)
            if window is None:
                continue
            left, right = window
            causal = right == 0
            real = keys[:, position : position + n_queries]
            keys = None if bool(keys.all()) else keys.expand(batch, -1)
            options = Options(
                causal=causal,
                window=(left, None if causal else right),
                mask=None if keys is None else keys[:, None, None, :],
                position=position,
            )
            queries = None if keys is None else real.expand(batch, -1)
            return replace(call, options=options, keys=keys, queries=queries, grows=causal)
    return replace(call, options=Options(mask=allowed), cross=n_queries != n_keys)


def _window(allowed: Tensor, keys: Tensor, position: int) -> tuple[int, int] | None:
    """How far real queries look to the left and to the right, if that is all that keeps them from
    keys that are real. `allowed` is (B, Nq, Nk), `keys` (B, Nk), and query i at i + position."""
    _, n_queries, n_keys = allowed.shape
    key = torch.arange(n_keys, device=allowed.device)
    behind = key[position : position + n_queries, None] - key  # how far a key is behind a query
    real = keys[:, position : position + n_queries]
    looks = behind[(allowed & real[..., None]).any(0)]
    if not looks.numel():
        return None
    left, right = max(int(looks.max()), 0), max(-int(looks.min()), 0)
    expected = keys[:, None] & (behind <= left) & (behind >= -right)
    return (left, right) if bool((allowed == expected)[real].all()) else None
