"""A whole pass in one figure: bands one under the other, each stage drawn to its shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard._flow.flow import Flow
from regard.reference import Array
from regard.view.figure.letters import width_of
from regard.view.figure.sheet import LINE, MARGIN, TALLEST, Paper, Sheet
from regard.view.figures import largest

_HEADING, _NAME = 7.0, 5.6  # points
_GAP = 0.1  # inches between two stages
_LARGEST, _SMALLEST = 0.62, 0.16  # inches of the longer side of a stage
_SCALES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.22)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A stage as it is drawn: its picture, inches wide and high, and what stands above it."""

    name: str
    shares: Array
    size: tuple[float, float]
    weights: bool

    @property
    def room(self) -> float:
        return max(self.size[0], width_of(self.name, _NAME)) + _GAP


def draw(paper: Paper, flow: Flow) -> Sheet:
    """The first head of each stage; stages with more cells than fit are in blocks."""
    title = " ".join(flow.title.split()) or f"A pass of {flow.model or 'attention'}"
    sheet = Sheet(paper, title, flow.note)
    room = sheet.width - 2 * MARGIN
    bands = [band for band in flow.outline["bands"] if band["stages"]]
    longest = max(
        max(flow.outline["stages"][name][side] for side in ("rows", "columns"))
        for band in bands
        for name in band["stages"]
    )
    lines: list[tuple[str, list[list[_Drawn]]]] = []
    for scale in _SCALES:
        lines = [
            (
                band["title"],
                _broken([_stage(flow, n, longest, scale) for n in band["stages"]], room),
            )
            for band in bands
        ]
        if sum(map(_height, lines)) <= TALLEST - sheet.at - 0.5:
            break
    for heading, rows in lines:
        sheet.at += _HEADING / 72 * LINE
        sheet.text(MARGIN, sheet.at - 0.5 * _HEADING / 72, heading, _HEADING, bold=True)
        for row in rows:
            _draw_row(sheet, row)
    pooled = any(flow.picture(name).block != (1, 1) for band in bands for name in band["stages"])
    words = "Orange is above 0 and blue below; in each stage, the largest number is the darkest. "
    words += "Of stages with several heads the first is shown. " if _has_heads(flow) else ""
    if pooled:
        words += "A block has the number of the largest size in it, of weights their share."
    sheet.paragraph(words)
    return sheet


def _has_heads(flow: Flow) -> bool:
    return any(stage["heads"] > 1 for stage in flow.outline["stages"].values())


def _stage(flow: Flow, name: str, longest: int, scale: float) -> _Drawn:
    about = flow.outline["stages"][name]
    values = flow.picture(name).values.astype(np.float64)
    weights = about["part"] == "weights"
    shares = np.where(np.isneginf(values), np.nan, values / (largest(values) or 1.0))
    # Roots, so that 4 beside 1,536 can still be seen.
    sides = [(about[side] / longest) ** 0.5 * _LARGEST for side in ("columns", "rows")]
    wide, tall = (max(side, _SMALLEST) * scale for side in sides)
    return _Drawn(about["symbol"], shares, (wide, tall), weights)


def _broken(stages: list[_Drawn], room: float) -> list[list[_Drawn]]:
    """Side by side, as many as there is room for."""
    rows: list[list[_Drawn]] = []
    used = room + 1.0
    for stage in stages:
        if used + stage.room > room:
            rows.append([])
            used = 0.0
        rows[-1].append(stage)
        used += stage.room
    return rows


def _height(line: tuple[str, list[list[_Drawn]]]) -> float:
    return _HEADING / 72 * LINE + sum(max(map(_tall, row)) for row in line[1])


def _tall(stage: _Drawn) -> float:
    return stage.size[1] + _NAME / 72 * LINE + 0.06


def _draw_row(sheet: Sheet, row: list[_Drawn]) -> None:
    x, top = MARGIN, sheet.at + _NAME / 72 * LINE
    for stage in row:
        paint = sheet.colours.heat if stage.weights else sheet.colours.signed
        box = x, top, *stage.size
        sheet.picture(box, paint(stage.shares))
        sheet.box(box, edge=sheet.colours.faint)
        sheet.text(x, top - 0.5 * _NAME / 72 * LINE, stage.name, _NAME, colour=sheet.colours.faint)
        x += stage.room
    sheet.at += max(map(_tall, row))
