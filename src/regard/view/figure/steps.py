"""The steps of a trace as matrices: one step with its heads side by side, or all in one figure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regard._steps import STEPS, Step
from regard._trace import Trace
from regard.reference import Array
from regard.view.colours import Range
from regard.view.figure.legend import bar_across
from regard.view.figure.letters import size_of
from regard.view.figure.matrix import Names, draw_cells, name_columns, name_rows, number_size
from regard.view.figure.sheet import LINE, MARGIN, TALLEST, Paper, Sheet
from regard.view.figures import figures

_CELLS = (0.44, 0.40, 0.36, 0.32, 0.29, 0.26, 0.22, 0.18, 0.14, 0.11, 0.09, 0.07, 0.05, 0.03, 0.015)
_FLAT = 0.6  # the height of a cell, as a part of its width, where there are numbers
_BETWEEN = 0.16  # inches between two matrices
_SIZE = 6.5
_HEADING = 7.0
_READABLE = 5.2  # points of a number; fewer decimals rather than smaller ones


@dataclass(frozen=True, eq=False)
class _Block:
    """One matrix: its title, the names along it, and the number of the strongest shade."""

    title: str
    array: Array
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    limit: float


@dataclass(frozen=True, eq=False)
class _Placed:
    """A block with the room that it takes at one size of cells."""

    block: _Block
    cell: tuple[float, float]
    numbers: list[list[str]] | None
    rows: Names | None
    columns: Names | None

    @property
    def left(self) -> float:
        return 0.0 if self.rows is None else self.rows.room()

    @property
    def above(self) -> float:
        names = 0.0 if self.columns is None else self.columns.room(self.cell[0])
        return names + (_SIZE / 72 * LINE if self.block.title else 0.0)

    @property
    def width(self) -> float:
        own = self.left + self.block.array.shape[1] * self.cell[0]
        return max(own, size_of(self.block.title, _SIZE)[0])

    @property
    def height(self) -> float:
        return self.above + self.block.array.shape[0] * self.cell[1]


@dataclass(frozen=True, eq=False)
class _Section:
    """A step: its heading, and its matrices in lines."""

    heading: str
    meaning: str
    lines: list[list[_Placed]]
    weights: bool

    @property
    def width(self) -> float:
        lines = (sum(p.width for p in line) + _BETWEEN * (len(line) - 1) for line in self.lines)
        return max(*lines, size_of(self.heading, _HEADING, True)[0])

    @property
    def height(self) -> float:
        return sum(max(p.height for p in line) + 0.1 for line in self.lines) + self.top

    @property
    def top(self) -> float:
        return _HEADING / 72 * LINE + 0.03 if self.heading else 0.0


def draw_steps(paper: Paper, trace: Trace, names: list[str]) -> Sheet:
    """Some steps of a trace; numbers stand in the cells where they fit."""
    several = len(names) > 1
    title = " ".join(trace.title.split())
    if not several:
        step = trace.steps[names[0]]
        sheet = Sheet(paper, f"{step.title}: {step.formula}", f"{step.meaning} {trace.note}")
    else:
        sheet = Sheet(paper, title or "Attention, step by step", trace.note)
    blocks = {name: _blocks(trace, trace.steps[name]) for name in names}
    room = sheet.width - 2 * MARGIN
    sections: list[list[_Section]] = []
    for cell in _CELLS:
        made = [_section(trace, name, blocks[name], cell, room, several) for name in names]
        sections = _flow(made, room)
        if _fits(sections, room, TALLEST - sheet.at - 0.5):
            break
    for line in sections:
        x = MARGIN if several else max(MARGIN, (sheet.width - line[0].width) / 2)
        for section in line:
            _draw(sheet, x, section, several)
            x += section.width + 2 * _BETWEEN
        sheet.at += max(section.height for section in line) + 0.06
    if not several and names[0] == "weights":
        bar_across(sheet, Range(1.0), "weight")
    else:
        sheet.paragraph(
            "Orange is above 0 and blue below; in each step, the largest number is the darkest."
        )
    return sheet


def _fits(sections: list[list[_Section]], width: float, height: float) -> bool:
    total = sum(max(section.height for section in line) + 0.06 for line in sections)
    return total <= height and all(s.width <= width * 1.001 for line in sections for s in line)


def _flow(sections: list[_Section], room: float) -> list[list[_Section]]:
    """Sections side by side, as many as there is room for."""
    lines: list[list[_Section]] = []
    used = 0.0
    for section in sections:
        if lines and used + 2 * _BETWEEN + section.width <= room:
            lines[-1].append(section)
            used += 2 * _BETWEEN + section.width
        else:
            lines.append([section])
            used = section.width
    return lines


def _blocks(trace: Trace, step: Step) -> list[_Block]:
    finite = np.abs(step.array[np.isfinite(step.array)])
    limit = 1.0 if step.name == "weights" else float(finite.max(initial=0.0)) or 1.0
    rows, columns = (axis.labels for axis in step.axes[-2:])
    if not step.has_heads:
        return [_Block("", step.array, rows, columns, limit)]
    several = len(step.array) > 1
    return [
        _Block(label if several else "", array, rows, columns, limit)
        for label, array in zip(step.axes[0].labels, step.array, strict=True)
    ]


def _section(
    trace: Trace, name: str, blocks: list[_Block], cell: float, room: float, several: bool
) -> _Section:
    step = trace.steps[name]
    lines: list[list[_Placed]] = []
    used = 0.0
    for block in blocks:
        placed = _placed(block, cell, room)
        if lines:  # the first of a line has the names of the rows for all
            bare = replace(placed, rows=None)
            if used + _BETWEEN + bare.width <= room:
                lines[-1].append(bare)
                used += _BETWEEN + bare.width
                continue
        lines.append([placed])
        used = placed.width
    number = list(STEPS).index(name) + 1
    heading = f"{number} {step.title}   {step.formula}" if several else ""
    return _Section(heading, step.meaning, lines, name == "weights")


def _placed(block: _Block, cell: float, room: float) -> _Placed:
    numbers, size = _numbers(block.array, cell, room), (cell, cell if cell < 0.2 else cell * _FLAT)
    return _Placed(
        block, size, numbers, Names.of(block.rows, size[1]), Names.of(block.columns, size[0])
    )


def _numbers(array: Array, cell: float, room: float) -> list[list[str]] | None:
    """With as many decimals as can be read in such a cell; None if there is no room for any."""
    if cell < 0.2 or array.shape[1] * cell > room:
        return None
    choices = [figures(array, digits) for digits in (4, 3, 2, 1)]
    sizes = [number_size(each, (cell, cell * _FLAT)) or 0.0 for each in choices]
    for least in (_READABLE, 0.1):
        for each, size in zip(choices, sizes, strict=True):
            if size >= least:
                return each
    return None


def _draw(sheet: Sheet, x: float, section: _Section, several: bool) -> None:
    y = sheet.at
    if several:
        sheet.text(x, y + _HEADING / 72 / 2, section.heading, _HEADING, bold=True)
        y += section.top
    for line in section.lines:
        left = x
        above = max(placed.above for placed in line)
        for placed in line:
            _draw_block(sheet, left, y + above, placed, section.weights)
            left += placed.width + _BETWEEN
        y += max(placed.height for placed in line) + 0.1


def _draw_block(sheet: Sheet, x: float, y: float, placed: _Placed, weights: bool) -> None:
    block, cell = placed.block, placed.cell
    shares = np.where(np.isneginf(block.array), np.nan, block.array / block.limit)
    pixels = sheet.colours.heat(shares) if weights else sheet.colours.signed(shares)
    left = x + placed.left
    draw_cells(sheet, left, y, cell, pixels, placed.numbers)
    if placed.rows is not None:
        name_rows(sheet, left, y, cell[1], placed.rows)
    names = 0.0
    if placed.columns is not None:
        name_columns(sheet, left, y, cell[0], placed.columns)
        names = placed.columns.room(cell[0])
    if block.title:
        middle = left + block.array.shape[1] * cell[0] / 2
        sheet.text(
            middle, y - names - 0.5 * _SIZE / 72, block.title, _SIZE,
            across="center", colour=sheet.colours.faint,
        )  # fmt: skip
