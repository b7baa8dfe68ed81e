"""What was measured: the cells, the machine they were measured on, and both as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

Laps = dict[str, list[float]]  # of each contestant: its best seconds in each round

_FORMAT = 2


@dataclass(frozen=True)
class Pace:
    """How much time a race may take.

    A round takes about `seconds`, or one call of each contestant if that is longer. There are
    `rounds` of them, or only `fewer` where a round takes longer than `long` seconds. One
    measurement covers as many calls as take `least` seconds.
    """

    rounds: int = 5
    seconds: float = 0.3
    fewer: int = 3
    long: float = 2.0
    least: float = 0.002


@dataclass(frozen=True)
class Cell:
    """One race: what is computed, and the best seconds of each contestant in each round."""

    section: str  # forward, observed, rising, eager, tiles, calls, memory, or one of types.py
    n: int
    d: int
    causal: bool
    threads: int
    heads: int = 8
    received: bool = False  # whether `received` is raced, too
    dtype: str = "float32"
    kv_heads: int = 0  # as many as heads, if 0
    seconds: Laps = field(default_factory=Laps)
    path: str = ""  # which of its kernels PyTorch's SDPA took
    memory: int = 0  # bytes of one call above its inputs, where these were measured

    def work(self) -> float:
        """Floating-point operations of one call: of both products, of Q Kᵀ alone for tiles."""
        products = 1 if self.section == "tiles" else 2
        return 2.0 * products * self.heads * self.n**2 * self.d / (2 if self.causal else 1)

    def time(self, name: str) -> float:
        """Seconds of one call: the median of the rounds."""
        return median(self.seconds[name])

    def gflops(self, name: str) -> float:
        """Billions of operations a second."""
        return self.work() / self.time(name) / 1e9

    def ratio(self, slow: str, fast: str) -> float:
        """How many times as long `slow` takes as `fast`: the median of the rounds' ratios."""
        return median(self._ratios(slow, fast))

    def difference(self, slow: str, fast: str) -> float:
        """How many seconds `slow` takes longer than `fast`: the median of the rounds."""
        return median(a - b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True))

    def noise(self) -> tuple[float, float] | None:
        """The lowest and the highest ratio of the contestant that raced against itself."""
        for name in self.seconds:
            if f"{name} again" in self.seconds:
                ratios = self._ratios(name, f"{name} again")
                return min(ratios), max(ratios)
        return None

    def title(self) -> str:
        """The cell in words.

        >>> Cell("forward", 64, 32, True, 2).title()
        'N = 64, d = 32, causal, 2 threads'
        """
        causal = ", causal" if self.causal else ""
        return f"N = {self.n:,}, d = {self.d}{causal}, {count(self.threads, 'thread')}"

    def _ratios(self, slow: str, fast: str) -> list[float]:
        return [a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True)]


@dataclass
class Results:
    """Everything that one run measured."""

    machine: dict[str, str | int] = field(default_factory=dict[str, str | int])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    date: str = ""
    pace: Pace = field(default_factory=Pace)
    peak: dict[int, float] = field(default_factory=dict[int, float])  # threads: operations a second
    cells: list[Cell] = field(default_factory=list[Cell])
    notes: list[str] = field(default_factory=list[str])  # what could not be measured, and why
    complete: bool = True

    def of(self, section: str) -> list[Cell]:
        """The cells of one section, in the order they were measured."""
        return [cell for cell in self.cells if cell.section == section]

    def fraction(self, cell: Cell, name: str) -> float:
        """The speed of a contestant as a fraction of the measured peak of as many threads."""
        return cell.gflops(name) * 1e9 / self.peak[cell.threads]

    def describe_machine(self) -> str:
        """The machine and the versions, in a line.

        >>> machine = {"processor": "Z80", "cores": 1, "kernel": "z80", "instruction set": "z800"}
        >>> Results(machine, {"regard": "0.1"}, date="1976-07-01").describe_machine()
        'Z80, 1 core · z80 kernel on z800 · regard 0.1 · 1976-07-01'
        """
        parts = [str(self.machine.get("processor", ""))]
        if "cores" in self.machine:
            parts[0] += f", {count(int(self.machine['cores']), 'core')}"
        if kernel := self.machine.get("kernel"):
            has = self.machine.get("instruction set", kernel)
            parts.append(f"{kernel} kernel" + (f" on {has}" if has != kernel else ""))
        parts += [f"{name} {version}" for name, version in self.versions.items()]
        return " · ".join(part for part in [*parts, self.date] if part)


def to_json(results: Results) -> str:
    """The results as JSON. Its speeds are for readers; `from_json` makes them again."""
    content: dict[str, Any] = {"format": _FORMAT, **asdict(results)}
    for cell, kept in zip(results.cells, content["cells"], strict=True):
        kept["gflops"] = {name: round(cell.gflops(name), 3) for name in cell.seconds}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Results:
    """Read what `to_json` wrote. Raises ValueError if it is something else."""
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("not results of `regard bench`: nested too deeply.") from None
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise ValueError("not results of `regard bench`, or of another version of it.")
    try:
        for cell in content["cells"]:
            del cell["gflops"]
        content["cells"] = [Cell(**cell) for cell in content["cells"]]
        content["pace"] = Pace(**content["pace"])
        content["peak"] = {int(threads): peak for threads, peak in content["peak"].items()}
        return Results(**content)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the results are damaged: {error!r}.") from error


def count(number: int, noun: str) -> str:
    """A number of things in words: `count(2, "thread")` is "2 threads"."""
    return f"{number} {noun}{'s' * (number != 1)}"
