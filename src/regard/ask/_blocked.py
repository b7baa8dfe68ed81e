"""What an answer loses without a source, beside what it loses without as much of the others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard._statistics import mean
from regard.ask._pass import Again
from regard.ask._places import Places
from regard.ask._predictions import PIECE

LEAST = 0.1  # of a log-probability: what is less than that is called nothing
_PART = 2 / 3  # of what stands elsewhere, blocked at most: so that draws differ

Verdict = Literal["cause", "elsewhere", "little", "alone"]


@dataclass(frozen=True)
class Blocked:
    """A source that no token could see: what a sentence has `lost` of its log-probability, in nats.

    Then `draws` pieces of `tokens` tokens each of the source, and as many of the same length from
    elsewhere, were blocked, one by one: `inside` and `outside` are the mean losses, `low` and
    `high` a 95 % interval of the difference.

    `verdict`: the source is a `cause` if the loss is 0.1 or more and the interval above 0. Else the
    loss is `little`, or no more than `elsewhere`; or the source is `alone`: nothing compares.
    """

    source: int
    lost: float
    tokens: int
    draws: int
    inside: float
    outside: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        if self.draws < 2:
            return "alone"
        if self.lost < LEAST:
            return "little"
        return "cause" if self.low > 0 else "elsewhere"


class Blocking:
    """Passes in which tokens are blocked, each made once; what they leave of an answer."""

    def __init__(
        self, again: Again, places: Places, told: Callable[[int], None] | None = None
    ) -> None:
        self._again, self._places, self._told = again, places, told
        self._known: dict[tuple[int, ...], list[float]] = {}

    def without(self, tokens: Sequence[int]) -> list[float]:
        """Of each sentence its log-probability, if no token sees these."""
        key = tuple(sorted(tokens))
        if key not in self._known:
            logits, _ = self._again.rows(self._places.rows, blocked=key)
            self._known[key] = self.take(logits)
            if self._told is not None:
                self._told(len(self._known))
        return self._known[key]

    def take(self, logits: Tensor) -> list[float]:
        """Of each sentence its log-probability, from the logits (rows, vocabulary)."""
        ids = self._again.reading.ids
        targets = torch.tensor([ids[row + 1] for row in self._places.rows])
        size = max(1, PIECE // logits.shape[1])  # rows that are in memory at a time
        pieces = zip(logits.split(size), targets.split(size), strict=True)
        logs = torch.cat(
            [some.double().log_softmax(-1).gather(1, each[:, None])[:, 0] for some, each in pieces]
        )
        sizes = [len(some) for some in self._places.positions]
        return [float(part.sum()) for part in logs.split(sizes)]

    def check(self, source: int, whole: Sequence[float], draws: int, seed: int) -> list[Blocked]:
        """Block a source and pieces of it and of the others; of each sentence what that says.

        `whole` has the log-probabilities with nothing blocked.
        """
        own, others = self._places.tokens_of(source), self._places.elsewhere(source)
        gone = self.without(own)
        pairs = pieces_of(own, others, draws, seed)
        # (draws, inside and outside, sentences)
        losses = [[_lost(whole, self.without(piece)) for piece in pair] for pair in pairs]
        found: list[Blocked] = []
        for n, before in enumerate(whole):
            inside = [each[0][n] for each in losses]
            outside = [each[1][n] for each in losses]
            apart = [a - b for a, b in zip(inside, outside, strict=True)]
            interval = mean(apart) if len(pairs) > 1 else None
            found.append(
                Blocked(
                    source,
                    before - gone[n],
                    len(pairs[0][0]) if pairs else 0,
                    len(pairs),
                    sum(inside) / len(pairs) if pairs else 0.0,
                    sum(outside) / len(pairs) if pairs else 0.0,
                    0.0 if interval is None else interval.low,
                    0.0 if interval is None else interval.high,
                )
            )
        return found


def pieces_of(
    own: Sequence[int], others: Sequence[int], draws: int, seed: int
) -> list[tuple[list[int], list[int]]]:
    """Pairs of pieces with as many tokens each: one of a source, and one of all others.

    A piece is tokens in a row, round the end; of the source it is all of it, unless the others are
    too short: then both are two thirds of these. No piece of the others is drawn twice.

    >>> pieces_of([1, 2], [5, 6, 7, 8], 2, seed=3)
    [([1, 2], [6, 7]), ([1, 2], [7, 8])]
    >>> [[len(piece) for piece in pair] for pair in pieces_of(range(9), range(10, 13), 2, seed=3)]
    [[2, 2], [2, 2]]
    """
    n, m = len(own), len(others)
    if m == 0:
        return []
    size = min(n, max(1, int(m * _PART)))
    drawn = random.Random(seed)
    starts = drawn.sample(range(m), min(draws, m))
    inside = [0] * len(starts) if size == n else [drawn.randrange(n) for _ in starts]

    def piece(tokens: Sequence[int], start: int) -> list[int]:
        return [tokens[(start + k) % len(tokens)] for k in range(size)]

    return [(piece(own, a), piece(others, b)) for a, b in zip(inside, starts, strict=True)]


def _lost(before: Sequence[float], after: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(before, after, strict=True)]
