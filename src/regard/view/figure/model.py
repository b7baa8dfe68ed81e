"""All heads of a model, each as a small map, with the kind of head that it is."""

from __future__ import annotations

from collections import Counter

import numpy as np

from regard.reference import Array
from regard.run.atlas import small_map
from regard.text import counted
from regard.view.colours import KINDS, Range
from regard.view.figure.legend import bar_across, key
from regard.view.figure.places import CALL, Asked, Place, compact
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet
from regard.view.lines import kind_told
from regard.view.names import model_name

_LARGEST = 0.95  # inches of a map
_GAP = 0.16  # between groups of layers
_LABEL = 0.24  # left of a layer, for its number
_NAMED = 0.44  # inches of a map under which there is room for its kind
_SIZE = 6.0


def draw(paper: Paper, asked: Asked) -> Sheet:
    """Every layer × head as a small map; only one layer, if it is given."""
    run, places = asked.run, asked.places()
    maps: list[Array | None] = []  # (H, rows, columns) of one sequence, rows summing to 1
    for place in places:
        picture = small_map(place.layer, sequence=place.sequence)
        array = None if picture is None else picture.double().cpu().numpy()
        maps.append(None if array is None else compact(array, *place.layer.shape[2:]))
    known = [each.ravel() for each in maps if each is not None]
    if not known:
        raise ValueError(
            f"{CALL}: q and k, or maps, must have been kept; neither were. "
            'regard.watch(…, keep=("q", "k")) or See(map=(64, 64)) brings them.'
        )
    scale = Range.of(np.concatenate(known), asked.log)
    times = Counter(head.kind for place in places for head in place.layer.heads)
    size = f"{counted(len(places), 'layer')}, {counted(times.total(), 'head')}"
    sheet = Sheet(
        paper,
        f"{name}: {size}" if (name := model_name(run)) else size,
        "Each map is a head: a row is a token, or some, and shows where it looks in the text.",
    )
    _draw(sheet, places, maps, scale)
    entries = [(f"{kind} {times[kind]}", sheet.colours.kind(kind)) for kind in KINDS if times[kind]]
    key(sheet, entries, "kind of head:")
    bar_across(sheet, scale, "share of a row's weight")
    batch = max(layer.shape[0] for layer in run.layers.values())
    if batch > 1:
        sheet.paragraph(f"The kinds are means over all {batch} sequences.")
    return sheet


def _layout(n_layers: int, n_heads: int, width: float, height: float) -> tuple[int, float, float]:
    """Groups of layers side by side such that a map is as large as can be.

    How many layers a group has, inches of a map, and inches under it, for its kind.
    """
    best = n_layers, 0.0, 0.0
    for groups in range(1, n_layers + 1):
        rows = -(-n_layers // groups)
        across = (width - (groups - 1) * _GAP) / groups - _LABEL
        cell = min(across / n_heads, height / rows, _LARGEST)
        under = 0.12 if cell >= _NAMED else 0.0
        if under:
            cell = min(cell, height / rows - under)
        if cell > best[1] * 1.05:  # fewer groups are easier to read
            best = rows, cell, under
    return best


def _draw(sheet: Sheet, places: list[Place], maps: list[Array | None], scale: Range) -> None:
    most = max(place.layer.shape[1] for place in places)
    room = sheet.width - 2 * MARGIN, TALLEST - sheet.at - 0.9
    rows, cell, under = _layout(len(places), most, *room)
    groups = -(-len(places) // rows)
    wide = _LABEL + most * cell + _GAP
    left = max(MARGIN, (sheet.width - groups * wide + _GAP) / 2) + _LABEL
    y, faint = sheet.at + 0.16, sheet.colours.faint
    small = min(_SIZE, cell * 72 * 0.5)
    for n, (place, pictures) in enumerate(zip(places, maps, strict=True)):
        x, top = left + n // rows * wide, y + n % rows * (cell + under)
        if n % rows == 0:
            for head in range(most):
                at = x + (head + 0.5) * cell
                sheet.text(at, y - 0.07, str(head), small, across="center", colour=faint)
            sheet.text(x - 0.04, y - 0.07, "head", small, across="right", colour=faint)
        number = min(_SIZE, small * 1.2)
        middle = top + cell / 2
        sheet.text(x - 0.05, middle, str(place.index), number, across="right", colour=faint)
        for head, told in enumerate(place.layer.heads):
            square = x + (head + 0.05) * cell, top + cell * 0.05, cell * 0.9, cell * 0.9
            if pictures is not None:
                sheet.picture(square, sheet.colours.heat(scale.share(pictures[head])))
            line = 0.4 if told.kind == "mixed" else min(1.0, cell * 2.4)
            sheet.box(square, edge=sheet.colours.kind(told.kind), line=line)
            if under and told.kind != "mixed" and told.score is not None:
                text = kind_told(told).replace(" token", "")
                at = x + (head + 0.5) * cell, top + cell * 0.95 + 0.075
                size = min(5.0, cell * 0.9 * 72 / 7.5)
                sheet.text(*at, text, size, across="center", colour=faint)
    sheet.at = y + rows * (cell + under)
