"""From a number to a colour, in the terminal and in figures, as `web/scale.js` has it for pages.

Colour-blind readers can tell them apart, lightness runs one way, so that each can also be read in
grey, and wherever there is room the figures are written, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from rich.style import Style

from regard.reference import Array

Bytes = NDArray[np.uint8]

# The kinds of heads in the order of the legend; each has the colour of a head, or none.
KINDS: dict[str, int | None] = {
    "first token": 0,
    "previous token": 1,
    "itself": 2,
    "induction": 3,
    "broad": 5,
    "mixed": None,
}
# As `signed` of a light page, but no shade is too dark for dark letters.
_TERMINAL = "#438ec4 #abd0e8 #f7f6f3 #fdd098 #e68121"
_INK, _LIGHT_INK = "#1c1c1c", "#f5f5f5"
_STEPS = 64  # shades of the terminal on each side of zero


def paint(stops: str, shares: Array, unknown: str = "#000000") -> Bytes:
    """(…, 3): the colours of shares from 0 to 1, between colours at equal distances.

    >>> paint("#000000 #ff8000", np.array([0.0, 0.5, 2.0, np.nan])).tolist()
    [[0, 0, 0], [128, 64, 0], [255, 128, 0], [0, 0, 0]]
    """
    scale = np.array([tuple(bytes.fromhex(stop[1:])) for stop in stops.split()], dtype=float)
    place = np.nan_to_num(shares, nan=0.0).clip(0.0, 1.0) * (len(scale) - 1)
    parts = [np.interp(place, np.arange(len(scale)), part) for part in scale.T]
    painted = np.stack(parts, axis=-1)
    painted[np.isnan(shares)] = tuple(bytes.fromhex(unknown[1:]))
    return painted.round().astype(np.uint8)


def ink_on(colour: Bytes) -> str:
    """Dark or light letters, whichever can be read on this colour.

    >>> ink_on(np.array([255, 255, 255])), ink_on(np.array([58, 10, 6]))
    ('#1c1c1c', '#f5f5f5')
    """
    return _INK if float(colour @ np.array([0.299, 0.587, 0.114])) > 140 else _LIGHT_INK


def shade(value: float, limit: float) -> Style:
    """The style of a cell in the terminal: `limit` and `−limit` get the strongest shades.

    What is masked (−∞) or no number has none.

    >>> shade(0.0, 1.0).bgcolor.triplet.hex, shade(1.0, 1.0).bgcolor.triplet.hex
    ('#f7f6f3', '#e68121')
    """
    if not math.isfinite(value):
        return Style(dim=True)
    strength = min(1.0, abs(value) / limit) if limit > 0 else 0.0
    return _shade(round(math.copysign(strength * _STEPS, value)))


@cache
def _shade(step: int) -> Style:
    colour = paint(_TERMINAL, np.array((step / _STEPS + 1) / 2))
    return Style(color=_INK, bgcolor=f"#{colour.tobytes().hex()}")


@dataclass(frozen=True)
class Range:
    """How weights become shares of a scale: linearly up to `most`, or by the logarithm."""

    most: float
    least: float = 0.0
    log: bool = False

    @classmethod
    def of(cls, array: Array, log: bool, decades: float = 3.0) -> Range:
        """Up to the largest number there is, and so many powers of ten below it.

        >>> Range.of(np.array([0.5, np.nan]), log=False)
        Range(most=0.5, least=0.0, log=False)
        """
        largest = float(array[np.isfinite(array)].max(initial=0.0))
        nearly = 0.999 < largest < 1.001 or largest <= 0  # all of the weight, but for rounding
        most = 1.0 if nearly else largest
        return cls(most, most * 10**-decades if log else 0.0, log)

    def share(self, array: Array) -> Array:
        """From 0 to 1; NaN where there is no number.

        >>> Range(1.0, 0.01, log=True).share(np.array([1.0, 0.1, 0.001]))
        array([1. , 0.5, 0. ])
        """
        if not self.log:
            return np.clip(array / self.most, 0.0, 1.0)
        above = np.maximum(array, self.least)
        return np.clip(np.log(above / self.least) / math.log(self.most / self.least), 0.0, 1.0)


@dataclass(frozen=True)
class Colours:
    """The colours of a light or a dark picture, as `#rrggbb`; those of a scale from end to end.

    >>> LIGHT.page, DARK.page, LIGHT.head(13), LIGHT.kind("mixed")
    ('#ffffff', '#0d1117', '#d55e00', '#d1d9e0')
    """

    page: str
    ink: str
    faint: str
    edge: str
    accent: str
    red: str
    yellow: str
    cyan: str
    weights: str  # from the page, which is nothing, over orange to what stands out most
    both: str  # blue below zero, orange above, and the page at zero
    heads: str  # Okabe and Ito's, without the yellow that is lost on white, and four more

    def head(self, head: int) -> str:
        """The colour of a head."""
        heads = self.heads.split()
        return heads[head % len(heads)]

    def kind(self, kind: str) -> str:
        """The colour of a kind of heads."""
        place = KINDS.get(kind)
        return self.edge if place is None else self.head(place)

    def heat(self, shares: Array) -> Bytes:
        """(…, 3): the colours of shares from 0 to 1; grey where there is no number."""
        return paint(self.weights, shares, self.edge)

    def signed(self, shares: Array) -> Bytes:
        """(…, 3): the colours of numbers from −1 to 1; grey where there is no number."""
        return paint(self.both, (shares + 1) / 2, self.edge)


LIGHT = Colours(
    page="#ffffff",
    ink="#1f2328",
    faint="#59636e",
    edge="#d1d9e0",
    accent="#0a5fb4",
    red="#b3261e",
    yellow="#8a5a00",
    cyan="#006a80",
    weights="#ffffff #fee8c8 #fdbb63 #d66018 #7a240a #3a0a06",
    both="#164e8c #6eaad9 #f7f6f3 #fdbb63 #be520c",
    heads="#0072b2 #d55e00 #009e73 #cc79a7 #56b4e9 #e69f00 "
    "#6a3d9a #8c564b #117733 #882255 #44aa99 #666666",
)
DARK = Colours(
    page="#0d1117",
    ink="#e6edf3",
    faint="#9198a1",
    edge="#3d444d",
    accent="#6cb6ff",
    red="#ff8a80",
    yellow="#e3b341",
    cyan="#56d4e8",
    weights="#0d1117 #42210e #87400e #d67620 #fdc76e #fffadc",
    both="#8ec8ff #235c96 #161b22 #964e12 #ffbe69",
    heads="#5ab4f0 #ff8c42 #3fd3a2 #f0a6cf #8fd0ff #ffc94d "
    "#b59ae8 #c99a8f #63c77f #e07bb0 #7fdccd #b3b3b3",
)
