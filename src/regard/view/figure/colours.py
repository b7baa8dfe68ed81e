"""From a number to a colour, as on the screen: the scales of `view/web/scale.js`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.reference import Array

Bytes = NDArray[np.uint8]

# From the page, which is nothing, over orange to what stands out most; lightness runs one way.
_LIGHT = "#ffffff #fee8c8 #fdbb63 #d66018 #7a240a #3a0a06"
_DARK = "#0d1117 #42210e #87400e #d67620 #fdc76e #fffadc"
# Blue below zero, orange above, and the page at zero.
_LIGHT_BOTH = "#164e8c #6eaad9 #f7f6f3 #fdbb63 #be520c"
_DARK_BOTH = "#8ec8ff #235c96 #161b22 #964e12 #ffbe69"
# Of heads: Okabe and Ito's, without the yellow that is lost on white, and four more.
_HEADS_LIGHT = (
    "#0072b2 #d55e00 #009e73 #cc79a7 #56b4e9 #e69f00 "
    "#6a3d9a #8c564b #117733 #882255 #44aa99 #666666"
)
_HEADS_DARK = (
    "#5ab4f0 #ff8c42 #3fd3a2 #f0a6cf #8fd0ff #ffc94d "
    "#b59ae8 #c99a8f #63c77f #e07bb0 #7fdccd #b3b3b3"
)

# The kinds of heads in the order of the legend; each has the colour of a head, or none.
KINDS: dict[str, int | None] = {
    "first token": 0,
    "previous token": 1,
    "itself": 2,
    "induction": 3,
    "broad": 5,
    "mixed": None,
}


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


class Colours:
    """The colours of a light or a dark figure, as `#rrggbb` or as bytes.

    >>> Colours().page, Colours(dark=True).page, Colours().head(13)
    ('#ffffff', '#0d1117', '#d55e00')
    """

    def __init__(self, dark: bool = False) -> None:
        self.page, self.ink = ("#0d1117", "#e6edf3") if dark else ("#ffffff", "#1f2328")
        self.faint, self.edge = ("#9198a1", "#3d444d") if dark else ("#59636e", "#d1d9e0")
        self.accent = "#6cb6ff" if dark else "#0a5fb4"
        self._heat = _stops(_DARK if dark else _LIGHT)
        self._both = _stops(_DARK_BOTH if dark else _LIGHT_BOTH)
        self._heads = (_HEADS_DARK if dark else _HEADS_LIGHT).split()
        self._unknown = _stops(self.edge)[0]

    def head(self, head: int) -> str:
        """The colour of a head."""
        return self._heads[head % len(self._heads)]

    def kind(self, kind: str) -> str:
        """The colour of a kind of heads."""
        place = KINDS.get(kind)
        return self.edge if place is None else self.head(place)

    def heat(self, shares: Array) -> Bytes:
        """(…, 3): the colours of shares from 0 to 1; grey where there is no number."""
        return _painted(self._heat, shares, self._unknown)

    def signed(self, shares: Array) -> Bytes:
        """(…, 3): the colours of numbers from −1 to 1; grey where there is no number."""
        return _painted(self._both, (np.asarray(shares) + 1) / 2, self._unknown)


def ink_on(colour: NDArray[Any]) -> str:
    """Dark or light letters, whichever can be read on this colour.

    >>> ink_on(np.array([255, 255, 255])), ink_on(np.array([58, 10, 6]))
    ('#1c1c1c', '#f5f5f5')
    """
    red, green, blue = map(float, colour)
    return "#1c1c1c" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#f5f5f5"


def _stops(colours: str) -> Array:
    """(stops, 3), from 0 to 255."""
    return np.array(
        [[int(each[n : n + 2], 16) for n in (1, 3, 5)] for each in colours.split()], dtype=float
    )


def _painted(stops: Array, shares: Array, unknown: Array) -> Bytes:
    shares = np.asarray(shares, dtype=float)
    place = np.nan_to_num(shares, nan=0.0).clip(0.0, 1.0) * (len(stops) - 1)
    mixed = np.stack(
        [np.interp(place, np.arange(len(stops)), stops[:, n]) for n in range(3)], axis=-1
    )
    mixed[np.isnan(shares)] = unknown
    return mixed.round().astype(np.uint8)
