"""How widely each head spreads its weight: the mean entropy by layer and head."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.view.figure.colours import Range
from regard.view.figure.legend import BAR, bar_down
from regard.view.figure.matrix import Names, draw_cells, name_columns, name_rows
from regard.view.figure.places import CALL, find_layer, find_sequence
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet

if TYPE_CHECKING:
    from regard.run import Layer, Run
    from regard.run.choose import Which

_LARGEST = 0.42  # inches of a cell across
_FLAT = 0.62  # its height, as a part of that
_SIZE = 6.0


def draw_entropy(paper: Paper, run: Run, layer: Which | None, sequence: int) -> Sheet:
    """A row a layer, a column a head; only one layer, if it is given."""
    layers = list(enumerate(run.layers.values()))
    if layer is not None:
        place = find_layer(run, layer, sequence, "entropy")
        layers = [(place.index, place.layer)]
    b = find_sequence(run, sequence)
    if all(each.entropy is None for _, each in layers):
        raise ValueError(
            f"{CALL}: the entropy must have been recorded; it was not. "
            "regard.watch(…, See(entropy=True)) records it."
        )
    most = max(each.shape[1] for _, each in layers)
    array = np.full((len(layers), most), np.nan)
    for row, (_, each) in enumerate(layers):
        array[row, : each.shape[1]] = _means(each, b)
    scale = Range.of(array, log=False)
    of = f" in {run.model}" if run.model else ""
    sheet = Sheet(
        paper,
        f"Entropy of each head{of}",
        "The mean over all tokens, in nats: 0 if a token looks at one other only, "
        "ln n if it looks at n alike.",
    )
    _draw(sheet, [index for index, _ in layers], array, scale)
    return sheet


def _means(layer: Layer, sequence: int) -> np.ndarray:
    """(H,): over the real queries that have a key."""
    if layer.entropy is None:
        return np.full(layer.shape[1], np.nan)
    counted = layer.lse[sequence] > -math.inf
    if layer.queries is not None:
        counted = counted & layer.queries[sequence]
    entropy = torch.where(counted, layer.entropy[sequence].double(), math.nan)
    return entropy.nanmean(-1).cpu().numpy()


def _draw(sheet: Sheet, layers: list[int], array: np.ndarray, scale: Range) -> None:
    n_rows, n_columns = array.shape
    left, above = 0.42, 0.34
    across = min((sheet.width - 2 * MARGIN - left - 0.15 - BAR) / n_columns, _LARGEST)
    down = min(across * _FLAT, (TALLEST - sheet.at - above) / n_rows)
    down = max(down, min(0.1, (TALLEST - sheet.at - above) / n_rows))
    width, height = n_columns * across, n_rows * down
    x = max(MARGIN, (sheet.width - left - width - 0.15 - BAR) / 2) + left
    y = sheet.at + above
    numbers = [["" if math.isnan(value) else f"{value:.2f}" for value in row] for row in array]
    draw_cells(sheet, x, y, (across, down), sheet.colours.heat(scale.share(array)), numbers)
    faint = sheet.colours.faint
    sheet.text(x + width / 2, y - above, "head", _SIZE, across="center", down="top", colour=faint)
    side = x - left + _SIZE / 144
    sheet.text(side, y + height / 2, "layer", _SIZE, across="center", colour=faint, turned=True)
    columns = Names.of([str(n) for n in range(n_columns)], across, _SIZE)
    rows = Names.of([str(n) for n in layers], down, _SIZE)
    if columns is not None:
        name_columns(sheet, x, y, across, columns)
    if rows is not None:
        name_rows(sheet, x, y, down, rows)
    bar_down(sheet, x + width + 0.15, y, max(min(height, 2.2), 0.6), scale, "nats")
    sheet.at = max(y + height, y + 0.6) + 0.02
