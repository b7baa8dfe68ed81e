"""Sketches: how a number is distributed, in counts that can be added up.

The bins are those of the number's own bits: a float32 without its last 17 bits is its exponent and
six bits of what follows, so 64 bins for each power of two. A bin is at most 1/64 of its lower end
wide, and a quantile that is told by its middle is off by 1/128 of itself at most. Bins are the same
everywhere, so sketches of parts add up to that of the whole, exactly and in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    import pyarrow as pa

# What is measured of every query of every head; `regard.Head` says what each is.
STATISTICS = ("entropy", "spread", "distance", "first", "self", "previous", "induction")
ERROR = 1 / 128  # of a quantile, as a share of it
LEAST, MOST = 2.0**-20, 2.0**24  # below is one bin with 0, and above is one bin
_SHIFT = 17
_FIRST = int(np.float32(LEAST).view(np.int32)) >> _SHIFT
BINS = (int(np.float32(MOST).view(np.int32)) >> _SHIFT) - _FIRST + 2
_WAITING = 1 << 20  # numbers of a layer that are counted together

Ints = NDArray[np.int64]


def bins_of(x: NDArray[np.float32]) -> NDArray[np.int32]:
    """The bin of each number, which is no NaN: 0 below `LEAST`, the last from `MOST` on.

    >>> bins_of(np.float32([0.0, -1.0, 2.0**-20, 1.0, 1.01, 1.02])).tolist()
    [0, 0, 1, 1281, 1281, 1282]
    """
    places = (x.view(np.int32) >> _SHIFT) - (_FIRST - 1)
    return np.clip(places, 0, BINS - 1)


def edges_of(bins: Ints) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lower end of each bin, which belongs to it, and the upper one, which does not.

    >>> [x.tolist() for x in edges_of(np.array([0, 1281]))]
    [[0.0, 1.0], [9.5367431640625e-07, 1.015625]]
    """

    def start(number: Ints) -> NDArray[np.float64]:
        bits = ((number + (_FIRST - 1)) << _SHIFT).astype(np.int32)
        return np.where(number < 1, 0.0, bits.view(np.float32).astype(np.float64))

    return start(bins), np.where(bins == BINS - 1, math.inf, start(bins + 1))


@dataclass
class Sketch:
    """How one statistic of one head is distributed over queries: how many there were, their sum,
    the least and the largest, and how many fell into each bin that has some.
    """

    count: int = 0
    sums: list[float] = field(default_factory=list[float])
    least: float = math.inf
    most: float = -math.inf
    bins: dict[int, int] = field(default_factory=dict[int, int])

    def add(
        self, count: int, total: float, least: float, most: float, bins: Mapping[int, int]
    ) -> None:
        """Take in another one. Sums are added when all are there: their order is nothing."""
        self.count += count
        self.sums.append(total)
        self.least, self.most = min(self.least, least), max(self.most, most)
        for place, number in bins.items():
            self.bins[place] = self.bins.get(place, 0) + number

    @property
    def total(self) -> float:
        """The sum, rounded once."""
        return math.fsum(self.sums)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """The least number that so many have, or a smaller one; off by `ERROR` of itself at most,
        and by `LEAST` below that.

        >>> one = Sketch()
        >>> one.add(3, 7.0, 1.0, 4.0, {1281: 1, 1345: 1, 1409: 1})
        >>> one.quantile(0.5), one.quantile(1.0)
        (2.015625, 4.0)
        """
        if not self.count:
            return None
        places = np.array(sorted(self.bins), dtype=np.int64)
        so_far = np.cumsum([self.bins[place] for place in places.tolist()])
        wanted = min(max(math.ceil(share * self.count), 1), self.count)
        low, high = edges_of(places[[int(np.searchsorted(so_far, wanted))]])
        middle = (low[0] + (high[0] if math.isfinite(high[0]) else low[0])) / 2
        return float(min(max(middle, self.least), self.most))


class Gathered:
    """The sketches of one layer while its texts are read: (heads, statistics, …) each."""

    def __init__(self, heads: int) -> None:
        shape = (heads, len(STATISTICS))
        self.count = np.zeros(shape, dtype=np.int64)
        self.total = np.zeros(shape)
        self.least = np.full(shape, np.inf, dtype=np.float32)
        self.most = np.full(shape, -np.inf, dtype=np.float32)
        self._bins = np.zeros((*shape, BINS), dtype=np.int64)
        self._first = torch.arange(heads * len(STATISTICS), dtype=torch.int32).view(*shape) * BINS
        self._waiting: list[Tensor] = []  # the places of numbers that are not yet counted

    def add(self, names: Sequence[str], numbers: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
        """Take in what was measured of queries, (names, B, H, Nq), NaN where there is nothing:
        the sums, and how many there were, (names, B, H)."""
        n = [STATISTICS.index(name) for name in names]
        sums = torch.nansum(numbers, 3, dtype=torch.float64).numpy()
        counts = numbers.shape[3] - np.isnan(numbers.numpy()).sum(3, dtype=np.int32)
        self.count[:, n] += counts.sum(1).T
        self.total[:, n] += sums.sum(1).T
        if not numbers.numel():
            return sums, counts
        numbers = numbers.float()
        low, high = (numbers.nan_to_num(x, math.inf, -math.inf) for x in (math.inf, -math.inf))
        self.least[:, n] = np.minimum(self.least[:, n], low.amin((1, 3)).numpy().T)
        self.most[:, n] = np.maximum(self.most[:, n], high.amax((1, 3)).numpy().T)
        # What is nothing is infinite here, and falls into the last bin, from which it is taken.
        places = (low.view(torch.int32) >> _SHIFT).sub_(_FIRST - 1).clamp_(0, BINS - 1)
        places += self._first.T[n][:, None, :, None]
        self._waiting.append(places.view(-1))
        self._bins[:, n, -1] -= numbers.shape[1] * numbers.shape[3] - counts.sum(1).T
        if sum(map(len, self._waiting)) > _WAITING:
            self._tally()
        return sums, counts

    def _tally(self) -> None:
        if self._waiting:
            found = torch.bincount(torch.cat(self._waiting), minlength=self._bins.size)
            self._bins += found.numpy().reshape(self._bins.shape)
            self._waiting.clear()

    @property
    def bins(self) -> Ints:
        """How many numbers fell into each."""
        self._tally()
        return self._bins


# ── as a table ────────────────────────────────────────────────────────────────────────────────


def schema(arrow: Any) -> pa.Schema:
    """One row for each layer, head and statistic; `bins` and `counts` are lists of one length."""
    whole = arrow.int32()
    numbers = dict.fromkeys(("sum", "least", "most"), arrow.float64())
    lists = {"bins": arrow.list_(whole), "counts": arrow.list_(arrow.int64())}
    return arrow.schema(
        {
            **{"layer": whole, "head": whole, "statistic": arrow.string()},
            **{"count": arrow.int64(), **numbers, **lists},
        }
    )


def table_of(arrow: Any, rows: Iterable[tuple[int, int, str, Sketch]]) -> pa.Table:
    """The table of sketches, each with its layer, its head and its statistic."""
    made = [
        {
            "layer": layer,
            "head": head,
            "statistic": name,
            "count": sketch.count,
            "sum": sketch.total,
            "least": sketch.least if sketch.count else None,
            "most": sketch.most if sketch.count else None,
            "bins": sorted(sketch.bins),
            "counts": [sketch.bins[place] for place in sorted(sketch.bins)],
        }
        for layer, head, name, sketch in rows
    ]
    return arrow.Table.from_pylist(made, schema=schema(arrow))


def gathered_table(arrow: Any, gathered: Iterable[Gathered]) -> pa.Table:
    """The same of the layers of a unit, in order."""
    tables = [schema(arrow).empty_table()]
    for layer, each in enumerate(gathered):
        heads, count = len(each.count), each.count.reshape(-1)
        bins = each.bins.reshape(len(count), BINS)
        row, place = np.nonzero(bins)
        ends = np.concatenate([[0], np.bincount(row, minlength=len(count)).cumsum()])
        lists = (place, bins[row, place])
        none = count == 0
        columns = [
            arrow.array(np.full(len(count), layer), arrow.int32()),
            arrow.array(np.repeat(np.arange(heads), len(STATISTICS)), arrow.int32()),
            arrow.array(list(STATISTICS) * heads, arrow.string()),
            arrow.array(count),
            arrow.array(each.total.reshape(-1)),
            *(
                arrow.array(x.reshape(-1).astype(np.float64), mask=none)
                for x in (each.least, each.most)
            ),
            *(
                arrow.ListArray.from_arrays(arrow.array(ends, arrow.int32()), arrow.array(x, kind))
                for x, kind in zip(lists, (arrow.int32(), arrow.int64()), strict=True)
            ),
        ]
        tables.append(arrow.Table.from_arrays(columns, schema=schema(arrow)))
    return arrow.concat_tables(tables).combine_chunks()


def merged(tables: Iterable[pa.Table]) -> dict[tuple[int, int, str], Sketch]:
    """The sketches of all tables, by layer, head and statistic, added up.

    >>> import pyarrow
    >>> one = Sketch()
    >>> one.add(2, 3.0, 1.0, 2.0, {1281: 1, 1345: 1})
    >>> both = merged([table_of(pyarrow, [(0, 0, "entropy", one)])] * 2)[0, 0, "entropy"]
    >>> both.count, both.total, both.bins
    (4, 6.0, {1281: 2, 1345: 2})
    """
    found: dict[tuple[int, int, str], Sketch] = {}
    counts: dict[tuple[int, int, str], Ints] = {}
    for table in tables:
        keys = [*zip(*(table[name].to_pylist() for name in _KEY), strict=True)]
        numbers = zip(*(table[name].to_pylist() for name in _NUMBERS), strict=True)
        bins, many = (table[name].combine_chunks() for name in ("bins", "counts"))
        ends = bins.offsets.to_numpy() - bins.offsets[0].as_py()
        places, values = (x.flatten().to_numpy() for x in (bins, many))
        for n, (key, (count, total, least, most)) in enumerate(zip(keys, numbers, strict=True)):
            sketch = found.setdefault(key, Sketch())
            if count:
                sketch.add(count, total, least, most, {})
                here = slice(ends[n], ends[n + 1])
                counts.setdefault(key, np.zeros(BINS, dtype=np.int64))[places[here]] += values[here]
    for key, dense in counts.items():
        filled = np.flatnonzero(dense).tolist()
        found[key].bins = dict(zip(filled, dense[filled].tolist(), strict=True))
    return dict(sorted(found.items(), key=lambda each: _order(*each[0])))


_KEY, _NUMBERS = ("layer", "head", "statistic"), ("count", "sum", "least", "most")


def _order(layer: int, head: int, name: str) -> tuple[int, int, int]:
    return layer, head, STATISTICS.index(name)
