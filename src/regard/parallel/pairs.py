"""Some queries and some keys of one attention, as an attention of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard._attention import Options
from regard._attention.options import part
from regard.parallel.layout import Run, within

# Queries that are computed at a time, as what is found of them waits in memory to be merged; and
# keys, of which the kernel has a copy in an order of its own.
_ROWS, _KEYS = 1024, 4096


@dataclass(frozen=True)
class Pair:
    """Queries [first, end) by keys [key, key_end), as the whole sequence counts them."""

    first: int
    end: int
    key: int
    key_end: int
    rows: slice  # where the queries are among those of this rank
    keys: slice  # where the keys are in their block

    def seed(self, seed: int) -> Tensor:
        """Of its own: which weights are dropped here has nothing to do with any other pair."""
        return derived(seed, self.first, self.key)


def derived(seed: int, *where: int) -> Tensor:
    """A seed that is made of another and of what it is for."""
    said = " ".join(map(str, (seed, *where))).encode()
    digest = hashlib.blake2b(said, digest_size=8).digest()
    return torch.tensor(int.from_bytes(digest, "little") >> 2)


def pairs(
    options: Options, queries: list[Run], keys: list[Run], size: tuple[int, int]
) -> Iterator[Pair]:
    """The pairs of these runs in which a query may attend to a key by its position.

    `size` is (Nq, Nk) of the whole. Keys that none of the queries of a pair may see are left out.
    """
    for start, stop in queries:
        for first in range(start, stop, _ROWS):
            end = min(first + _ROWS, stop)
            low, high = _seen(options, first, end, size)
            rows = within((first, end), queries)
            for run in keys:
                key, last = max(run[0], low), min(run[1], high)
                for start_key in range(key, last, _KEYS):
                    some = start_key, min(start_key + _KEYS, last)
                    yield Pair(first, end, *some, rows, within(some, keys))


def _seen(options: Options, first: int, end: int, size: tuple[int, int]) -> Run:
    """The keys [low, high) that some of these queries may attend to by position and segment."""
    offset = options.offset(*size)
    least, most = first + offset, end - 1 + offset
    low, high = 0, size[1]
    if options.segments is not None:
        some = options.segments[:, first:end]
        lows, highs = some.amin((0, 1)).tolist(), some.amax((0, 1)).tolist()
        low, high, least, most = lows[0], min(high, highs[1]), lows[2], highs[2]
    left, right = options.bounds(least, most)
    return max(low, low if left is None else left), min(high, high if right is None else right)


def options_of(options: Options, pair: Pair, size: tuple[int, int]) -> Options:
    """The options of a pair: of the whole, but masks, bias and indices are of this rank's rows.

    Sinks are counted once for all pairs, and so are none here.
    """
    keys, shift = slice(pair.key, pair.key_end), pair.key
    n_keys = pair.key_end - pair.key
    segments, indices = options.segments, options.indices
    if segments is not None:
        first, end, place = (segments[:, pair.first : pair.end] - shift).unbind(-1)
        segments = torch.stack((first.clamp(0, n_keys), end.clamp(0, n_keys), place), -1)
    if indices is not None:
        indices = indices[:, :, pair.rows] - shift
        is_here = (indices >= 0) & (indices < n_keys)
        indices = indices.masked_fill_(~is_here, -1).sort(-1).values
    return replace(
        options,
        mask=part(options.mask, pair.rows, keys),
        bias=part(options.bias, pair.rows, keys),
        lengths=None if options.lengths is None else options.lengths - shift,
        sinks=None,
        position=options.offset(*size) + pair.first - shift,
        segments=segments,
        indices=indices,
    )
