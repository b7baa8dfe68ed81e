"""A run of an experiment in the terminal: the verdict first, then what it follows from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rich.text import Text

from regard.view.labels import fit, most_cells, pad, visible
from regard.view.lines import INDENT, aligned, paragraph
from regard.view.plots import Axis, axes_of, short
from regard.view.table import table_lines

_STYLES = {"holds": "bold cyan", "fails": "bold red", "open": "bold yellow"}
_MARKS = {"holds": "✓", "fails": "✗", "open": "?"}
_POINTS = "●○▲△■□◆◇"
_SHADES = " ·░▒▓█"
_HEIGHT = 11  # lines of a chart


def render_lab(document: Mapping[str, Any], width: int = 80) -> list[Text]:
    """The lines: question and guess, verdict, tables, charts, and how it was made."""
    frame, verdict = document["frame"], document["verdict"]
    lines = [Text(fit(document["title"], width), "bold")]
    lines += paragraph(f"{frame['claim']}: {document['claim']}", width, 0)
    lines += [Text(), *_guess(document, width)]
    if document["false"]:
        said = f"{frame['broken']}: {document['make_false']['about']}"
        lines += [*paragraph(said, width, 0, "yellow"), Text()]
    style = _STYLES[verdict["outcome"]]
    lines.append(Text(f"{frame['verdict']}: {verdict['said']}", style))
    for finding in verdict["findings"]:
        mark = _MARKS[finding["outcome"]]
        said = paragraph(finding["said"], width, INDENT)
        said[0].plain = f"  {mark} " + said[0].plain[INDENT:]
        said[0].stylize(_STYLES[finding["outcome"]], 2, 3)
        lines += said
    for note in verdict["notes"]:
        lines += paragraph(note, width)
    for chart in document["charts"]:
        lines += [Text(), *_CHARTS[chart["kind"]](chart, width)]
    for table in document["tables"]:
        lines += [Text(), Text(fit(table["title"], width), "bold"), *render_rows(table, width)]
    lines.append(Text())
    for note in document["notes"]:
        lines += paragraph(note, width, 0)
    if document["quick"]:
        lines += paragraph(frame["quick"], width, 0, "dim")
    return lines + paragraph(document["made"], width, 0, "dim")


def _guess(document: Mapping[str, Any], width: int) -> list[Text]:
    """What was asked and guessed, and whether it came out so."""
    frame, said = document["frame"], {each["name"]: each["said"] for each in document["guesses"]}
    lines = paragraph(f"{frame['question']}: {document['question']}", width, 0)
    if document["guess"] is not None:
        lines += paragraph(f"{frame['guessed']}: {said[document['guess']]}", width)
        is_right = document["guess"] == document["verdict"]["answer"]
        lines += paragraph(frame["guessed_right" if is_right else "guessed_wrong"], width)
    return [*lines, Text()]


def render_rows(table: Mapping[str, Any], width: int) -> list[Text]:
    """A table of a document, columns cut to the width.

    >>> table = {"columns": ["width", "loss"], "rows": [[2, 0.5], [4, None]]}
    >>> print(*render_rows(table, 80), sep="\\n")
        width  loss
            2   0.5
            4     –
    """
    columns = [[_grouped(x) for x in column] for column in zip(*table["rows"], strict=True)]
    columns = columns or [[] for _ in table["columns"]]
    lines = table_lines(table["columns"], columns, width - INDENT)
    return [Text(" " * INDENT).append_text(line) for line in lines]


class _Grouped(int):
    """A whole number that is written with its thousands apart."""

    def __str__(self) -> str:
        return f"{int(self):,}"


def _grouped(cell: Any) -> Any:
    return _Grouped(cell) if type(cell) is int and abs(cell) >= 10_000 else cell


# ── charts ────────────────────────────────────────────────────────────────────────────────────


def render_lines(chart: Mapping[str, Any], width: int) -> list[Text]:
    """Points of each series by a mark of its own, with dots in between.

    >>> series = [{"name": "one", "x": [1, 2, 3], "y": [1.0, 2.0, 3.0]}]
    >>> chart = {"title": "Up", "x": "x", "y": "y", "log": "", "series": series}
    >>> print(*render_lines(chart, 30), sep="\\n")
    Up
        y
      3 ┤                     ·●
    ...
      0 ┤
        └┬─────┬────┬────┬─────┬
         1    1.5   2   2.5    3
        x
        ● one
    """
    across, up = axes_of(chart)
    marks = {_row(up, mark): short(mark) for mark in up.marks(4)}
    label = max(map(len, marks.values()), default=1)
    room = max(10, min(width, 100) - label - INDENT - 2)
    grid = [[" "] * room for _ in range(_HEIGHT)]
    for nth, series in enumerate(chart["series"]):
        points = [
            (round(across.place(x) * (room - 1)), _row(up, y))
            for x, y in zip(series["x"], series["y"], strict=True)
            if y is not None
        ]
        for one, other in pairwise(points):
            _join(grid, one, other)
        for column, row in points:
            grid[row][column] = _POINTS[nth % len(_POINTS)]
    lines = [Text(fit(chart["title"], width), "bold"), *paragraph(chart["y"], width, style="dim")]
    for row in range(_HEIGHT):
        at = marks.get(row, "")
        edge = "┤" if at else "│"
        lines.append(Text(f"{at:>{label + 2}} {edge}{''.join(grid[row])}".rstrip()))
    lines += _below(across, room, label)
    lines += paragraph(chart["x"], width, style="dim")
    names = [
        f"{_POINTS[n % len(_POINTS)]} {each['name']}" for n, each in enumerate(chart["series"])
    ]
    return lines + paragraph("   ".join(names), width)


def _row(up: Axis, y: float) -> int:
    return round((1 - up.place(y)) * (_HEIGHT - 1))


def _join(grid: list[list[str]], one: tuple[int, int], other: tuple[int, int]) -> None:
    steps = max(abs(other[0] - one[0]), abs(other[1] - one[1]), 1)
    for n in range(1, steps):
        column = round(one[0] + (other[0] - one[0]) * n / steps)
        row = round(one[1] + (other[1] - one[1]) * n / steps)
        if grid[row][column] == " ":
            grid[row][column] = "·"


def _below(across: Axis, room: int, label: int) -> list[Text]:
    """The axis below, with its marks and their numbers as far as they do not meet."""
    edge, numbers = ["─"] * room, [" "] * (room + 8)
    free = 0
    for mark in across.marks(7):
        column, text = round(across.place(mark) * (room - 1)), short(mark)
        edge[column] = "┬"
        start = max(0, min(column - len(text) // 2, room + 7 - len(text)))
        if start >= free:
            numbers[start : start + len(text)] = text
            free = start + len(text) + 1
    blanks = " " * (label + 3)
    return [Text(f"{blanks}└{''.join(edge)}"), Text(f"{blanks} {''.join(numbers)}".rstrip())]


def render_bars(chart: Mapping[str, Any], width: int) -> list[Text]:
    """A bar for each name and group, its number behind it.

    >>> chart = {"title": "Change", "y": "how far", "names": ["none", "rotary"],
    ...          "groups": ["one"], "values": [[0.0, 0.5]]}
    >>> print(*render_bars(chart, 40), sep="\\n")
    Change
        how far
        none    0
        rotary  ███████████████████ 0.5
    """
    values = [y for row in chart["values"] for y in row if y is not None]
    most = max(map(abs, values), default=1.0) or 1.0
    names = aligned(fit(name, max(8, width // 3)) for name in chart["names"])
    several = len(chart["groups"]) > 1
    label = max(map(most_cells, names), default=0)
    room = max(6, width - INDENT - label - 11)
    lines = [Text(fit(chart["title"], width), "bold"), *paragraph(chart["y"], width, style="dim")]
    for n, name in enumerate(names):
        for nth, row in enumerate(chart["values"]):
            shown = name if nth == 0 else " " * label
            y = row[n]
            bar = "" if y is None else _POINTS_OF_BARS[nth % 4] * round(abs(y) / most * room)
            number = "–" if y is None else short(float(f"{y:.3g}"))
            lines.append(Text(f"{' ' * INDENT}{shown}  {bar}{' ' if bar else ''}{number}"))
    if several:
        told = [f"{_POINTS_OF_BARS[n % 4]} {name}" for n, name in enumerate(chart["groups"])]
        lines += paragraph("   ".join(told), width)
    return lines


_POINTS_OF_BARS = "█▒▓░"


def render_maps(chart: Mapping[str, Any], width: int) -> list[Text]:
    """Matrices side by side in shades, as many as there is room for, rows with their names.

    >>> panes = [{"name": "step 0", "values": [[1.0, 0.0], [0.5, 0.5]]}]
    >>> chart = {"title": "Maps", "rows": ["a", "b"], "columns": ["a", "b"], "panes": panes,
    ...          "signed": False}
    >>> print(*render_maps(chart, 40), sep="\\n")
    Maps
           step 0
        a  ██
        b  ▒▒▒▒
    """
    lines = [Text(fit(chart["title"], width), "bold")]
    names = aligned(fit(visible(name), 14) for name in chart["rows"])
    label = max(map(most_cells, names), default=0)
    wide = 2 if 2 * len(chart["columns"]) <= 40 else 1
    each = max(wide * len(chart["columns"]), 8)
    beside = max(1, (width - INDENT - label) // (each + 2))
    for first in range(0, len(chart["panes"]), beside):
        panes: Sequence[Any] = chart["panes"][first : first + beside]
        heads = "".join(f"  {pad(fit(pane['name'], each), each)}" for pane in panes)
        lines.append(Text(f"{' ' * (INDENT + label)}{heads}".rstrip(), "dim"))
        for n, name in enumerate(names):
            cells = ("".join(_shade(x) * wide for x in pane["values"][n]) for pane in panes)
            row = "".join(f"  {pad(fit(text, each), each)}" for text in cells)
            lines.append(Text(f"{' ' * INDENT}{name}{row}".rstrip()))
    return lines


def _shade(x: float | None) -> str:
    return "?" if x is None else _SHADES[min(5, round(min(1.0, abs(x)) * 5 + 0.3))]


_CHARTS = {"lines": render_lines, "bars": render_bars, "maps": render_maps}
