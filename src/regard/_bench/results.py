"""What was measured: the cells, and the machine they were measured on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Any

from regard._bench.race import Laps

__all__ = ["Cell", "Memory", "Results", "mean_ratio"]


@dataclass(frozen=True)
class Cell:
    """One race: what was computed, and the best seconds of each contestant in each round.

    >>> laps = {"sdpa": [2.0, 4.0, 3.0], "regard": [1.0, 1.0, 2.0]}
    >>> cell = Cell("forward", 64, 32, False, threads=1, work=8e9, seconds=laps)
    >>> cell.ratio("sdpa", "regard"), cell.gflops("regard")
    (2.0, 8.0)
    """

    section: str  # forward, observed, rising, eager, tiles, calls
    n: int
    d: int
    causal: bool
    threads: int
    heads: int = 8
    work: float = 0.0  # floating-point operations of one call; half of the whole where causal
    seconds: Laps = field(default_factory=dict[str, list[float]])
    path: str = ""  # which of its kernels PyTorch's SDPA took

    def time(self, name: str) -> float:
        """Seconds of one call: the median of the rounds."""
        return median(self.seconds[name])

    def gflops(self, name: str) -> float:
        """Billions of floating-point operations a second."""
        return self.work / self.time(name) / 1e9

    def ratio(self, slow: str, fast: str) -> float:
        """How many times as long `slow` takes as `fast`: the median of the rounds' ratios."""
        return median(self._ratios(slow, fast))

    def difference(self, slow: str, fast: str) -> float:
        """How many seconds `slow` takes longer than `fast`: the median of the rounds."""
        return median(a - b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True))

    def noise(self) -> tuple[float, float] | None:
        """The lowest and the highest ratio of the contestant that raced against itself.

        >>> laps = {"sdpa": [1.0, 1.1], "sdpa again": [1.0, 1.0]}
        >>> Cell("forward", 64, 32, False, 1, seconds=laps).noise()
        (1.0, 1.1)
        """
        for name in self.seconds:
            if f"{name} again" in self.seconds:
                ratios = list(self._ratios(name, f"{name} again"))
                return min(ratios), max(ratios)
        return None

    def doubt(self) -> float:
        """The factor by which a ratio of 1 may be off: the noise, whichever way it went."""
        low, high = self.noise() or (1.0, 1.0)
        return max(high, 1 / low, 1.0)

    def title(self) -> str:
        """The cell in words.

        >>> Cell("forward", 64, 32, True, 2).title()
        'N = 64, d = 32, causal, 2 threads'
        """
        causal = ", causal" if self.causal else ""
        return f"N = {self.n:,}, d = {self.d}{causal}, {self.threads} thread" + "s" * (
            self.threads != 1
        )

    def _ratios(self, slow: str, fast: str) -> Iterator[float]:
        for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True):
            yield a / b


@dataclass(frozen=True)
class Memory:
    """The most memory of one observed call, above its inputs."""

    n: int
    d: int
    heads: int
    threads: int
    peak: int  # bytes above what was there when the inputs were
    inputs: int  # bytes
    seconds: float


@dataclass
class Results:
    """Everything that one run measured."""

    machine: dict[str, str | int] = field(default_factory=dict[str, str | int])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    date: str = ""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    peak: dict[int, float] = field(default_factory=dict[int, float])  # threads: operations a second
    cells: list[Cell] = field(default_factory=list[Cell])
    memory: list[Memory] = field(default_factory=list[Memory])
    notes: list[str] = field(default_factory=list[str])  # what could not be measured, and why
    complete: bool = True

    def of(self, section: str) -> list[Cell]:
        """The cells of one section, in the order they were measured."""
        return [cell for cell in self.cells if cell.section == section]

    def fraction(self, cell: Cell, name: str) -> float:
        """The speed of a contestant as a fraction of the measured peak of as many threads."""
        return cell.gflops(name) * 1e9 / self.peak[cell.threads]


def mean_ratio(cells: list[Cell], slow: str, fast: str) -> float:
    """The geometric mean over the cells of the time of `slow` as a multiple of `fast`'s.

    >>> laps = [{"a": [2.0], "b": [1.0]}, {"a": [8.0], "b": [1.0]}]
    >>> cells = [Cell("forward", 64, 32, False, 1, seconds=each) for each in laps]
    >>> mean_ratio(cells, "a", "b")
    4.0
    """
    return geometric_mean([cell.ratio(slow, fast) for cell in cells])
