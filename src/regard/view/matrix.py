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
class _Column:
    label: str
    entries: list[Text]
    width: int  # of label and entries, with a blank before and after


@dataclass(frozen=True, eq=False)
class _Group:
    """Columns of one matrix under its title; `part` says how many, if not all."""

    title: str
    columns: list[_Column]
    part: str = ""

    @property
    def width(self) -> int:
        return max(cell_len(self.title) + 1, sum(column.width for column in self.columns))


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
    label_width = max(most_cells(fit(label, _ROW_LABEL)) for label in labels)
    labels = [pad(fit(label, label_width), label_width + 1) for label in labels]
    room = width - label_width - 1
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
        if count == length:
            return _Group(matrix.title, columns)
        group = _Group(matrix.title, columns, f"{count:,} of {length:,} columns")
        if group.width <= room or count == _FEWEST:
            return group
        count -= 1


def _columns(
    matrix: Matrix,
    shown_rows: list[int | None],
    shown_columns: list[int | None],
    scale: tuple[int, int],
) -> list[_Column]:
    rows = [i for i in shown_rows if i is not None]
    columns = [j for j in shown_columns if j is not None]
    array = matrix.array[np.ix_(rows, columns)]
    digits, label_width = scale
    texts = figures(array, digits)
    widest = max(len(text) for row in texts for text in row)
    labels = [fit(matrix.columns[j], max(widest, label_width)) for j in columns]
    width = max(widest, *(most_cells(label) for label in labels))
    drawn: list[_Column] = []
    for place, j in enumerate(columns):
        entries: list[Text] = []
        for at, i in enumerate(rows):
            style = shade(float(array[at, place]), matrix.limit)
            entries.append(_entry(texts[at][place], width, style, (i, j) == matrix.marked))
        if None in shown_rows:
            entries.insert(shown_rows.index(None), _entry("…", width, Style(dim=True)))
        drawn.append(_Column(labels[place], entries, width + 2))
    if None in shown_columns:
        dots = [_entry("…", 1, Style(dim=True)) for _ in shown_rows]
        drawn.insert(shown_columns.index(None), _Column("…", dots, 3))
    return drawn


def _entry(text: str, width: int, style: Style, marked: bool = False) -> Text:
    entry = Text(f" {text.rjust(width)} ", style)
    if marked:
        entry.stylize(_MARK, len(entry) - len(text) - 1, len(entry) - 1)
    return entry


def _panels(groups: list[_Group], room: int) -> list[list[_Group]]:
    """The groups in rows that fit the room; a group that is wider than the room is divided."""
    panels: list[list[_Group]] = []
    free = 0
    for group in groups:
        if panels and _GAP + group.width <= free:
            panels[-1].append(group)
            free -= _GAP + group.width
            continue
        piece = replace(group, columns=[])
        panels.append([piece])
        free = room
        for column in group.columns:
            if piece.columns and column.width > free:
                piece = replace(group, columns=[])
                panels.append([piece])
                free = room
            piece.columns.append(column)
            free -= column.width
    return panels


def _draw(panel: list[_Group], labels: list[str]) -> list[Text]:
    """A line of titles, if there are any; a line of column labels; a line a row."""
    header = Text.assemble((labels[0], "bold"))
    titles = Text(" " * header.cell_len)
    lines = [Text(label) for label in labels[1:]]
    for place, group in enumerate(panel):
        gap = " " * _GAP if place else ""
        titles.append(gap + pad(" " + group.title, group.width), "bold")
        for line in (header, *lines):
            line.append(gap)
        for column in group.columns:
            header.append(f" {pad(column.label, column.width - 2, right=True)} ", "bold")
            for line, entry in zip(lines, column.entries, strict=True):
                line.append_text(entry)
        for line in (header, *lines):
            line.append(" " * (titles.cell_len - line.cell_len))
    drawn = [header, *lines]
    return [titles, *drawn] if any(group.title for group in panel) else drawn
