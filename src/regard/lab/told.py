"""What a chart shows, in sentences: for those who do not see it, wherever it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.lab.said import Said, figure


def told(chart: Mapping[str, Any], language: str) -> str:
    """The text of a chart's document: what is drawn, over what, and from where to where.

    >>> line = {"name": "one", "x": [1, 2, 3], "y": [4.0, None, 0.5]}
    >>> told({"kind": "lines", "title": "Down", "x": "step", "y": "loss", "series": [line]}, "en")
    'Down. loss over step. one: from 4 at 1 to 0.5 at 3.'
    """
    if chart["kind"] == "maps":
        panes = " ".join(told_pane(chart, pane, language) for pane in chart["panes"])
        return f"{chart['title']}. {panes}"
    parts = _lines(chart, language) if chart["kind"] == "lines" else _bars(chart, language)
    return " ".join([f"{chart['title']}.", *parts])


def _lines(chart: Mapping[str, Any], language: str) -> list[str]:
    parts = [Said("lab.told.lines", {"x": chart["x"], "y": chart["y"]}).text(language)]
    for series in chart["series"]:
        points = [(x, y) for x, y in zip(series["x"], series["y"], strict=True) if y is not None]
        if not points:
            parts.append(Said("lab.told.nothing", {"name": series["name"]}).text(language))
            continue
        (x, y), (last_x, last_y) = points[0], points[-1]
        values = {"name": series["name"], "from": _number(x), "first": _number(y)}
        values |= {"to": _number(last_x), "last": _number(last_y)}
        parts.append(Said("lab.told.line", values).text(language))
    return parts


def _bars(chart: Mapping[str, Any], language: str) -> list[str]:
    parts = []
    for group, row in zip(chart["groups"], chart["values"], strict=True):
        bars = [
            f"{name} {'–' if y is None else _number(y)}"
            for name, y in zip(chart["names"], row, strict=True)
        ]
        several = f" ({group})" if len(chart["groups"]) > 1 else ""
        values = {"what": f"{chart['y']}{several}", "bars": ", ".join(bars)}
        parts.append(Said("lab.told.bars", values).text(language))
    return parts


def told_pane(chart: Mapping[str, Any], pane: Mapping[str, Any], language: str) -> str:
    """The same of one matrix: its size, its least and its largest number, and where that stands."""
    cells = [
        (x, row, column)
        for row, values in zip(chart["rows"], pane["values"], strict=True)
        for column, x in zip(chart["columns"], values, strict=True)
        if x is not None
    ]
    if not cells:
        return Said("lab.told.nothing", {"name": pane["name"]}).text(language)
    most, row, column = max(cells, key=lambda cell: cell[0])
    values = {"name": pane["name"], "rows": len(chart["rows"]), "columns": len(chart["columns"])}
    values |= {"least": _number(min(x for x, _, _ in cells)), "most": _number(most)}
    return Said("lab.told.map", values | {"row": row, "column": column}).text(language)


def _number(x: float) -> str:
    """As the tables have it: four digits, whole numbers as they are.

    >>> _number(4096.0), _number(4072.4), _number(0.21234), _number(1e-7), _number(-2.0)
    ('4,096', '4,072', '0.2123', '1·10⁻⁷', '−2')
    """
    if abs(x) >= 1000 or x == int(x):
        return figure(x, ",.0f")
    return figure(x, ".4g")
