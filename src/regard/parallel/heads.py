"""From parts of the sequence with all heads to all tokens of a group with a share of the heads.

Tokens are the first axis in memory of what is exchanged, so that a run of them is one message and
is received where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.parallel.exchange import Ranks
from regard.parallel.layout import length, within
from regard.parallel.plan import Plan

Share = Callable[[int], slice]  # the heads of a rank


def to_heads(ranks: Ranks, plan: Plan, x: Tensor, size: int, share: Share, name: str) -> Tensor:
    """x (B, H, n, …), this rank's part of `size` tokens, as (B, share, group's tokens, …)."""
    own = plan.layout.runs(size, ranks.rank)
    into = plan.group_runs(size, ranks.rank)
    heads = share(ranks.rank)
    shape = (length(into), x.shape[0], heads.stop - heads.start, *x.shape[3:])
    found = x.new_empty(shape)  # tokens first
    sends: list[tuple[int, Tensor]] = []
    receives: list[tuple[int, Tensor]] = []
    for peer in plan.members(ranks.rank):
        part = x[:, share(peer)]
        for run in own:
            sends.append((peer, tokens_first(part[:, :, within(run, own)])))
        # A run of a rank lies in one run of its group.
        runs = plan.layout.runs(size, peer)
        receives += [(peer, found[within(run, into)]) for run in runs]
    ranks.swap(name, sends, receives).wait()
    return found.movedim(0, 2)


def from_heads(ranks: Ranks, plan: Plan, x: Tensor, size: int, share: Share, name: str) -> Tensor:
    """The other way: (B, share, group's tokens, …) as (B, H, n, …), this rank's part.

    It lies in memory as (B, n, H, …).
    """
    own, here = plan.layout.runs(size, ranks.rank), plan.group_runs(size, ranks.rank)
    sends: list[tuple[int, Tensor]] = []
    parts: list[tuple[int, slice, Tensor]] = []
    n_heads = max(share(peer).stop for peer in plan.members(ranks.rank))
    found = x.new_empty((x.shape[0], length(own), n_heads, *x.shape[3:])).transpose(1, 2)
    for peer in plan.members(ranks.rank):
        for run in plan.layout.runs(size, peer):
            sends.append((peer, tokens_first(x[:, :, within(run, here)])))
        heads = share(peer)
        for run in own:
            shape = (run[1] - run[0], x.shape[0], heads.stop - heads.start, *x.shape[3:])
            parts.append((peer, within(run, own), x.new_empty(shape)))
    ranks.swap(name, sends, [(peer, part) for peer, _, part in parts]).wait()
    members = plan.members(ranks.rank)
    is_shared = len(members) > 1 and share(members[0]) == share(members[-1])
    for peer, where, part in parts:
        if is_shared and peer > members[0]:  # gradients of what all of them were given
            found[:, share(peer), where] += part.movedim(0, 2)
        else:
            found[:, share(peer), where] = part.movedim(0, 2)
    return found


def tokens_first(x: Tensor) -> Tensor:
    """(B, H, n, …) as (n, B, H, …), contiguous."""
    return x.movedim(2, 0).contiguous()


class ToHeads(torch.autograd.Function):
    """`to_heads`, with gradients that go back the same way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks, *rest: Any) -> Tensor:
        ctx.rest = ranks, *rest
        return to_heads(ranks, rest[0], x, *rest[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ranks, plan, size, share, name = ctx.rest
        with ranks.together():
            found = from_heads(ranks, plan, grad, size, share, f"gradient of {name}")
        return found, None, None, None, None, None


class FromHeads(torch.autograd.Function):
    """`from_heads`, with gradients that go back the same way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks, *rest: Any) -> Tensor:
        ctx.rest = ranks, *rest
        return from_heads(ranks, rest[0], x, *rest[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ranks, plan, size, share, name = ctx.rest
        with ranks.together():
            found = to_heads(ranks, plan, grad, size, share, f"gradient of {name}")
        return found, None, None, None, None, None
