"""A matrix as a picture: its cells, their numbers where these fit, and a name for each line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.reference import Array
from regard.view.colours import ink_on
from regard.view.figure.letters import width_of
from regard.view.figure.sheet import Sheet
from regard.view.labels import fit

_GAP = 0.04  # between names and cells
_LARGEST = 7.0  # points of a name
_SMALLEST = 4.2  # points that can still be read in print
_LONGEST = 16  # cells of a name
_NUMBER = 6.5  # points of a number in a cell, at most


@dataclass(frozen=True)
class Names:
    """The names along one side, as they are drawn, and their size in points; there may be none."""

    texts: tuple[str, ...]
    size: float

    @classmethod
    def of(cls, texts: Sequence[str], step: float, largest: float = _LARGEST) -> Names:
        """Names that stand `step` inches apart; none if they could not be read."""
        size = min(largest, step * 72 * 0.9)
        return cls(tuple(fit(text, _LONGEST) for text in texts if size >= _SMALLEST), size)

    @property
    def longest(self) -> float:
        """Inches."""
        return max((width_of(text, self.size) for text in self.texts), default=0.0)

    def room(self, step: float = 0.0) -> float:
        """Inches beside the cells; with `step`, above columns so far apart."""
        if not self.texts:
            return 0.0
        return self.longest + _GAP + 0.02 if self.is_turned(step) else self.size / 72 * 1.25 + _GAP

    def is_turned(self, step: float) -> bool:
        """Are names above columns so far apart wider than these?"""
        return self.longest > step * 0.96


def round_places(first: int, end: int, most: int = 9) -> list[int]:
    """Round positions from `first` on, before `end`, for an axis that has no names.

    >>> round_places(0, 500), round_places(0, 3)
    ([0, 100, 200, 300, 400], [0, 1, 2])
    """
    rough, step = (end - first) / most, 1
    while step < rough:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return [place for place in range(first - first % -step, end, step) if place >= first]


def draw_cells(
    sheet: Sheet,
    x: float,
    y: float,
    cell: tuple[float, float],
    pixels: NDArray[np.uint8],
    numbers: Sequence[Sequence[str]],
    rows: Names,
    columns: Names,
) -> None:
    """The cells of a matrix (width and height of one are given), with the numbers that fit.

    Names stand to the left of x and above y, turned where they are wider than a column.
    """
    width, height = cell
    whole = x, y, pixels.shape[1] * width, pixels.shape[0] * height
    sheet.picture(whole, pixels)
    sheet.box(whole, edge=sheet.colours.faint)
    size = number_size(numbers, cell)
    for i, row in enumerate(numbers if size else ()):
        for j, text in enumerate(row):
            place = x + (j + 0.5) * width, y + (i + 0.5) * height
            sheet.text(*place, text, size, across="center", colour=ink_on(pixels[i, j]))
    for n, text in enumerate(rows.texts):
        sheet.text(x - _GAP, y + (n + 0.5) * height, text, rows.size, across="right")
    turned = columns.is_turned(width)
    for n, text in enumerate(columns.texts):
        place = x + (n + 0.5) * width, y - _GAP
        if turned:
            sheet.text(*place, text, columns.size, turned=True)
        else:
            sheet.text(*place, text, columns.size, across="center", down="bottom")


def number_size(numbers: Sequence[Sequence[str]], cell: tuple[float, float]) -> float:
    """Points of numbers that all fit into their cells; 0 if they could not be read."""
    widest = max((width_of(text, 10.0) for row in numbers for text in row), default=0.0)
    size = min(_NUMBER, cell[1] * 72 * 0.75)
    if widest > 0:
        size = min(size, 10.0 * cell[0] * 0.84 / widest)
    return size if size >= _SMALLEST else 0.0


def two_decimals(array: Array) -> list[list[str]]:
    """Weights as cells have them; what rounds to 0 is left out.

    >>> two_decimals(np.array([[0.684, 0.001, np.nan]]))
    [['0.68', '', '']]
    """
    return [["" if not x >= 0.005 else f"{x:.2f}" for x in row] for row in array]
