"""Axes of a chart: from a number to its place, and where the marks stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """From `low` at 0 to `high` at 1.

    >>> Axis(1.0, 100.0, log=True).place(10.0), Axis(0.0, 4.0).place(1.0)
    (0.5, 0.25)
    """

    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, numbers: Iterable[float | None], log: bool = False, zero: bool = False) -> Axis:
        """As long as these numbers need; `zero` begins a linear one there, if none is below.

        >>> Axis.of([3.0, None, 9.0], zero=True)
        Axis(low=0.0, high=9.0, log=False)
        >>> Axis.of([0.0, 0.0], zero=True)
        Axis(low=0.0, high=1.0, log=False)
        """
        found = [x for x in numbers if x is not None and math.isfinite(x) and (x > 0 or not log)]
        low, high = min(found, default=1.0 if log else 0.0), max(found, default=1.0)
        if zero and not log:
            low = min(low, 0.0)
        if low == high:
            below = 0.0 if zero else 0.5
            low, high = (low / 2, high * 2) if log else (low - below, high + 1.0 - below)
        return cls(low, high, log)

    def place(self, x: float) -> float:
        """Where a number stands, from 0 to 1; what is off the axis stands at its end."""
        if self.log:
            if x <= 0:
                return 0.0
            share = math.log(x / self.low) / math.log(self.high / self.low)
        else:
            share = (x - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def marks(self, most: int = 5) -> list[float]:
        """Round numbers on the axis, at most so many (but two at least, if there are).

        >>> Axis(0.0, 1.0).marks(), Axis(1.0, 5000.0, log=True).marks()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 10.0, 100.0, 1000.0])
        >>> Axis(0.3, 4.0, log=True).marks()
        [0.5, 1.0, 2.0]
        """
        if self.log:
            first, last = (
                math.ceil(math.log10(self.low) - 1e-9),
                math.floor(math.log10(self.high) + 1e-9),
            )
            if last > first:
                step = -(-(last - first + 1) // most)
                return [10.0**n for n in range(first, last + 1, step)]
            found = [by * 10.0**n for n in range(first - 1, last + 1) for by in (1, 2, 5)]
            found = [mark for mark in found if self.low <= mark <= self.high]
            return found if len(found) > 1 else [self.low, self.high]
        rough = (self.high - self.low) / max(1, most - 1)
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(
            by * size for by in (1.0, 2.0, 2.5, 5.0, 10.0) if by * size >= rough * (1 - 1e-9)
        )
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [n * step for n in range(first, last + 1)]


def axes_of(chart: Mapping[str, Any]) -> tuple[Axis, Axis]:
    """Both axes of a chart of lines."""
    x = [each for series in chart["series"] for each in series["x"]]
    y = [
        each
        for series in chart["series"]
        for name in ("y", "low", "high")
        for each in series.get(name, ())
    ]
    return Axis.of(x, "x" in chart["log"]), Axis.of(y, "y" in chart["log"], zero=True)


def short(x: float) -> str:
    """A number beside a mark: as few letters as tell it.

    >>> short(0.25), short(100000.0), short(1e-7), short(4096), short(-2.0), short(12500.0)
    ('0.25', '100k', '1·10⁻⁷', '4096', '−2', '12.5k')
    """
    if x != 0 and not 1e-4 <= abs(x) < 1e9:
        digit, _, power = f"{x:.0e}".partition("e")
        text = f"{digit}·10{str(int(power)).translate(_RAISED)}"
    else:
        for size, letter in ((1e6, "M"), (1e4, "k")):
            if abs(x) >= size:
                text = f"{x / (1e3 if letter == 'k' else size):.4g}{letter}"
                break
        else:
            text = f"{x:.4g}"
    return text.replace("-", "−")
