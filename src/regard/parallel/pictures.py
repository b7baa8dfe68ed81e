"""Map and received of queries whose keys are on many ranks: a second round, on the joint lse."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._attention import pooled
from regard._attention.forward import bin_of
from regard._attention.problem import computed_in
from regard.observation import See
from regard.parallel.exchange import Ranks, computing
from regard.parallel.pairs import options_of
from regard.parallel.plan import Plan
from regard.parallel.ring import Ring

_CELLS = 2**20  # of a picture of some rows by all their keys that are in memory at a time


def look(
    ring: Ring, q: Tensor, k: Tensor, lse: Tensor, see: See, counted: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """The sums of a map's rows with how many queries each has, (B, H, R, C + 1) in float64, and
    what this rank's own keys have received, (B, H, nk); None for what is not asked for.

    q and lse (B, H, nq, …) are of this rank's queries, `counted` (B, nq) says which of them count.
    """
    n_queries, n_keys = ring.size
    dtype, device = computed_in(q.dtype), q.device
    has_key = lse != -torch.inf
    if counted is not None:
        has_key = has_key & counted[:, None]
        lse = lse.masked_fill(~counted[:, None], torch.inf)  # a weight of 0 everywhere
    sums, rows, columns = None, 1, 1
    runs = ring.plan.group_runs(n_queries, ring.ranks.rank)
    if see.map is not None:
        rows, columns = see.map
        sums = lse.new_zeros((*lse.shape[:2], rows, columns + 1), dtype=torch.float64)
        places = [torch.arange(*run, device=device) for run in runs]
        place = torch.cat(places) if places else torch.empty(0, dtype=torch.int64, device=device)
        row = (place * rows // max(n_queries, 1)).expand_as(lse)
        sums[..., -1].scatter_add_(2, row, has_key.double())
    totals = ring.totals("received")
    for source, (block,) in ring.blocks("keys", (k,)):
        with computing(f"pictures of block {source}"):
            keys = block.to(dtype)
            received = lse.new_zeros((keys.shape[2], *lse.shape[:2]), dtype=torch.float64)
            for pair in ring.pairs(source):
                column = bin_of(pair.key, pair.key_end, n_keys, columns, device)
                arguments = options_of(ring.options, pair, ring.size).arguments()
                some = q[:, :, pair.rows].to(dtype), keys[:, :, pair.keys]
                arguments |= {"lse": lse[:, :, pair.rows], "backend": ring.backend}
                width = lse.shape[0] * lse.shape[1] * max(pair.key_end - pair.key, 1)
                groups = _bands(pair.first, pair.end, n_queries, rows, max(_CELLS // width, 1))
                for first, count, height in groups:
                    start = first - pair.first
                    band = slice(start, start + count * height)
                    shape = (count, pair.key_end - pair.key)
                    found = pooled(*some, rows=band, shape=shape, **arguments)
                    found = found.double().mul_(height)  # sums of the rows of each band
                    received[pair.keys] += found.sum(2).movedim(2, 0)
                    if sums is not None:
                        at = first * rows // n_queries
                        sums[:, :, at : at + count].index_add_(3, column, found)
        if see.received:
            totals.add(source, [received])
    return sums, totals.home()[0].movedim(0, 2).to(lse.dtype) if see.received else None


def _bands(
    first: int, end: int, n_queries: int, rows: int, most: int
) -> list[tuple[int, int, int]]:
    """Queries [first, end), by the rows of a map that they fall into: (first query, how many rows,
    queries in each), as many rows together as have equally many queries, but not above `most`.

    >>> _bands(2, 10, 10, 4, 99)  # rows begin at queries 0, 3, 5 and 8
    [(2, 1, 1), (3, 1, 2), (5, 1, 3), (8, 1, 2)]
    >>> _bands(0, 12, 12, 4, 99)
    [(0, 4, 3)]
    """
    found: list[tuple[int, int, int]] = []
    while first < end:
        row = first * rows // n_queries
        stop = min(-(-(row + 1) * n_queries // rows), end)
        height = stop - first
        before = found[-1] if found else (0, 0, 0)
        if (
            before[2] == height
            and before[1] < most
            and before[0] * rows // n_queries + before[1] == row
        ):
            found[-1] = (before[0], before[1] + 1, height)
        else:
            found.append((first, 1, height))
        first = stop
    return found


def join_maps(ranks: Ranks, plan: Plan, sums: Tensor, dtype: torch.dtype) -> Tensor:
    """The map (B, H, R, C) of all, on every rank, from sums and counts (B, share, R, C + 1).

    Each rank adds up some of the rows, in the order of the ranks, and sends them to all.
    """
    batch, _, rows, columns = sums.shape

    def of(rank: int) -> slice:
        return slice(rank * rows // ranks.count, (rank + 1) * rows // ranks.count)

    own = of(ranks.rank)
    everyone = range(ranks.count)
    parts = [
        sums.new_empty((batch, _width(plan.share(peer)), own.stop - own.start, columns))
        for peer in everyone
    ]
    sends = [(peer, sums[:, :, of(peer)].contiguous()) for peer in everyone]
    ranks.swap("sums of the map", sends, list(zip(everyone, parts, strict=True))).wait()
    total = sums.new_zeros((batch, plan.n_heads, own.stop - own.start, columns))
    for peer, part in zip(everyone, parts, strict=True):
        total[:, plan.share(peer)] += part
    mean = total[..., :-1].div(total[..., -1:].clamp(min=1.0)).to(dtype)
    whole = [
        mean.new_empty((batch, plan.n_heads, _width(of(peer)), columns - 1)) for peer in everyone
    ]
    sends = [(peer, mean) for peer in everyone]
    ranks.swap("map", sends, list(zip(everyone, whole, strict=True))).wait()
    return torch.cat(whole, 2)


def _width(some: slice) -> int:
    return some.stop - some.start
