"""One head as a picture: who looks at whom, weight by weight or in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.reference import Array
from regard.run.atlas import shares
from regard.view.colours import Range
from regard.view.figure.legend import BAR, bar_down
from regard.view.figure.matrix import Names, draw_cells, round_places, two_decimals
from regard.view.figure.places import CALL, Asked, Place, compact
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet
from regard.view.lines import kind_told, some

BESIDE = 0.15 + BAR  # inches beside the cells, for a bar of the colours
_MOST_CELLS = 512  # in height and in width
_MOST_NAMES = 64
_LARGEST_CELL = 0.36  # inches
_LEAST = 0.3  # inches of a picture, however few its rows are
_TICK = 6.0  # points


@dataclass(frozen=True, eq=False)
class _Picture:
    """Rows are means over queries, columns sums over keys; `what` says of how many, if not one."""

    array: Array
    queries: slice
    keys: slice
    what: str = ""


def draw(paper: Paper, asked: Asked) -> Sheet:
    """The weights of one head: a row is a query, a column a key."""
    place = asked.place()
    head = asked.head_of(place)
    if head is None:
        raise ValueError(
            f"{CALL}: view 'head' must be told a head; got None. "
            f"head=… is its number, from 0 to {place.layer.shape[1] - 1}."
        )
    picture = _picture(place, head)
    sheet = Sheet(
        paper,
        f"Head {place.index}.{head}: {kind_told(place.layer.heads[head])}",
        f"{place.described}. A row is a token, and shows where it looks. {picture.what}",
    )
    _draw(sheet, place, picture, Range.of(picture.array, asked.log, decades=4.0))
    return sheet


def _picture(place: Place, head: int) -> _Picture:
    """Every weight where they are few, else an exact picture of blocks, else the run's own map."""
    layer, queries, keys = place.layer, place.queries, place.keys
    n_queries, n_keys = queries.stop - queries.start, keys.stop - keys.start
    if not n_queries or not n_keys:
        raise ValueError(f"{CALL}: the sequence must have tokens; it has none. Choose another.")
    if layer.has_weights:
        shape = min(n_queries, _MOST_CELLS), min(n_keys, _MOST_CELLS)
        found = shares(layer, shape, head, queries, keys, sequence=place.sequence)
        array = found.double().cpu().numpy()
    elif layer.map is not None:
        _, _, n_queries, n_keys = layer.shape
        queries, keys = slice(0, n_queries), slice(0, n_keys)
        array = compact(layer.map[place.sequence, head].double().cpu().numpy(), n_queries, n_keys)
    else:
        raise ValueError(
            f"{CALL}: q and k of {layer.name}, or a map of it, must have been kept; neither was. "
            'regard.watch(…, keep=("q", "k")) keeps them.'
        )
    if array.shape == (n_queries, n_keys):
        return _Picture(array, queries, keys)
    down, across = some(n_queries, array.shape[0]), some(n_keys, array.shape[1])
    what = f"A cell is the weight on {across} keys, the mean over {down} queries."
    return _Picture(array, queries, keys, what)


# ── drawing ───────────────────────────────────────────────────────────────────────────────────


def draw_grid(
    sheet: Sheet,
    array: Array,
    cell: tuple[float, float],
    room: tuple[float, float],
    titles: tuple[str, str],
    names: tuple[Names, Names],
    numbers: Sequence[Sequence[str]],
    scale: Range,
    unit: str,
) -> tuple[float, float]:
    """Cells in the middle of the sheet, and what they are: names and titles along them, a bar.

    `cell` is inches across and down, `room` left of the cells and above them. Returns where the
    first cell begins.
    """
    left, above = room
    width, height = array.shape[1] * cell[0], array.shape[0] * cell[1]
    x = max(MARGIN, (sheet.width - left - width - BESIDE) / 2) + left
    y = sheet.at + above
    draw_cells(sheet, x, y, cell, sheet.colours.heat(scale.share(array)), numbers, *names)
    faint, side = sheet.colours.faint, x - left + _TICK / 144
    middle = x + width / 2
    sheet.text(middle, y - above, titles[1], _TICK, across="center", down="top", colour=faint)
    sheet.text(side, y + height / 2, titles[0], _TICK, across="center", colour=faint, turned=True)
    bar_down(sheet, x + width + 0.15, y, max(min(height, 2.2), 0.6), scale, unit)
    sheet.at = max(y + height, y + 0.6) + 0.02
    return x, y


def _draw(sheet: Sheet, place: Place, picture: _Picture, scale: Range) -> None:
    queries, keys, array = picture.queries, picture.keys, picture.array
    n_queries, n_keys = queries.stop - queries.start, keys.stop - keys.start
    few = not picture.what and max(n_queries, n_keys) <= _MOST_NAMES
    texts = [each if few and each else [] for each in (place.query_names(), place.key_names())]
    left = above = 0.35
    across = down = 0.0
    none = rows = columns = Names((), 0.0)
    for _ in range(3):  # the names' size depends on the cells', and the cells' on the names'
        width = sheet.width - 2 * MARGIN - left - BESIDE
        height = TALLEST - sheet.at - above - 0.5
        across, down = min(width / n_keys, _LARGEST_CELL), min(height / n_queries, _LARGEST_CELL)
        # A square, unless that leaves a mere line.
        step = min(across, down)
        across = max(step, min(across, _LEAST / n_keys))
        down = max(step, min(down, _LEAST / n_queries))
        rows, columns = Names.of(texts[0][queries], down), Names.of(texts[1][keys], across)
        if rows.texts and columns.texts:
            left, above = rows.room() + 0.16, columns.room(across) + 0.16
        else:
            left, above, rows, columns = 0.42, 0.32, none, none
    cell = n_keys * across / array.shape[1], n_queries * down / array.shape[0]
    numbers = two_decimals(array) if cell[0] >= 0.15 else ()
    titles, names = ("queries", "keys"), (rows, columns)
    x, y = draw_grid(sheet, array, cell, (left, above), titles, names, numbers, scale, "weight")
    if rows.texts:
        return
    # Positions from 0 along both sides.
    colour, offset = sheet.colours.faint, place.offset
    for at in round_places(keys.start, keys.stop, most=_many(n_keys * across)):
        here = x + (at - keys.start + 0.5) * across
        sheet.lines([[(here, y), (here, y - 0.035)]], colour)
        sheet.text(here, y - 0.05, f"{at:,}", _TICK, across="center", down="bottom")
    first = queries.start + offset
    for at in round_places(first, queries.stop + offset, most=_many(n_queries * down)):
        here = y + (at - first + 0.5) * down
        sheet.lines([[(x - 0.035, here), (x, here)]], colour)
        sheet.text(x - 0.05, here, f"{at:,}", _TICK, across="right")


def _many(length: float) -> int:
    return max(2, min(9, int(length / 0.4)))
