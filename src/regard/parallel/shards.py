"""`shard` and `gather`: a whole sequence to the part of each rank, and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard._arguments import WrongType, WrongValue, shown, whole
from regard.parallel.exchange import Ranks, ranks_of
from regard.parallel.layout import Kind, Layout, checked_kind, within


def shard(x: Tensor, mesh: Any, *, layout: Kind = "contiguous", dim: int = 1) -> Tensor:
    """The part of x that this rank holds, of a tensor that all ranks have whole.

    `dim` is the axis of the tokens, of any length: `regard.parallel.Layout` says who holds what.
    Nothing is sent. A part that is one run is a view. Gradients flow to that part of x alone.

    Of ten positions, zigzag, two ranks hold [0, 1, 7, 8, 9] and [2, 3, 4, 5, 6].

    >>> import torch.distributed as dist  # one rank here; torchrun starts more
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> shard(torch.arange(5), dist.group.WORLD, layout="zigzag", dim=0)
    tensor([0, 1, 2, 3, 4])
    >>> dist.destroy_process_group()
    """
    call = "shard()"
    x, dim = _checked(call, x, dim)
    ranks = ranks_of(call, mesh)
    runs = Layout(checked_kind(call, layout), ranks.count).runs(x.shape[dim], ranks.rank)
    parts = [x.narrow(dim, start, stop - start) for start, stop in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts or [x.narrow(dim, 0, 0)], dim)


def gather(x: Tensor, mesh: Any, *, layout: Kind = "contiguous", dim: int = 1) -> Tensor:
    """The whole of which each rank holds a part, on every rank; all of them must ask.

    The other way round from `shard`. The gradient of a part is the sum of what all ranks have made
    of it: if all compute the same from the whole, divide by their number.

    >>> import torch.distributed as dist  # one rank here; torchrun starts more
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> gather(torch.arange(5), dist.group.WORLD, dim=0)
    tensor([0, 1, 2, 3, 4])
    >>> dist.destroy_process_group()
    """
    call = "gather()"
    x, dim = _checked(call, x, dim)
    ranks = ranks_of(call, mesh)
    kind = checked_kind(call, layout)
    if ranks.count == 1:
        return x
    told = ranks.tell("sizes", [x.shape[dim]])
    size, others = sum(each[0] for each in told), Layout(kind, ranks.count)
    wrong = [r for r, each in enumerate(told) if each[0] != others.length(size, r)]
    if wrong:
        expected = [others.length(size, rank) for rank in range(ranks.count)]
        raise WrongValue(
            f"{call}: parts of {size} tokens must be {expected} long, {kind}; got "
            f"{[each[0] for each in told]}. regard.parallel.shard cuts them so."
        )
    return _Gather.apply(x, ranks, others, size, dim)


def gathered(x: Tensor, ranks: Ranks, layout: Layout, size: int, dim: int) -> Tensor:
    """The whole of a tensor whose parts are as the layout says."""
    found = x.new_empty((size, *x.shape[:dim], *x.shape[dim + 1 :]))  # tokens first
    own = x.detach().movedim(dim, 0).contiguous()
    runs = [layout.runs(size, rank) for rank in range(ranks.count)]
    sends = [
        (peer, own[within(run, runs[ranks.rank])])
        for peer in range(ranks.count)
        for run in runs[ranks.rank]
    ]
    receives = [(peer, found[slice(*run)]) for peer in range(ranks.count) for run in runs[peer]]
    ranks.swap("gather", sends, receives).wait()
    return found.movedim(0, dim)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks, layout: Layout, size: int, dim: int) -> Tensor:
        ctx.rest = ranks, layout, size, dim
        with ranks.together():
            return gathered(x, ranks, layout, size, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ranks, layout, size, dim = ctx.rest
        first = grad.movedim(dim, 0).contiguous()
        own = layout.runs(size, ranks.rank)
        sends = [
            (peer, first[slice(*run)])
            for peer in range(ranks.count)
            for run in layout.runs(size, peer)
        ]
        parts = [
            [first.new_empty((stop - start, *first.shape[1:])) for start, stop in own]
            for _ in range(ranks.count)
        ]
        receives = [(peer, part) for peer, some in enumerate(parts) for part in some]
        with ranks.together():
            ranks.swap("gradient of gather", sends, receives).wait()
        empty = first[:0]
        total = torch.cat([empty, *parts[0]])
        for some in parts[1:]:
            total += torch.cat([empty, *some])
        return total.movedim(0, dim), None, None, None, None


def _checked(call: str, x: object, dim: object) -> tuple[Tensor, int]:
    if not isinstance(x, Tensor) or not x.dim():
        raise WrongType(
            f"{call}: x must be a tensor with an axis of tokens; got {shown(x)}. "
            "dim says which it is."
        )
    remedy = "It is the axis of the tokens."
    found = whole(call, "dim", dim, -x.dim(), x.dim() - 1, remedy)
    return x, found % x.dim()
