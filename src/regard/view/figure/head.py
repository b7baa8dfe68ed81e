"""One head as a picture: who looks at whom, weight by weight or in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.reference import Array
from regard.view.figure.colours import Range
from regard.view.figure.legend import BAR, bar_down
from regard.view.figure.matrix import (
    Names,
    draw_cells,
    name_columns,
    name_rows,
    round_places,
    two_decimals,
)
from regard.view.figure.places import CALL, Place, compact
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet

_MOST_CELLS = 512  # in height and in width
_MOST_NAMES = 64
_LARGEST_CELL = 0.36  # inches
_LEAST = 0.3  # inches of a picture, however few its rows are
_TICK = 6.0  # points


@dataclass(frozen=True, eq=False)
class _Picture:
    """Rows are means over queries, columns sums over keys, from `first` to `end` each."""

    array: Array
    queries: slice
    keys: slice
    what: str = ""

    @property
    def exact(self) -> bool:
        return not self.what


def draw_head(paper: Paper, place: Place, head: int, log: bool) -> Sheet:
    """The weights of one head: a row is a query, a column a key."""
    picture = _picture(place, head)
    scale = Range.of(picture.array, log, decades=4.0)
    told = place.layer.heads[head]
    kind = told.kind if told.score is None else f"{told.kind} {told.score:.2f}"
    of = f" of {place.run.model}" if place.run.model else ""
    sheet = Sheet(
        paper,
        f"Head {place.index}.{head}: {kind}",
        f"{place.layer.name}{of}. A row is a token, and shows where it looks. {picture.what}",
    )
    _draw(sheet, place, picture, scale)
    return sheet


def _picture(place: Place, head: int) -> _Picture:
    """Every weight where they are few, else an exact picture of blocks, else the run's own map."""
    layer, queries, keys = place.layer, place.queries, place.keys
    n_queries, n_keys = queries.stop - queries.start, keys.stop - keys.start
    if not n_queries or not n_keys:
        raise ValueError(f"{CALL}: the sequence must have tokens; it has none. Choose another.")
    if layer.has_weights:
        if max(n_queries, n_keys) <= _MOST_CELLS:
            tile = layer.weights(head, queries, keys, sequence=place.sequence)
            return _Picture(tile.double().cpu().numpy(), queries, keys)
        rows, columns = min(n_queries, _MOST_CELLS), min(n_keys, _MOST_CELLS)
        shape = (rows, columns)
        mean = layer.pooled(head, queries, keys, shape, sequence=place.sequence)
        array = mean.double().cpu().numpy() * _widths(n_keys, columns)
        return _Picture(array, queries, keys, _blocks(n_queries, n_keys, rows, columns))
    if layer.map is None:
        raise ValueError(
            f"{CALL}: q and k of {layer.name}, or a map of it, must have been kept; neither was. "
            'regard.watch(…, keep=("q", "k")) keeps them.'
        )
    _, _, n_queries, n_keys = layer.shape
    array = compact(layer.map[place.sequence, head].double().cpu().numpy(), n_queries, n_keys)
    exact = array.shape == (n_queries, n_keys)
    what = "" if exact else _blocks(n_queries, n_keys, *array.shape)
    return _Picture(array, slice(0, n_queries), slice(0, n_keys), what)


def _widths(length: int, parts: int) -> Array:
    """How many keys each of the parts has."""
    return np.diff(-(-np.arange(parts + 1) * length // parts)).astype(float)


def _blocks(n_queries: int, n_keys: int, rows: int, columns: int) -> str:
    down, across = _some(n_queries, rows), _some(n_keys, columns)
    return f"A cell is the weight on {across} keys, the mean over {down} queries."


def _some(length: int, parts: int) -> str:
    low, high = length // parts, -(-length // parts)
    return f"{low:,}" if low == high else f"{low:,} or {high:,}"


# ── drawing ───────────────────────────────────────────────────────────────────────────────────


def _draw(sheet: Sheet, place: Place, picture: _Picture, scale: Range) -> None:
    n_queries = picture.queries.stop - picture.queries.start
    n_keys = picture.keys.stop - picture.keys.start
    texts = _texts(place, picture)
    left = above = 0.35
    step = rows = columns = None
    for _ in range(3):  # the names' size depends on the cells', and the cells' on the names'
        room = sheet.width - 2 * MARGIN - left - 0.15 - BAR
        step = _step(n_queries, n_keys, room, TALLEST - sheet.at - above - 0.5)
        rows = columns = None
        if texts is not None:
            rows = Names.of(texts[0], step[1])
            columns = Names.of(texts[1], step[0])
        if rows is None or columns is None:
            rows = columns = None
            left, above = 0.42, 0.32
        else:
            left, above = rows.room() + 0.16, columns.room(step[0]) + 0.16
    assert step is not None
    width, height = n_keys * step[0], n_queries * step[1]
    x = max(MARGIN, (sheet.width - left - width - 0.15 - BAR) / 2) + left
    y = sheet.at + above
    cells = picture.array.shape
    cell = (width / cells[1], height / cells[0])
    numbers = two_decimals(picture.array) if cell[0] >= 0.15 else None
    draw_cells(sheet, x, y, cell, sheet.colours.heat(scale.share(picture.array)), numbers)
    faint = sheet.colours.faint
    middle = x + width / 2, y + height / 2
    sheet.text(middle[0], y - above, "keys", _TICK, across="center", down="top", colour=faint)
    side = x - left + _TICK / 144
    sheet.text(side, middle[1], "queries", _TICK, across="center", colour=faint, turned=True)
    if rows is not None and columns is not None:
        name_rows(sheet, x, y, step[1], rows)
        name_columns(sheet, x, y, step[0], columns)
    else:
        _ticks(sheet, x, y, step, picture, place)
    bar_down(sheet, x + width + 0.15, y, max(min(height, 2.2), 0.6), scale, "weight")
    sheet.at = max(y + height, y + 0.6) + 0.02


def _texts(place: Place, picture: _Picture) -> tuple[list[str], list[str]] | None:
    """The names along both sides, where they are known and few."""
    rows, columns = place.query_names(), place.key_names()
    if rows is None or columns is None or not picture.exact:
        return None
    rows, columns = rows[picture.queries], columns[picture.keys]
    return (rows, columns) if max(len(rows), len(columns)) <= _MOST_NAMES else None


def _step(n_queries: int, n_keys: int, width: float, height: float) -> tuple[float, float]:
    """Inches of one weight, across and down: a square, unless that leaves a mere line."""
    across, down = min(width / n_keys, _LARGEST_CELL), min(height / n_queries, _LARGEST_CELL)
    step = min(across, down)
    return max(step, min(across, _LEAST / n_keys)), max(step, min(down, _LEAST / n_queries))


def _ticks(
    sheet: Sheet,
    x: float,
    y: float,
    step: tuple[float, float],
    picture: _Picture,
    place: Place,
) -> None:
    """Positions from 0 along both sides."""
    colour, start = sheet.colours.faint, picture.queries.start
    offset = place.offset
    width = (picture.keys.stop - picture.keys.start) * step[0]
    height = (picture.queries.stop - start) * step[1]
    for at in round_places(picture.keys.start, picture.keys.stop, most=_many(width)):
        here = x + (at - picture.keys.start + 0.5) * step[0]
        sheet.lines([[(here, y), (here, y - 0.035)]], colour)
        sheet.text(here, y - 0.05, f"{at:,}", _TICK, across="center", down="bottom")
    for at in round_places(start + offset, picture.queries.stop + offset, most=_many(height)):
        here = y + (at - offset - start + 0.5) * step[1]
        sheet.lines([[(x - 0.035, here), (x, here)]], colour)
        sheet.text(x - 0.05, here, f"{at:,}", _TICK, across="right")


def _many(length: float) -> int:
    return max(2, min(9, int(length / 0.4)))
