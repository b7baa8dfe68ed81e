"""A matrix as a picture: its cells, their numbers where these fit, and a name for each line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.reference import Array
from regard.view.colours import ink_on
from regard.view.figure.letters import size_of
from regard.view.figure.sheet import Sheet
from regard.view.labels import fit

_GAP = 0.04  # between names and cells
_LARGEST = 7.0  # points of a name
_SMALLEST = 4.2  # points that can still be read in print
_LONGEST = 16  # cells of a name
_NUMBER = 6.5  # points of a number in a cell, at most


@dataclass(frozen=True)
class Names:
    """The names along one side, as they are drawn, and their size in points."""

    texts: tuple[str, ...]
    size: float

    @classmethod
    def of(cls, texts: Sequence[str], step: float, largest: float = _LARGEST) -> Names | None:
        """Names that stand `step` inches apart; None if they could not be read."""
        size = min(largest, step * 72 * 0.9)
        if size < _SMALLEST or not texts:
            return None
        return cls(tuple(fit(text, _LONGEST) for text in texts), size)

    @property
    def longest(self) -> float:
        """Inches."""
        return max((size_of(text, self.size)[0] for text in self.texts), default=0.0)

    def room(self, step: float | None = None) -> float:
        """Inches beside or above the cells; with `step`, above columns so far apart."""
        if step is not None and not self.is_turned(step):
            return self.size / 72 * 1.25 + _GAP
        return self.longest + _GAP + 0.02

    def is_turned(self, step: float) -> bool:
        return self.longest > step * 0.96


def name_rows(sheet: Sheet, x: float, y: float, step: float, names: Names) -> None:
    """Names to the left of x, for rows from y on."""
    for n, text in enumerate(names.texts):
        sheet.text(x - _GAP, y + (n + 0.5) * step, text, names.size, across="right")


def name_columns(sheet: Sheet, x: float, y: float, step: float, names: Names) -> None:
    """Names above y, for columns from x on; turned where they are wider than a column."""
    turned = names.is_turned(step)
    for n, text in enumerate(names.texts):
        place = x + (n + 0.5) * step, y - _GAP
        if turned:
            sheet.text(*place, text, names.size, turned=True)
        else:
            sheet.text(*place, text, names.size, across="center", down="bottom")


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
    numbers: Sequence[Sequence[str]] | None = None,
) -> None:
    """The cells of a matrix (width and height of one are given), with the numbers that fit."""
    rows, columns = pixels.shape[:2]
    width, height = cell
    sheet.picture(x, y, columns * width, rows * height, pixels)
    sheet.box(x, y, columns * width, rows * height, edge=sheet.colours.faint)
    if numbers is None:
        return
    size = number_size(numbers, cell)
    if size is None:
        return
    for i, row in enumerate(numbers):
        for j, text in enumerate(row):
            place = x + (j + 0.5) * width, y + (i + 0.5) * height
            sheet.text(*place, text, size, across="center", colour=ink_on(pixels[i, j]))


def number_size(numbers: Sequence[Sequence[str]], cell: tuple[float, float]) -> float | None:
    """Points of numbers that all fit into their cells; None if they could not be read."""
    widest = max((size_of(text, 10.0)[0] for row in numbers for text in row), default=0.0)
    size = min(_NUMBER, cell[1] * 72 * 0.75)
    if widest > 0:
        size = min(size, 10.0 * cell[0] * 0.84 / widest)
    return size if size >= _SMALLEST else None


def two_decimals(array: Array) -> list[list[str]]:
    """Weights as cells have them; what rounds to 0 is left out.

    >>> two_decimals(np.array([[0.684, 0.001, np.nan]]))
    [['0.68', '', '']]
    """
    return [["" if not x >= 0.005 else f"{x:.2f}" for x in row] for row in array]
