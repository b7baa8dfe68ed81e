"""What was found of some keys after the other, merged by lse as it comes: memory of one result.

The order is that in which blocks come by, which the layout alone decides: the bits do not depend on
time. The formulas are those of `regard.merge` over keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.observation import Observation, See

_NOTHING = -torch.inf
_LISTS = (("top_keys", "top_weights"), ("contribution_keys", "contribution"))


class Merging:
    """Output and observation of n queries, of the keys that have come so far."""

    def __init__(self, out: Tensor, see: See) -> None:
        """`out` (B, H, n, Dv) is room for the output, in the type of the computation."""
        self.out = out.zero_()
        rows = out.shape[:3]
        self.lse = out.new_full(rows, _NOTHING)
        self.entropy = out.new_zeros(rows) if see.entropy else None
        self.distance = out.new_zeros(rows) if see.distance else None
        self.max_logit = out.new_full(rows, _NOTHING) if see.max_logit else None
        self.spans = None if see.spans is None else out.new_zeros((*rows, see.n_spans))
        self.top_keys, self.top_weights = _lists(out, see.top)
        self.contribution_keys, self.contribution = _lists(out, see.contribution)

    def add(self, rows: slice, first_key: int, out: Tensor, seen: Observation) -> None:
        """What was found of keys from `first_key` on, by these queries."""
        before, new = self.lse[:, :, rows], seen.lse
        lse = torch.logaddexp(before, new)
        finite = lse.masked_fill(lse == _NOTHING, 0.0)
        old_share, share = (before - finite).exp_(), (new - finite).exp_()
        self.out[:, :, rows].mul_(old_share[..., None]).addcmul_(out, share[..., None])
        if self.entropy is not None and seen.entropy is not None:
            mixed = self.entropy[:, :, rows].mul_(old_share).addcmul_(seen.entropy, share)
            mixed.add_(torch.special.entr(old_share)).add_(torch.special.entr(share)).abs_()
        if self.distance is not None and seen.distance is not None:
            self.distance[:, :, rows].mul_(old_share).addcmul_(seen.distance, share)
        if self.max_logit is not None and seen.max_logit is not None:
            largest = self.max_logit[:, :, rows]
            torch.maximum(largest, seen.max_logit, out=largest)
        if self.spans is not None and seen.spans is not None:
            self.spans[:, :, rows].mul_(old_share[..., None]).addcmul_(seen.spans, share[..., None])
        for keys, sizes in _LISTS:
            if getattr(self, keys) is not None:
                old = getattr(self, keys)[:, :, rows], getattr(self, sizes)[:, :, rows]
                found = getattr(seen, keys), getattr(seen, sizes)
                _take_strongest(*old, *found, first_key, old_share, share)
        before.copy_(lse)

    def with_sinks(self, sinks: Tensor) -> None:
        """One more logit a head (H,), after all keys: it takes its share, and gives nothing."""
        sinks = sinks.to(self.lse.dtype)[:, None]
        has_key = self.lse != _NOTHING
        lse = torch.where(has_key, torch.logaddexp(self.lse, sinks), self.lse)
        share = torch.where(has_key, (self.lse - lse).exp_(), 0.0)
        self.out.mul_(share[..., None])
        if self.entropy is not None:
            self.entropy.mul_(share).add_(torch.special.entr(share)).abs_()
        if self.distance is not None:
            self.distance.mul_(share)
        for x in (self.top_weights, self.contribution, self.spans):
            if x is not None:
                x.mul_(share[..., None])
        self.lse = lse


def _lists(out: Tensor, count: int) -> tuple[Tensor | None, Tensor | None]:
    """Room for the keys of each query, and for their sizes."""
    if not count:
        return None, None
    shape = (*out.shape[:3], count)
    return torch.full(shape, -1, device=out.device), out.new_zeros(shape)


def _take_strongest(
    old_keys: Tensor,
    old_sizes: Tensor,
    new_keys: Tensor,
    new_sizes: Tensor,
    first_key: int,
    old_share: Tensor,
    share: Tensor,
) -> None:
    """Put new keys among the old ones of the same rows, by their sizes as shares of the whole."""
    moved = torch.where(new_keys < 0, -1, new_keys + first_key)
    keys = torch.cat((old_keys, moved), -1)
    sizes = torch.cat((old_sizes * old_share[..., None], new_sizes * share[..., None]), -1)
    # What is missing is sorted behind a key whose size has become 0.
    ordered, order = sizes.masked_fill_(keys < 0, -1.0).sort(dim=-1, descending=True, stable=True)
    count = old_keys.shape[-1]
    old_keys.copy_(keys.gather(-1, order[..., :count]))
    old_sizes.copy_(ordered[..., :count]).clamp_(min=0.0)
