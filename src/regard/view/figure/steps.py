"""The steps of a trace as matrices: one step with its heads side by side, or all in one figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from regard._steps import STEPS, Step
from regard._trace import Trace
from regard.reference import Array
from regard.view.colours import Range
from regard.view.figure.legend import bar_across
from regard.view.figure.letters import width_of
from regard.view.figure.matrix import Names, draw_cells, number_size
from regard.view.figure.sheet import LINE, MARGIN, TALLEST, Paper, Sheet
from regard.view.figures import figures, largest

_CELLS = (0.44, 0.40, 0.36, 0.32, 0.29, 0.26, 0.22, 0.18, 0.14, 0.11, 0.09, 0.07, 0.05, 0.03, 0.015)
_FLAT = 0.6  # the height of a cell, as a part of its width, where there are numbers
_BETWEEN = 0.16  # inches between two matrices
_SIZE = 6.5
_HEADING = 7.0
_READABLE = 5.2  # points of a number; fewer decimals rather than smaller ones


@dataclass(frozen=True, eq=False)
class _Block:
    """One matrix as it is drawn at one size of cells: shares of the strongest shade."""

    title: str
    shares: Array
    cell: tuple[float, float]
    numbers: Sequence[Sequence[str]]
    rows: Names
    columns: Names

    @property
    def above(self) -> float:
        return self.columns.room(self.cell[0]) + (_SIZE / 72 * LINE if self.title else 0.0)

    @property
    def width(self) -> float:
        own = self.rows.room() + self.shares.shape[1] * self.cell[0]
        return max(own, width_of(self.title, _SIZE))

    @property
    def height(self) -> float:
        return self.above + self.shares.shape[0] * self.cell[1]


@dataclass(frozen=True, eq=False)
class _Section:
    """A step: its heading, and its matrices in lines."""

    heading: str
    lines: list[list[_Block]]
    weights: bool

    @property
    def width(self) -> float:
        lines = (sum(b.width for b in line) + _BETWEEN * (len(line) - 1) for line in self.lines)
        return max(*lines, width_of(self.heading, _HEADING, True))

    @property
    def height(self) -> float:
        return sum(max(b.height for b in line) + 0.1 for line in self.lines) + self.top

    @property
    def top(self) -> float:
        return _HEADING / 72 * LINE + 0.03 if self.heading else 0.0


_Wide = TypeVar("_Wide", _Block, _Section)


def draw_steps(paper: Paper, trace: Trace, names: list[str]) -> Sheet:
    """Some steps of a trace; numbers stand in the cells where they fit."""
    several, steps = len(names) > 1, [trace.steps[name] for name in names]
    if several:
        title = " ".join(trace.title.split()) or "Attention, step by step"
        sheet = Sheet(paper, title, trace.note)
    else:
        step = steps[0]
        sheet = Sheet(paper, f"{step.title}: {step.formula}", f"{step.meaning} {trace.note}")
    shares: list[Array] = []
    for step in steps:
        limit = 1.0 if step.name == "weights" else largest(step.array) or 1.0
        shares.append(np.where(np.isneginf(step.array), np.nan, step.array / limit))
    room, tallest = sheet.width - 2 * MARGIN, TALLEST - sheet.at - 0.5
    lines: list[list[_Section]] = []
    for cell in _CELLS:
        made = [
            _section(step, shaded, cell, room, several)
            for step, shaded in zip(steps, shares, strict=True)
        ]
        lines = _flow(zip(made, made, strict=True), 2 * _BETWEEN, room)
        total = sum(max(section.height for section in line) + 0.06 for line in lines)
        if total <= tallest and all(section.width <= room * 1.001 for section in made):
            break
    for line in lines:
        x = MARGIN if several else max(MARGIN, (sheet.width - line[0].width) / 2)
        for section in line:
            _draw(sheet, x, section)
            x += section.width + 2 * _BETWEEN
        sheet.at += max(section.height for section in line) + 0.06
    if names == ["weights"]:
        bar_across(sheet, Range(1.0), "weight")
    else:
        sheet.paragraph(
            "Orange is above 0 and blue below; in each step, the largest number is the darkest."
        )
    return sheet


def _flow(items: Iterable[tuple[_Wide, _Wide]], gap: float, room: float) -> list[list[_Wide]]:
    """Side by side, as many as there is room for; of each as it is first in a line, and behind."""
    lines: list[list[_Wide]] = []
    used = 0.0
    for first, behind in items:
        if lines and used + gap + behind.width <= room:
            lines[-1].append(behind)
            used += gap + behind.width
        else:
            lines.append([first])
            used = first.width
    return lines


def _section(step: Step, shares: Array, cell: float, room: float, several: bool) -> _Section:
    size = cell, cell if cell < 0.2 else cell * _FLAT
    rows, columns = (
        Names.of(axis.labels, apart) for axis, apart in zip(step.axes[-2:], size[::-1], strict=True)
    )
    arrays, shaded = (each if step.has_heads else each[None] for each in (step.array, shares))
    titles = step.axes[0].labels if len(arrays) > 1 else [""]
    blocks = [
        _Block(title, part, size, _numbers(array, cell, room), rows, columns)
        for title, part, array in zip(titles, shaded, arrays, strict=True)
    ]
    # The first of a line has the names of the rows for all.
    bare = [replace(block, rows=replace(rows, texts=())) for block in blocks]
    number = list(STEPS).index(step.name) + 1
    heading = f"{number} {step.title}   {step.formula}" if several else ""
    lines = _flow(zip(blocks, bare, strict=True), _BETWEEN, room)
    return _Section(heading, lines, step.name == "weights")


def _numbers(array: Array, cell: float, room: float) -> list[list[str]]:
    """With as many decimals as can be read in such a cell; none if there is no room for any."""
    if cell < 0.2 or array.shape[1] * cell > room:
        return []
    choices = [figures(array, digits) for digits in (4, 3, 2, 1)]
    sizes = [number_size(each, (cell, cell * _FLAT)) for each in choices]
    for least in (_READABLE, 0.1):
        for each, size in zip(choices, sizes, strict=True):
            if size >= least:
                return each
    return []


def _draw(sheet: Sheet, x: float, section: _Section) -> None:
    y = sheet.at + section.top
    if section.heading:
        sheet.text(x, sheet.at + _HEADING / 72 / 2, section.heading, _HEADING, bold=True)
    paint = sheet.colours.heat if section.weights else sheet.colours.signed
    for line in section.lines:
        left, top = x, y + max(block.above for block in line)
        for block in line:
            at, names = left + block.rows.room(), (block.rows, block.columns)
            draw_cells(sheet, at, top, block.cell, paint(block.shares), block.numbers, *names)
            if block.title:
                middle = at + block.shares.shape[1] * block.cell[0] / 2
                above = top - block.columns.room(block.cell[0]) - 0.5 * _SIZE / 72
                colour = sheet.colours.faint
                sheet.text(middle, above, block.title, _SIZE, across="center", colour=colour)
            left += block.width + _BETWEEN
        y += max(block.height for block in line) + 0.1
