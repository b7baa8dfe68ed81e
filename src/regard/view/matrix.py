"""Matrices as aligned lines of text: labels, shaded numbers, panels that fit a width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.reference import Array
from regard.view.colours import shade
from regard.view.figures import figures
from regard.view.labels import fit, most_cells, pad
from regard.view.lines import aligned

LONGEST_AXIS = 16  # rows or columns; a longer axis is shown by its two ends
_SHOWN, _FEWEST = 12, 4  # how many of a longer axis, as the width allows
_GAP = 2  # blanks between two matrices, beside those around each number
_ROW_LABEL = 16  # cells at most
# Decimals, and cells of a column's label, at most: the first that needs the fewest panels is taken.
_SCALES = ((4, 8), (4, 6), (3, 6), (2, 6))
_MARK = Style(bold=True, underline=True)


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix to be shown: its title, a label a column, and the value of the strongest shade.

    `marked` is a cell (row, column) to be underlined.
    """

    title: str
    columns: tuple[str, ...]
    array: Array
    limit: float = 1.0
    marked: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Block:
    """Lines to be shown together; `part` says how much of an axis they show, if not all of it."""

    lines: list[Text]
    part: str = ""

    @property
    def width(self) -> int:
        return max((line.cell_len for line in self.lines), default=0)


@dataclass(frozen=True, eq=False)
class _Group:
    """Columns of one matrix under its title, each with its label first; `part` says how many, if
    not all.
    """

    title: str
    columns: list[list[Text]]
    part: str = ""

    @property
    def width(self) -> int:
        return max(cell_len(self.title) + 1, sum(column[0].cell_len for column in self.columns))


def table(
    rows: Sequence[str],
    matrices: Sequence[Matrix],
    width: int,
    *,
    corner: str = "",
    everything: bool = False,
) -> Block:
    """Matrices of the same rows side by side, and below one another where the width ends.

    `corner` stands above the labels of the rows. A long axis is shown by its two ends, unless
    `everything` is asked for.

    >>> matrix = Matrix("", ("q1", "q2"), np.array([[1.2, 0.6], [1.0, 1.1]]))
    >>> print(*table(["I", "love"], [matrix], 80, corner="Q").lines, sep="\\n")
    Q      q1   q2
    I     1.2  0.6
    love  1.0  1.1
    """
    whole = everything or len(rows) <= LONGEST_AXIS
    shown_rows = _ends(len(rows), len(rows) if whole else _SHOWN)
    labels = [corner, *("…" if i is None else rows[i] for i in shown_rows)]
    labels = [f"{label} " for label in aligned(fit(label, _ROW_LABEL) for label in labels)]
    room = width - cell_len(labels[0])
    long = max(len(matrix.columns) for matrix in matrices) > LONGEST_AXIS
    panels: list[list[_Group]] = []
    for scale in _SCALES[:1] if long else _SCALES:
        groups = [_group(matrix, shown_rows, room, scale, everything) for matrix in matrices]
        attempt = _panels(groups, room)
        if not panels or len(attempt) < len(panels):
            panels = attempt
    shown = len(shown_rows)
    parts = [f"{shown - 1:,} of {len(rows):,} rows"] if shown < len(rows) else []
    parts += [group.part for panel in panels for group in panel if group.part]
    lines = [line for panel in panels for line in _draw(panel, labels)]
    return Block(lines, " and ".join(dict.fromkeys(parts)))


def beside(left: Block, right: Block, gap: int = 4) -> Block:
    """Two blocks side by side.

    >>> print(*beside(Block([Text("a"), Text("bcd")]), Block([Text("e")])).lines, sep="\\n")
    a     e
    bcd
    """
    lines: list[Text] = []
    for place in range(max(len(left.lines), len(right.lines))):
        line = left.lines[place].copy() if place < len(left.lines) else Text()
        if place < len(right.lines):
            line.append(" " * (left.width - line.cell_len + gap))
            line.append_text(right.lines[place])
        lines.append(line)
    return Block(lines, left.part or right.part)


def _ends(length: int, count: int) -> list[int | None]:
    """The places that are shown of an axis: all, or `count` of its two ends with None between."""
    if count >= length:
        return list(range(length))
    last = count // 3
    return [*range(count - last), None, *range(length - last, length)]


def _group(
    matrix: Matrix,
    shown_rows: list[int | None],
    room: int,
    scale: tuple[int, int],
    everything: bool,
) -> _Group:
    """The columns of a matrix that are shown: of a long axis as many as fit the room."""
    count = length = len(matrix.columns)
    if length > LONGEST_AXIS and not everything:
        count = _SHOWN
    while True:
        columns = _columns(matrix, shown_rows, _ends(length, count), scale)
        part = "" if count == length else f"{count:,} of {length:,} columns"
        group = _Group(matrix.title, columns, part)
        if not part or group.width <= room or count == _FEWEST:
            return group
        count -= 1


def _columns(
    matrix: Matrix,
    shown_rows: list[int | None],
    shown_columns: list[int | None],
    scale: tuple[int, int],
) -> list[list[Text]]:
    rows, columns = ([n for n in shown if n is not None] for shown in (shown_rows, shown_columns))
    array = matrix.array[np.ix_(rows, columns)]
    digits, label_width = scale
    texts = figures(array, digits)
    widest = max(len(text) for row in texts for text in row)
    labels = [fit(matrix.columns[j], max(widest, label_width)) for j in columns]
    width = max(widest, *(most_cells(label) for label in labels))
    drawn: list[list[Text]] = []
    for place, j in enumerate(columns):
        column = [Text(f" {pad(labels[place], width, right=True)} ", "bold")]
        for at, i in enumerate(rows):
            text = texts[at][place]
            entry = Text(f" {text.rjust(width)} ", shade(float(array[at, place]), matrix.limit))
            if (i, j) == matrix.marked:
                entry.stylize(_MARK, len(entry) - len(text) - 1, len(entry) - 1)
            column.append(entry)
        if None in shown_rows:
            column.insert(shown_rows.index(None) + 1, Text(f" {'…'.rjust(width)} ", "dim"))
        drawn.append(column)
    if None in shown_columns:
        dots = [Text(" … ", "bold"), *(Text(" … ", "dim") for _ in shown_rows)]
        drawn.insert(shown_columns.index(None), dots)
    return drawn


def _panels(groups: list[_Group], room: int) -> list[list[_Group]]:
    """The groups in rows that fit the room; a group that is wider than the room is divided."""
    panels: list[list[_Group]] = []
    free = 0
    for group in groups:
        if panels and _GAP + group.width <= free:
            panels[-1].append(group)
            free -= _GAP + group.width
            continue
        for n, column in enumerate(group.columns):
            width = column[0].cell_len
            if not n or width > free:
                panels.append([replace(group, columns=[])])
                free = room
            panels[-1][0].columns.append(column)
            free -= width
    return panels


def _draw(panel: list[_Group], labels: list[str]) -> list[Text]:
    """A line of titles, if there are any; a line of column labels; a line a row."""
    lines = [Text.assemble((labels[0], "bold")), *map(Text, labels[1:])]
    titles = Text(" " * lines[0].cell_len)
    for place, group in enumerate(panel):
        gap = " " * _GAP if place else ""
        titles.append(gap + pad(" " + group.title, group.width), "bold")
        for n, line in enumerate(lines):
            line.append(gap)
            for column in group.columns:
                line.append_text(column[n])
            line.append(" " * (titles.cell_len - line.cell_len))
    return [titles, *lines] if any(group.title for group in panel) else lines
