"""An exercise with its verdicts, and a cell of it by the names of its row and column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.reference import Array
from regard.worked.cell import Cell
from regard.worked.exercise import Exercise, Matrix, Remark
from regard.worked.parts import Head, Key, sources
from regard.written.figures import Figure
from regard.written.found import Claim
from regard.written.names import KINDS, SYMBOLS
from regard.written.source import Source

__all__ = ["Judged", "cell_at", "label_at"]


@dataclass
class Judged:
    """An exercise with its verdicts."""

    exercise: Exercise
    given: set[Key]
    cells: list[Cell]
    claims: list[Claim]
    remarks: list[Remark]
    checked: int  # how many printed cells had a verdict
    questions: list[str]
    unknown: set[Key]  # matrices of which some cell could not be checked
    unchecked: set[int]  # where those cells stand
    exact: dict[Key, Array]  # what is printed and computed, in full

    @property
    def wrong(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.is_wrong]

    def inherit_from(self, kind: str, head: Head) -> list[str]:
        """The matrices whose own mistakes a step inherits, by their symbols."""
        made_of: dict[Key, None] = {(kind, head): None}
        pending = [(kind, head)]
        while pending:
            new = [key for key in sources(self.exercise, *pending.pop()) if key not in made_of]
            made_of |= dict.fromkeys(new)
            pending += new
        del made_of[kind, head]
        first = {(cell.kind, cell.head) for cell in self.cells if cell.origin == "first"}
        causes = {kind for kind, _ in first & made_of.keys()}
        return [SYMBOLS[cause] for cause in KINDS if cause in causes]


def cell_at(
    source: Source,
    matrix: Matrix,
    exercise: Exercise,
    place: tuple[int, int],
    figure: Figure,
    **verdict: Any,
) -> Cell:
    row, column = place
    return Cell(
        kind=matrix.kind,
        head=matrix.head,
        row=row,
        column=column,
        row_label=label_at(matrix, exercise, 0, row),
        column_label=label_at(matrix, exercise, 1, column),
        figure=figure,
        line=source.line(figure.start),
        **verdict,
    )


def label_at(matrix: Matrix, exercise: Exercise, axis: int, index: int) -> str:
    labels = (matrix.row_labels, matrix.column_labels)[axis]
    if axis == 1 and matrix.kind in ("scores", "scaled", "weights"):
        key = exercise.get("key", matrix.head)
        labels = labels or (key.row_labels if key is not None else []) or exercise.tokens
    elif axis == 0 and not labels and not matrix.kind.startswith("W_"):
        labels = exercise.tokens
    return labels[index] if index < len(labels) else str(index + 1)
