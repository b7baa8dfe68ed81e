"""How widely each head spreads its weight: the mean entropy by layer and head."""

from __future__ import annotations

import math

import numpy as np
import torch

from regard.view.colours import Range
from regard.view.figure.head import BESIDE, draw_grid
from regard.view.figure.matrix import Names
from regard.view.figure.places import CALL, Asked
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet
from regard.view.names import model_name

_LARGEST = 0.42  # inches of a cell across
_FLAT = 0.62  # its height, as a part of that
_ROOM = 0.42, 0.34  # left of the cells and above them
_SIZE = 6.0


def draw(paper: Paper, asked: Asked) -> Sheet:
    """A row a layer, a column a head; only one layer, if it is given."""
    places = asked.places()
    if all(place.layer.entropy is None for place in places):
        raise ValueError(
            f"{CALL}: the entropy must have been recorded; it was not. "
            "regard.watch(…, See(entropy=True)) records it."
        )
    n_rows, n_columns = len(places), max(place.layer.shape[1] for place in places)
    array = np.full((n_rows, n_columns), np.nan)
    for row, place in zip(array, places, strict=True):
        layer, b = place.layer, place.sequence
        if layer.entropy is not None:  # the mean over the real queries that have a key
            counts = layer.lse[b] > -math.inf
            if layer.queries is not None:
                counts = counts & layer.queries[b]
            entropy = torch.where(counts, layer.entropy[b].double(), math.nan)
            row[: layer.shape[1]] = entropy.nanmean(-1).cpu().numpy()
    sheet = Sheet(
        paper,
        f"Entropy of each head{f' in {name}' if (name := model_name(asked.run)) else ''}",
        "The mean over all tokens, in nats: 0 if a token looks at one other only, "
        "ln n if it looks at n alike.",
    )
    across = min((sheet.width - 2 * MARGIN - _ROOM[0] - BESIDE) / n_columns, _LARGEST)
    tallest = (TALLEST - sheet.at - _ROOM[1]) / n_rows
    down = min(tallest, max(0.1, across * _FLAT))
    draw_grid(
        sheet,
        array,
        (across, down),
        _ROOM,
        ("layer", "head"),
        (
            Names.of([str(place.index) for place in places], down, _SIZE),
            Names.of([str(head) for head in range(n_columns)], across, _SIZE),
        ),
        [["" if math.isnan(value) else f"{value:.2f}" for value in row] for row in array],
        Range.of(array, log=False),
        "nats",
    )
    return sheet
