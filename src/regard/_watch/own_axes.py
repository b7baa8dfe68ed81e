"""Which axes are sequences and heads, where a module computes attention by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

_NAMES = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "num_head")


def batch_and_heads(
    lead: tuple[int, ...], v: Tensor, n_queries: int, module: nn.Module, given: Iterable[Any]
) -> tuple[int, int] | None:
    """(B, H) of weights (*lead, Nq, Nk) and values v, in a module that was given some arguments.

    One axis is B, or both in one, if the module says how many heads it has and its input how many
    sequences. Three are groups of heads, if those of a group share their values; else they may be
    pieces of a text. None: it cannot be told.
    """
    if not lead:
        return 1, 1
    heads = _heads(module)
    batch = _batch(n_queries, given)
    if len(lead) == 1:
        is_both = batch is not None and heads > 1 and lead[0] == batch * heads
        return (lead[0] // heads, heads) if is_both else (lead[0], 1)
    if len(lead) == 2:
        is_other_way = lead == (heads, batch) and heads != batch
        return None if is_other_way else (lead[0], lead[1])
    has_groups = len(lead) == 3 and v.dim() == 5 and v.shape[2] == 1 < lead[2]
    return (lead[0], lead[1] * lead[2]) if has_groups else None


def _heads(module: nn.Module) -> int:
    """How many a module says it has; 0 if it does not."""
    found = (vars(module).get(name) for name in _NAMES)
    return next((n for n in found if type(n) is int), 0)


def _batch(n_queries: int, given: Iterable[Any]) -> int | None:
    """How many sequences are in the first argument, (B, N, …) or (N, B, …)."""
    x = next((x for x in given if isinstance(x, Tensor) and x.dim() >= 3), None)
    if x is None:
        return None
    if x.shape[1] == n_queries:
        return x.shape[0]
    return x.shape[1] if x.shape[0] == n_queries else None


def fitted(x: Tensor, batch: int, heads: int) -> Tensor | None:
    """x (…, N, D) as (B, some heads that share, N, D); None if it is not that."""
    lead, rest = tuple(x.shape[:-2]), x.shape[-2:]
    if math.prod(lead) == batch * heads:
        return x.reshape(batch, heads, *rest)
    if len(lead) == 3 and lead[2] == 1:  # for all heads of a group
        lead, x = lead[:2], x[:, :, 0]
    if len(lead) == 2 and lead[0] in (1, batch) and lead[1] and heads % lead[1] == 0:
        return x.expand(batch, *x.shape[1:])
    if math.prod(lead) in (1, batch):
        return x.reshape(-1, 1, *rest).expand(batch, 1, *rest)
    return None
