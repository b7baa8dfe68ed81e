"""Which cells are measured, and how much time each may take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from regard._bench.race import Pace
from regard._bench.results import Cell

__all__ = [
    "SECTIONS",
    "NotMeasured",
    "Plan",
    "full_plan",
    "processors",
    "quick_plan",
    "usual_threads",
]

SECTIONS = ("forward", "observed", "tiles", "calls", "memory")


class NotMeasured(RuntimeError):
    """This machine cannot do what was to be measured."""


@dataclass(frozen=True)
class Plan:
    """The sizes of every section, each of which stands for all its combinations."""

    threads: tuple[int, ...]
    sections: tuple[str, ...] = SECTIONS
    pace: Pace = field(default_factory=Pace)
    heads: int = 8
    lengths: tuple[int, ...] = (64, 128, 512, 2048, 8192)
    widths: tuple[int, ...] = (32, 64, 128)
    observed_lengths: tuple[int, ...] = (128, 512, 1024, 2048, 4096, 8192)
    observed_widths: tuple[int, ...] = (64, 128)
    observed_longest: int = 4096  # N up to which every number of threads is raced, not only most
    received_from: int = 2048  # N from which `received` is raced, too
    eager_length: int = 4096  # of the race with eager PyTorch, and of the rising scores
    map_shape: tuple[int, int] = (128, 128)
    tiles: tuple[int, ...] = (4096, 8192)
    pixels: tuple[int, int] = (256, 256)
    memory_length: int = 65_536

    def cells(self) -> Iterator[Cell]:
        """The cells of the chosen sections, not measured yet.

        The section `observed` brings `rising` (scores that rise along every row) and `eager` along.

        >>> plan = Plan(threads=(1, 2))
        >>> [cell.section for cell in plan.cells()].count("forward")
        60
        """
        fewest, most = min(self.threads), max(self.threads)
        if "forward" in self.sections:
            for threads, d, causal, n in product(
                self.threads, self.widths, (False, True), self.lengths
            ):
                yield Cell("forward", n, d, causal, threads, self.heads)
        if "observed" in self.sections:
            for threads, d, n in product(self.threads, self.observed_widths, self.observed_lengths):
                if threads == most or n <= self.observed_longest:
                    yield Cell("observed", n, d, False, threads, self.heads)
            d = self.observed_widths[0]
            for n in self.observed_lengths:
                yield Cell("observed", n, d, True, most, self.heads)
            for threads in self.threads:
                yield Cell("rising", self.eager_length, d, False, threads, self.heads)
            yield Cell("eager", self.eager_length, d, False, most, self.heads)
        if "tiles" in self.sections:
            for threads, n in product(self.threads, self.tiles):
                yield Cell("tiles", n, 64, False, threads, self.heads)
        if "calls" in self.sections:
            yield Cell("calls", 1, 64, False, fewest, heads=1)
        if "memory" in self.sections:
            yield Cell("memory", self.memory_length, 64, False, most, heads=1)


def full_plan(threads: tuple[int, ...]) -> Plan:
    """All sizes that the project's targets speak of: minutes.

    >>> full_plan((1, 2)).lengths
    (64, 128, 512, 2048, 8192)
    """
    return Plan(threads)


def quick_plan(threads: tuple[int, ...]) -> Plan:
    """A glance at the same, in well under a minute.

    >>> quick_plan((1,)).eager_length
    512
    """
    return Plan(
        threads,
        pace=Pace(rounds=3, seconds=0.1),
        lengths=(64, 512, 2048),
        widths=(64,),
        observed_lengths=(128, 1024),
        observed_widths=(64,),
        received_from=1024,
        eager_length=512,
        tiles=(1024,),
        memory_length=8192,
    )


def usual_threads() -> tuple[int, ...]:
    """One thread, and two where there are two processors.

    >>> 1 in usual_threads()
    True
    """
    return (1, 2) if processors() > 1 else (1,)


def processors() -> int:
    """How many processors this process may use.

    >>> processors() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
