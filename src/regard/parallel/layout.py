"""Which tokens of a sequence each rank holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard._arguments import WrongValue, shown

Kind = Literal["contiguous", "zigzag"]
Run = tuple[int, int]  # the tokens [start, stop)


@dataclass(frozen=True)
class Layout:
    """A sequence cut among ranks, of any length: parts differ by a few tokens, and may be empty.

    - "contiguous": of P ranks, rank r holds the tokens [⌊r·N/P⌋, ⌊(r+1)·N/P⌋).
    - "zigzag": of 2·P chunks, chunk c being [⌊c·N/2P⌋, ⌊(c+1)·N/2P⌋), rank r holds chunks r and
      2P−1−r, in this order. What early tokens have too little to look at, late ones have too much:
      under causality all ranks have the same work.

    >>> [Layout("zigzag", 2).runs(11, rank) for rank in range(2)]
    [[(0, 2), (8, 11)], [(2, 8)]]
    """

    kind: Kind
    ranks: int

    def runs(self, size: int, rank: int) -> list[Run]:
        """The tokens of a rank of a sequence so long, in order; runs that touch are one.

        >>> Layout("contiguous", 3).runs(7, 1)
        [(2, 4)]
        """
        pieces, chosen = self.ranks, [rank]
        if self.kind == "zigzag":
            pieces, chosen = 2 * self.ranks, [rank, 2 * self.ranks - 1 - rank]
        found: list[Run] = []
        for piece in chosen:
            start, stop = piece * size // pieces, (piece + 1) * size // pieces
            if found and found[-1][1] == start:
                found[-1] = (found[-1][0], stop)
            elif start < stop:
                found.append((start, stop))
        return found

    def length(self, size: int, rank: int) -> int:
        """How many tokens a rank holds.

        >>> [Layout("contiguous", 4).length(3, rank) for rank in range(4)]
        [0, 1, 1, 1]
        """
        return length(self.runs(size, rank))


def length(runs: list[Run]) -> int:
    """How many tokens there are in some runs."""
    return sum(stop - start for start, stop in runs)


def within(run: Run, runs: list[Run]) -> slice:
    """Where a run lies, among tokens that are kept as these runs, one behind the other.

    >>> within((9, 11), [(0, 2), (8, 11)])
    slice(3, 5, None)
    """
    before = 0
    for start, stop in runs:
        if start <= run[0] and run[1] <= stop:
            return slice(before + run[0] - start, before + run[1] - start)
        before += stop - start
    raise ValueError(f"within(): {run} must lie in one of {runs}; it does not.")


def checked_kind(call: str, kind: object) -> Kind:
    if kind not in ("contiguous", "zigzag"):
        raise WrongValue(
            f"{call}: layout must be 'contiguous' or 'zigzag'; got {shown(kind)}. "
            "Zigzag shares causal work out evenly."
        )
    return kind
