"""Whose row is it? The rows and columns of a block find their places in a matrix."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from regard.worked.exercise import Exercise, Matrix
from regard.written.figures import Figure
from regard.written.found import Value
from regard.written.layer_names import LAYER_GIVEN
from regard.written.names import Name, plain
from regard.written.source import Source, Unreadable

__all__ = [
    "add_block",
    "add_row",
    "best_row",
    "label_of",
    "rows_agree",
    "tokens_of",
]

_SQUARE = ("scores", "scaled", "weights")  # kinds whose columns are tokens
_WITHOUT_TOKENS = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", *LAYER_GIVEN)
# A bare power of ten is one way to write −∞: −1e9, −10000.
_MASKED = re.compile(r"[-−–]\s?1(?:0{4,}(?:\.0*)?|(?:\.0*)?e\+?\d{1,2})", re.IGNORECASE)
_ROW = re.compile(r"\W*(?:row|행|行|第|ligne|zeile|fila|linha|hàng) ?(\d{1,3})\b", re.IGNORECASE)
_COUNTED = re.compile(
    r"(?:[a-z]|token|word|input|row|position|토큰|단어|입력|টোকেন|শব্দ)?[ _#]*(\d{1,4})",
    re.IGNORECASE,
)


def tokens_of(exercise: Exercise) -> list[str]:
    """The tokens, as far as they are known: from the text, or from the first labelled matrix."""
    if exercise.tokens:
        return exercise.tokens
    for kind in ("input", "embeddings", "query"):
        for (other, _), matrix in exercise.matrices.items():
            if other == kind and len(matrix.row_labels) > 1:
                return matrix.row_labels
    return []


def label_of(block: Value, name: Name, exercise: Exercise, *, named_by_title: bool) -> str | None:
    """The token that a vector belongs to: by its symbol, by its sentence, by what stands left."""
    if name.row is not None or not block.is_vector:
        return name.row
    if counted := _ROW.match(block.sentence):
        return counted[1]
    found = _token_in(block.sentence, tokens_of(exercise))
    if found is not None:
        return found
    lead = re.sub(r"^\s*(?:(?:[-*+•>]|#+|//|\d+[.)])\s+)+|[\s:=→>$*`\"“”]+$", "", block.lead)
    lead = re.sub(r"(?:\\to|\\rightarrow|=)\s*$", "", lead).strip(' \t"“”*`$')
    if named_by_title and 0 < len(lead) <= 40:
        return lead
    last = re.search(r"(?<![\d.])(\d{1,3})$", lead)
    if last and not re.search(r"head[ _]?\d+$|step \d+$", lead, re.IGNORECASE):
        return last[1]
    return None


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
    for i, row in zip(rows, block.rows, strict=True):
        for j, figure in zip(columns, row, strict=True):
            matrix.figures.setdefault((i, j), []).append(figure)
            matrix.piece_of[figure.start] = block.start
    if block.sums:
        matrix.sums |= dict(zip(rows, block.sums, strict=True))
    matrix.shape = (max([matrix.shape[0], *(i + 1 for i in rows)]), width)


def rows_agree(matrix: Matrix, block: Value) -> bool:
    """Whether a block without labels repeats what is printed already, mistakes aside."""
    if block.shape != matrix.shape:
        return False
    same = [
        _is_reprint(figure, before[0])
        for i, row in enumerate(block.rows)
        for j, figure in enumerate(row)
        if (before := matrix.figures.get((i, j)))
    ]
    return bool(same) and sum(same) > len(same) / 2


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
    same = {
        i: sum(
            bool(before) and _is_reprint(figure, before[0])
            for j, figure in enumerate(block.rows[0])
            for before in [matrix.figures.get((i, j), [])]
        )
        for i in rows
    }
    best = max(same, key=lambda i: same[i], default=None)
    enough = best is not None and same[best] >= least
    return best if enough else None


def add_row(matrix: Matrix, row: int, block: Value) -> None:
    for j, figure in enumerate(block.rows[0]):
        matrix.figures.setdefault((row, j), []).append(figure)
        matrix.piece_of[figure.start] = block.start


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
    if matrix.kind in _WITHOUT_TOKENS:
        return in_order
    known = tokens_of(exercise)
    if block.is_vector:
        return [_vector_place(matrix, block, label, known)]
    labels = block.row_labels
    if not labels:
        return in_order
    places = _find_all(labels, known)
    if None in places or len(set(places)) < len(places):
        # Not the known tokens, or one of them twice: the order counts.
        matrix.row_labels = matrix.row_labels or list(labels)
        return in_order
    matrix.row_labels = matrix.row_labels or list(known)
    return [place for place in places if place is not None]


def _vector_place(matrix: Matrix, block: Value, label: str | None, known: list[str]) -> int:
    if label is None:
        for i in range(matrix.shape[0] if block.shape[1] > 1 else 0):
            same = [matrix.figures.get((i, j)) for j in range(block.shape[1])]
            if all(f and _is_reprint(g, f[0]) for f, g in zip(same, block.rows[0], strict=True)):
                return i
        return matrix.shape[0]
    folded = plain(label).casefold()
    labels = known or matrix.row_labels
    same = [i for i, other in enumerate(labels) if plain(other).casefold() == folded]
    free = [i for i in same if not any((i, j) in matrix.figures for j in range(block.shape[1]))]
    place = (free or same or _find_all([label], labels))[0]
    if place is None:
        count = _COUNTED.fullmatch(label)
        place = int(count[1]) - 1 if count and 0 < int(count[1]) <= 1000 else matrix.shape[0]
        place = max(place, 0)
    while len(matrix.row_labels) <= place:
        here = len(matrix.row_labels)
        matrix.row_labels.append(
            known[here] if here < len(known) else label if here == place else str(here + 1)
        )
    return place


def _column_places(exercise: Exercise, matrix: Matrix, block: Value) -> list[int]:
    columns = list(range(block.shape[1]))
    if not block.column_labels or matrix.kind not in _SQUARE:
        return columns
    known = tokens_of(exercise)
    found = _find_all(block.column_labels, known)
    if None not in found and len(set(found)) == len(found):
        columns = [index for index in found if index is not None]
    in_order = columns == list(range(block.shape[1]))
    matrix.column_labels = matrix.column_labels or list(block.column_labels if in_order else known)
    return columns


def _find_all(labels: Sequence[str], known: list[str]) -> list[int | None]:
    """The places of tokens among the known ones: the only one of its name, or by its count."""
    folded = [plain(other).casefold() for other in known]
    several, place = Counter(folded), {name: i for i, name in enumerate(folded)}

    def find(label: str) -> int | None:
        name = plain(label).casefold()
        if several[name] == 1:
            return place[name]
        count = _COUNTED.fullmatch(label)
        return int(count[1]) - 1 if count and 1 <= int(count[1]) <= len(known) else None

    return [find(label) for label in labels]


def _token_in(sentence: str, labels: list[str]) -> str | None:
    """The one token that a sentence speaks of: at its start, or anywhere in it."""
    words = re.sub(r"^\s*(?:[-*+•]|\d+[.)])\s+", "", sentence)[:1000]
    labels = [label for label in labels if label in words]
    for label in labels:
        if re.match(rf"[\s\"'“*_`$]*{re.escape(label)}(?!\w)", words):
            return label
    found = [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", words)]
    return found[0] if len(found) == 1 else None
