"""All heads of a model, each as a small map, with the kind of head that it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.reference import Array
from regard.run.atlas import small_map
from regard.view.figure.colours import KINDS, Range
from regard.view.figure.legend import bar_across, key
from regard.view.figure.places import CALL, compact, find_layer, find_sequence
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet
from regard.view.lines import counted

if TYPE_CHECKING:
    from regard.run import Head, Layer, Run
    from regard.run.choose import Which

_LARGEST = 0.95  # inches of a map
_GAP = 0.16  # between groups of layers
_LABEL = 0.24  # left of a layer, for its number
_NAMED = 0.44  # inches of a map under which there is room for its kind
_SIZE = 6.0


@dataclass(frozen=True)
class _Layout:
    """Layers in groups side by side, so that the maps are as large as can be."""

    groups: int
    rows: int
    cell: float
    under: float  # inches under each map, for its kind


def draw_model(paper: Paper, run: Run, layer: Which | None, sequence: int, log: bool) -> Sheet:
    """Every layer × head as a small map; only one layer, if it is given."""
    layers = list(enumerate(run.layers.values()))
    if layer is not None:
        place = find_layer(run, layer, sequence, "model")
        layers = [(place.index, place.layer)]
    b = find_sequence(run, sequence)
    maps = [_map(each, b) for _, each in layers]
    if all(each is None for each in maps):
        raise ValueError(
            f"{CALL}: q and k, or maps, must have been kept; neither were. "
            'regard.watch(…, keep=("q", "k")) or See(map=(64, 64)) brings them.'
        )
    known = [each.ravel() for each in maps if each is not None]
    scale = Range.of(np.concatenate(known), log)
    n_heads = sum(each.shape[1] for _, each in layers)
    size = f"{counted(len(layers), 'layer')}, {counted(n_heads, 'head')}"
    of = f"{run.model}: " if run.model else ""
    sheet = Sheet(
        paper,
        f"{of}{size}",
        "Each map is a head: a row is a token, or some, and shows where it looks in the text.",
    )
    heads = {index: each.heads for index, each in layers}
    _draw(sheet, layers, maps, heads, scale)
    _legend(sheet, heads, scale, run)
    return sheet


def _map(layer: Layer, sequence: int) -> Array | None:
    """(H, rows, columns) of one sequence, rows summing to 1."""
    picture = small_map(layer, sequence=sequence)
    if picture is None:
        return None
    return compact(picture.double().cpu().numpy(), *layer.shape[2:])


def _layout(n_layers: int, n_heads: int, room: tuple[float, float]) -> _Layout:
    """Groups of layers such that a map is as large as can be."""
    best = _Layout(1, n_layers, 0.0, 0.0)
    for groups in range(1, n_layers + 1):
        rows = -(-n_layers // groups)
        across = (room[0] - (groups - 1) * _GAP) / groups - _LABEL
        cell = min(across / n_heads, room[1] / rows, _LARGEST)
        under = 0.12 if cell >= _NAMED else 0.0
        if under:
            cell = min(cell, room[1] / rows - under)
        if cell > best.cell * 1.05:  # fewer groups are easier to read
            best = _Layout(groups, rows, cell, under)
    return best


def _draw(
    sheet: Sheet,
    layers: list[tuple[int, Layer]],
    maps: list[Array | None],
    heads: dict[int, list[Head]],
    scale: Range,
) -> None:
    most = max(each.shape[1] for _, each in layers)
    room = sheet.width - 2 * MARGIN, TALLEST - sheet.at - 0.9
    layout = _layout(len(layers), most, room)
    cell, colours = layout.cell, sheet.colours
    inner, pad = cell * 0.9, cell * 0.05
    wide = _LABEL + most * cell
    total = layout.groups * wide + (layout.groups - 1) * _GAP
    left = max(MARGIN, (sheet.width - total) / 2)
    y = sheet.at + 0.16
    small = min(_SIZE, cell * 72 * 0.5)
    for group in range(layout.groups):
        x = left + group * (wide + _GAP) + _LABEL
        for head in range(most):
            sheet.text(
                x + (head + 0.5) * cell, y - 0.07, str(head), small,
                across="center", colour=colours.faint,
            )  # fmt: skip
        sheet.text(x - 0.04, y - 0.07, "head", small, across="right", colour=colours.faint)
        start = group * layout.rows
        for row, (index, layer) in enumerate(layers[start : start + layout.rows]):
            top = y + row * (cell + layout.under)
            sheet.text(
                x - 0.05, top + cell / 2, str(index), min(_SIZE, small * 1.2),
                across="right", colour=colours.faint,
            )  # fmt: skip
            pictures = maps[start + row]
            for head in range(layer.shape[1]):
                told = heads[index][head]
                place = x + head * cell + pad, top + pad
                if pictures is not None:
                    sheet.picture(*place, inner, inner, colours.heat(scale.share(pictures[head])))
                line = 0.4 if told.kind == "mixed" else min(1.0, cell * 2.4)
                sheet.box(*place, inner, inner, edge=colours.kind(told.kind), line=line)
                if layout.under:
                    _name(sheet, place[0], place[1] + inner, inner, told)
    sheet.at = y + layout.rows * (cell + layout.under)


def _name(sheet: Sheet, x: float, y: float, width: float, head: Head) -> None:
    """The kind, and how much of it there is."""
    if head.kind == "mixed" or head.score is None:
        return
    text = f"{head.kind.removesuffix(' token')} {head.score:.2f}"
    size = min(5.0, width * 72 / 7.5)
    sheet.text(x + width / 2, y + 0.075, text, size, across="center", colour=sheet.colours.faint)


def _legend(sheet: Sheet, heads: dict[int, list[Head]], scale: Range, run: Run) -> None:
    times = Counter(head.kind for each in heads.values() for head in each)
    entries = [(f"{kind} {times[kind]}", sheet.colours.kind(kind)) for kind in KINDS if times[kind]]
    key(sheet, entries, "kind of head:")
    bar_across(sheet, scale, "share of a row's weight")
    batch = max(layer.shape[0] for layer in run.layers.values())
    if batch > 1:
        sheet.paragraph(f"The kinds are means over all {batch} sequences.")
