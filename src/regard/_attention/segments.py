"""Packed sequences: of each query the keys of its own segment, and where it stands among them."""

from __future__ import annotations

import torch
from torch import Tensor


def ids_of(cumulative: Tensor, n_tokens: int) -> Tensor:
    """The segment of each token, (1, N), from where the segments begin and the last one ends; −1
    for tokens that are in none.

    >>> ids_of(torch.tensor([0, 2, 2, 5]), 6).tolist()
    [[0, 0, 2, 2, 2, -1]]
    """
    token = torch.arange(n_tokens, device=cumulative.device)
    found = torch.searchsorted(cumulative.to(torch.int64).contiguous(), token, right=True) - 1
    return found.masked_fill(found == cumulative.shape[0] - 1, -1)[None]


def spans_of(queries: Tensor, keys: Tensor, position: int | None) -> Tensor:
    """(B, Nq, 3) from ids (B, Nq) and (B, Nk): the keys [first, end) of a query's segment, and
    where it stands, the first key of all being at 0.

    Within its segment a query is at its place among the segment's queries, plus `position`; that is
    the difference of their numbers, unless given: the last query stands beside the last key.

    >>> spans_of(torch.tensor([[4, 7, 7]]), torch.tensor([[4, 4, 7, 7, 7]]), None)[0].tolist()
    [[0, 2, 1], [2, 5, 3], [2, 5, 4]]
    """
    batch = max(queries.shape[0], keys.shape[0])
    queries, keys = queries.expand(batch, -1), keys.expand(batch, -1)
    first, end = _runs(queries, keys)
    own_first, own_end = _runs(queries, queries)
    before = torch.arange(queries.shape[1], device=queries.device) - own_first
    shift = (end - first) - (own_end - own_first) if position is None else position
    return torch.stack((first, end, first + before + shift), -1)


def spans_of_lengths(queries: Tensor, keys: Tensor, n_queries: int, position: int | None) -> Tensor:
    """The same as (1, Nq, 3) from cumulative lengths of as many segments: no id needs to be found.

    >>> ends = torch.tensor([0, 1, 3]), torch.tensor([0, 2, 5])
    >>> spans_of_lengths(*ends, 3, None)[0].tolist()
    [[0, 2, 1], [2, 5, 3], [2, 5, 4]]
    """
    queries, keys = queries.to(torch.int64), keys.to(torch.int64)
    first, end = keys[:-1], keys[1:]
    shift: Tensor | int
    shift = (end - first) - queries.diff() if position is None else position
    # Of each segment, and of what is in none: its keys, and where a query before all would stand.
    of_segment = torch.stack((first, end, first - queries[:-1] + shift), -1)
    of_segment = torch.cat((of_segment, of_segment.new_zeros(1, 3)))
    counts = torch.cat((queries.diff(), n_queries - queries[-1:]))
    spans = of_segment.repeat_interleave(counts, 0, output_size=n_queries)
    spans[:, 2] += torch.arange(n_queries, device=queries.device)
    return spans[None]


def scattered(ids: Tensor) -> Tensor:
    """Does an id come back after others came between? (B, N)

    >>> scattered(torch.tensor([[3, 3, 1], [3, 1, 3]])).any(-1).tolist()
    [False, True]
    """
    first, end = _runs(ids, ids)
    token = torch.arange(ids.shape[1], device=ids.device)
    return (ids >= 0) & ((token < first) | (token >= end))


def key_lists(chosen: Tensor, n_queries: int, n_keys: int) -> Tensor:
    """Keys that are chosen for each query, (B, Nq, K) or (B, H, Nq, K), as `Options` has them:
    (B, H, Nq, K), ascending, −1 for what is no key.

    >>> key_lists(torch.tensor([[[4, 2, -7]]]), 2, 4).tolist()
    [[[[-1, -1, 2], [-1, -1, 2]]]]
    """
    chosen = chosen if chosen.dim() == 4 else chosen[:, None]
    chosen = chosen.to(torch.int64).expand(-1, -1, n_queries, -1)
    if not chosen.shape[3]:  # none at all is one that is none
        chosen = chosen.new_full((*chosen.shape[:3], 1), -1)
    return chosen.masked_fill((chosen < 0) | (chosen >= n_keys), -1).sort(-1).values


def _runs(wanted: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Where the run of each wanted id begins and ends among the ids; nowhere if it is less than 0
    or not among them."""
    if not ids.shape[1]:
        nowhere = torch.zeros_like(wanted)
        return nowhere, nowhere
    ordered, order = ids.sort(dim=-1, stable=True)
    wanted = wanted.contiguous()
    low = torch.searchsorted(ordered, wanted)
    count = torch.searchsorted(ordered, wanted, right=True) - low
    count = count.masked_fill(wanted < 0, 0)
    first = order.gather(-1, low.clamp(max=ids.shape[1] - 1)).masked_fill(count == 0, 0)
    return first, first + count
