"""The rows and columns of a block find their places in a matrix."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from regard.worked.exercise import OF_PAIRS, Exercise, Matrix
from regard.written.figures import Figure
from regard.written.found import Value
from regard.written.labels import counted, places_of
from regard.written.layer_names import LAYER_GIVEN
from regard.written.names import plain
from regard.written.source import Source, Unreadable

__all__ = ["add_block", "best_row", "put", "rows_agree", "tokens_of"]

_WITHOUT_TOKENS = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", *LAYER_GIVEN)
# A bare power of ten is one way to write −∞: −1e9, −10000.
_MASKED = re.compile(r"[-−–]\s?1(?:0{4,}(?:\.0*)?|(?:\.0*)?e\+?\d{1,2})", re.IGNORECASE)


def tokens_of(exercise: Exercise) -> list[str]:
    """The tokens, as far as they are known: from the text, or from the first labelled matrix."""
    if exercise.tokens:
        return exercise.tokens
    for kind in ("input", "embeddings", "query"):
        for (other, _), matrix in exercise.matrices.items():
            if other == kind and len(matrix.row_labels) > 1:
                return matrix.row_labels
    return []


def add_block(
    source: Source, exercise: Exercise, matrix: Matrix, block: Value, label: str | None
) -> None:
    """Put the figures of a block into the cells of its matrix."""
    rows = _row_places(exercise, matrix, block, label)
    columns = _column_places(exercise, matrix, block)
    width = max(columns) + 1
    if matrix.figures and matrix.shape[1] != width:
        line = source.line(block.start)
        raise Unreadable(
            f"{source.name}: a ragged matrix: {matrix.symbol} has {matrix.shape[1]} columns in "
            f"line {matrix.line} and {width} in line {line}."
        )
    for row in block.rows:
        row[:] = [_masked(figure, matrix.kind) for figure in row]
        for figure in row:
            if figure.value == math.inf or (
                math.isinf(figure.value) and matrix.kind not in ("scores", "scaled")
            ):
                place = source.place(figure.start)
                raise Unreadable(f"{source.name}, {place}: an infinity in {matrix.symbol}.")
    put(matrix, rows, columns, block)
    if block.sums:
        matrix.sums |= dict(zip(rows, block.sums, strict=True))
    matrix.shape = (max([matrix.shape[0], *(i + 1 for i in rows)]), width)


def put(matrix: Matrix, rows: Sequence[int], columns: Sequence[int], block: Value) -> None:
    """Add the figures of a block to the cells in these rows and columns."""
    for i, row in zip(rows, block.rows, strict=True):
        for j, figure in zip(columns, row, strict=True):
            matrix.figures.setdefault((i, j), []).append(figure)
            matrix.piece_of[figure.start] = block.start


def rows_agree(matrix: Matrix, block: Value) -> bool:
    """Whether a block without labels repeats what is printed already, mistakes aside."""
    repeated = sum(_repeated(matrix, i, row) for i, row in enumerate(block.rows))
    return block.shape == matrix.shape and 2 * repeated > len(matrix.figures)


def best_row(matrix: Matrix, block: Value, label: str | None) -> int | None:
    """The row that a vector repeats, mistakes aside: half of its numbers are the same.

    Where nothing says whose row it is, two at least.
    """
    if matrix.shape[1] != block.shape[1]:
        return None
    folded = [name.casefold() for name in matrix.row_labels]
    rows = range(matrix.shape[0])
    least = max(2.0, block.shape[1] / 2)
    if label is not None and label.casefold() in folded:
        rows, least = [folded.index(label.casefold())], block.shape[1] / 2
    same = {i: _repeated(matrix, i, block.rows[0]) for i in rows}
    best = max(same, key=lambda i: same[i], default=None)
    return best if best is not None and same[best] >= least else None


def _repeated(matrix: Matrix, i: int, row: list[Figure]) -> int:
    """How many figures of a row are printed in row `i` of a matrix already."""
    before = (matrix.figures.get((i, j)) for j in range(len(row)))
    return sum(bool(b) and _is_reprint(f, b[0]) for f, b in zip(row, before, strict=True))


def _is_reprint(figure: Figure, before: Figure) -> bool:
    """The same number, or the same with fewer digits; an integer is no rough 0.71."""
    unit = max(figure.unit, before.unit)
    near = unit < 1 and abs(figure.value - before.value) <= unit / 2
    return near or figure.value == before.value


def _masked(figure: Figure, kind: str) -> Figure:
    is_power = _MASKED.fullmatch(figure.text) and figure.value <= -1e4
    if kind in ("scores", "scaled") and is_power:
        return replace(figure, value=float("-inf"), unit=0.0)
    return figure


def _row_places(exercise: Exercise, matrix: Matrix, block: Value, label: str | None) -> list[int]:
    in_order = list(range(block.shape[0]))
    known = tokens_of(exercise)
    if matrix.kind in _WITHOUT_TOKENS:
        return in_order
    if block.is_vector:
        return [_vector_place(matrix, block, label, known)]
    if not block.row_labels:
        return in_order
    places = _places(block.row_labels, known)
    matrix.row_labels = matrix.row_labels or list(known if places else block.row_labels)
    return places or in_order


def _vector_place(matrix: Matrix, block: Value, label: str | None, known: list[str]) -> int:
    if label is None:
        for i in range(matrix.shape[0] if block.shape[1] > 1 else 0):
            if _repeated(matrix, i, block.rows[0]) == block.shape[1]:
                return i
        return matrix.shape[0]
    folded = plain(label).casefold()
    labels = known or matrix.row_labels
    same = [i for i, other in enumerate(labels) if plain(other).casefold() == folded]
    free = [i for i in same if not any((i, j) in matrix.figures for j in range(block.shape[1]))]
    place = (free or same or places_of([label], labels))[0]
    if place is None:
        number = counted(label, labels)
        place = number if 0 <= number < 1000 else matrix.shape[0]
    while len(matrix.row_labels) <= place:
        here = len(matrix.row_labels)
        matrix.row_labels.append(
            known[here] if here < len(known) else label if here == place else str(here + 1)
        )
    return place


def _column_places(exercise: Exercise, matrix: Matrix, block: Value) -> list[int]:
    in_order = list(range(block.shape[1]))
    if not block.column_labels or matrix.kind not in OF_PAIRS:
        return in_order
    known = tokens_of(exercise)
    places = _places(block.column_labels, known) or in_order
    labels = block.column_labels if places == in_order else known
    matrix.column_labels = matrix.column_labels or list(labels)
    return places


def _places(labels: list[str], known: list[str]) -> list[int] | None:
    """The places of labels among the known tokens; None if one is not there, or there twice."""
    places = [place for place in places_of(labels, known) if place is not None]
    return places if len(set(places)) == len(labels) else None
