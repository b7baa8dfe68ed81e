"""The charts of an experiment for print: lines, bars and maps, one below the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regard.view.colours import ink_on
from regard.view.figure.letters import width_of
from regard.view.figure.sheet import MARGIN, Box, Paper, Sheet
from regard.view.plots import Axis, axes_of, short

_SIZE = 6.5  # points
_HEIGHT = 1.9  # inches of a chart's box
_GAP = 0.16
_LINE = _SIZE / 72 * 1.45
_BAR = 0.13  # inches of a bar


def draw(paper: Paper, document: Mapping[str, Any]) -> Sheet:
    """Title and verdict above, then every chart."""
    verdict = document["verdict"]
    sheet = Sheet(paper, document["title"], document["claim"])
    sheet.told = " ".join(chart.get("told", chart["title"]) for chart in document["charts"])
    sheet.paragraph(f"{document['frame']['verdict']}: {verdict['said']}", 7.5, bold=True)
    for finding in verdict["findings"]:
        sheet.paragraph(finding["said"])
    for chart in document["charts"]:
        sheet.at += _GAP
        sheet.paragraph(chart["title"], 7.0, bold=True)
        _CHARTS[chart["kind"]](sheet, chart)
    sheet.at += _GAP / 2
    sheet.paragraph(document["made"], 5.5)
    return sheet


def draw_lines(sheet: Sheet, chart: Mapping[str, Any]) -> None:
    """Lines over a common axis, with which colour is which below them."""
    across, up = axes_of(chart)
    colours, marks = sheet.colours, up.marks(5)
    left = MARGIN + max(width_of(short(mark), _SIZE) for mark in marks) + 0.08
    sheet.text(MARGIN, sheet.at + _LINE, chart["y"], _SIZE, down="baseline", colour=colours.faint)
    box = (left, sheet.at + 1.6 * _LINE, sheet.width - MARGIN - left - 0.1, _HEIGHT)
    x, y, width, height = box
    for mark in marks:
        at = y + height * (1 - up.place(mark))
        sheet.lines([[(x, at), (x + width, at)]], colours.edge, 0.4)
        sheet.text(x - 0.04, at, short(mark), _SIZE, across="right", colour=colours.faint)
    for mark in across.marks(7):
        at = x + width * across.place(mark)
        sheet.lines([[(at, y + height), (at, y + height + 0.03)]], colours.faint, 0.5)
        below = y + height + 0.05 + _LINE / 2
        sheet.text(at, below, short(mark), _SIZE, across="center", colour=colours.faint)
    for nth, series in enumerate(chart["series"]):
        _draw_series(sheet, box, (across, up), series, colours.head(nth))
    sheet.at = y + height + 0.05 + 2 * _LINE
    sheet.text(x + width / 2, sheet.at, chart["x"], _SIZE, across="center", colour=colours.faint)
    sheet.at += _LINE / 2
    _key(sheet, [series["name"] for series in chart["series"]])


def _draw_series(
    sheet: Sheet, box: Box, axes: tuple[Axis, Axis], series: Mapping[str, Any], colour: str
) -> None:
    x, y, width, height = box
    across, up = axes

    def points(name: str) -> list[tuple[float, float]]:
        pairs = zip(series["x"], series[name], strict=True)
        return [
            (x + width * across.place(a), y + height * (1 - up.place(b)))
            for a, b in pairs
            if b is not None
        ]

    if "low" in series:
        for name in ("low", "high"):
            sheet.lines([points(name)], colour, 0.4)
    found = points("y")
    sheet.lines([found], colour, 1.1)
    if len(found) <= 30:
        for at_x, at_y in found:
            sheet.box((at_x - 0.015, at_y - 0.015, 0.03, 0.03), fill=colour)


def _bars(sheet: Sheet, chart: Mapping[str, Any]) -> None:
    colours = sheet.colours
    sheet.text(MARGIN, sheet.at + _LINE, chart["y"], _SIZE, down="baseline", colour=colours.faint)
    sheet.at += 1.7 * _LINE
    label = min(max(width_of(name, _SIZE) for name in chart["names"]), sheet.width / 2.5)
    left = MARGIN + label + 0.08
    ends = [y for name in ("values", "high") for row in chart.get(name, ()) for y in row]
    scale = Axis.of([abs(y) for y in ends if y is not None], zero=True)
    room = sheet.width - MARGIN - left - 0.5
    for n, name in enumerate(chart["names"]):
        middle = sheet.at + _BAR * len(chart["groups"]) / 2
        sheet.text(left - 0.05, middle, name, _SIZE, across="right")
        for nth, row in enumerate(chart["values"]):
            if row[n] is not None:
                length = room * scale.place(abs(row[n]))
                sheet.box((left, sheet.at + 0.02, length, _BAR - 0.03), fill=colours.head(nth))
                end = length
                if "low" in chart and chart["low"][nth][n] is not None:
                    low, high = (room * scale.place(abs(chart[k][nth][n])) for k in ("low", "high"))
                    at = sheet.at + _BAR / 2
                    sheet.lines([[(left + low, at), (left + high, at)]], colours.ink, 0.7)
                    end = max(length, high)
                number = short(float(f"{row[n]:.3g}"))
                sheet.text(left + end + 0.04, sheet.at + _BAR / 2, number, _SIZE)
            sheet.at += _BAR
        sheet.at += 0.04
    if len(chart["groups"]) > 1:
        _key(sheet, chart["groups"])


def _maps(sheet: Sheet, chart: Mapping[str, Any]) -> None:
    rows, columns = len(chart["rows"]), len(chart["columns"])
    label = min(max((width_of(name, _SIZE) for name in chart["rows"]), default=0.0), 1.0) + 0.06
    cell = min(0.22, (sheet.width - 2 * MARGIN - label) / max(1, columns))
    wide = cell * columns + 0.12
    beside = max(1, int((sheet.width - 2 * MARGIN - label + 0.12) / wide))
    numbers = cell >= 0.2
    for first in range(0, len(chart["panes"]), beside):
        top = sheet.at + 1.3 * _LINE
        for n, name in enumerate(chart["rows"]):
            at = top + (n + 0.5) * cell
            sheet.text(MARGIN + label - 0.04, at, name, min(_SIZE, cell * 60), across="right")
        for nth, pane in enumerate(chart["panes"][first : first + beside]):
            left = MARGIN + label + nth * wide
            sheet.text(left, sheet.at + 0.9 * _LINE, pane["name"], _SIZE, down="baseline")
            values = np.array(pane["values"], dtype=float)
            paint = sheet.colours.signed if chart["signed"] else sheet.colours.heat
            pixels = paint(values)
            sheet.picture((left, top, cell * columns, cell * rows), pixels)
            if numbers and rows * columns <= 100:
                for i, j in np.ndindex(values.shape):
                    place = left + (j + 0.5) * cell, top + (i + 0.5) * cell
                    ink = ink_on(pixels[i, j])
                    sheet.text(*place, f"{values[i, j]:.2f}", 4.5, across="center", colour=ink)
        sheet.at = top + cell * rows + 0.06


def _key(sheet: Sheet, names: list[str]) -> None:
    """Which colour is which."""
    x, sheet.at = MARGIN, sheet.at + _LINE
    for nth, name in enumerate(names):
        needed = width_of(name, _SIZE) + 0.3
        if x > MARGIN and x + needed > sheet.width - MARGIN:
            x, sheet.at = MARGIN, sheet.at + _LINE
        sheet.box((x, sheet.at - 0.035, 0.12, 0.07), fill=sheet.colours.head(nth))
        sheet.text(x + 0.16, sheet.at, name, _SIZE)
        x += needed
    sheet.at += _LINE / 2


_CHARTS: dict[str, Callable[[Sheet, Mapping[str, Any]], None]] = {
    "lines": draw_lines,
    "bars": _bars,
    "maps": _maps,
}
