"""Shades: a background for a number, on a scale that colour-blind readers can tell apart.

Blue is negative, near-white zero, orange positive; lightness falls with the size of the number, so
that the scale can also be read in grey. The figures are always written, too.
"""

from __future__ import annotations

import math
from functools import cache

from rich.style import Style

Colour = tuple[int, int, int]

# Towards the ends of the scale: from zero, a step at a third, and the strongest.
_POSITIVE: tuple[Colour, ...] = ((247, 246, 243), (253, 208, 152), (230, 129, 33))
_NEGATIVE: tuple[Colour, ...] = ((247, 246, 243), (171, 208, 232), (67, 142, 196))
_INK = "#1c1c1c"
_STEPS = 64  # shades on each side of zero


def shade(value: float, limit: float) -> Style:
    """The style of a cell: `limit` and `−limit` get the strongest shades.

    What is masked (−∞) or no number has none.

    >>> shade(0.0, 1.0).bgcolor.triplet.hex, shade(1.0, 1.0).bgcolor.triplet.hex
    ('#f7f6f3', '#e68121')
    """
    if not math.isfinite(value):
        return Style(dim=True)
    strength = min(1.0, abs(value) / limit) if limit > 0 else 0.0
    return _style(value < 0, round(strength * _STEPS))


@cache
def _style(negative: bool, step: int) -> Style:
    red, green, blue = _between(_NEGATIVE if negative else _POSITIVE, step / _STEPS)
    return Style(color=_INK, bgcolor=f"#{red:02x}{green:02x}{blue:02x}")


def _between(scale: tuple[Colour, ...], strength: float) -> Colour:
    place = strength * (len(scale) - 1)
    lower = min(int(place), len(scale) - 2)
    part = place - lower
    red, green, blue = (
        round(a + (b - a) * part) for a, b in zip(scale[lower], scale[lower + 1], strict=True)
    )
    return red, green, blue
