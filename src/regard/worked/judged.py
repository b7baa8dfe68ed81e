"""An exercise with its verdicts, and the cells of it that are not plainly right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.reference import Array
from regard.worked.exercise import OF_PAIRS, Exercise, Head, Key, Matrix
from regard.worked.parts import sources
from regard.written.figures import Figure
from regard.written.found import Claim
from regard.written.names import KINDS, SYMBOLS
from regard.written.source import Source

__all__ = ["Cell", "Judged"]


@dataclass
class Cell:
    """A printed cell that is wrong, or that does not follow from what is printed before it.

    `origin` is "first" where the mistake was made here, "inherited" where the step is right and
    what it starts from is not, and "none" where the cell itself is right. What is no step of a
    chain (an equation, a given matrix) has no ranges to be in.
    """

    figure: Figure
    line: int
    right: float
    cause: str = ""
    kind: str = "equation"
    head: Head = None
    row: int = 0
    column: int = 0
    row_label: str = ""
    column_label: str = ""
    title: str = ""  # for what is no cell of a matrix: the equation
    from_printed: float = math.nan  # what the step gives from what is printed before it
    reachable: tuple[float, float] = (math.nan, math.nan)
    follows_range: tuple[float, float] = (math.nan, math.nan)
    from_inputs: bool = False
    from_step: bool = False
    origin: Literal["first", "inherited", "none"] = "first"
    is_explained: bool = False  # by a slip that gives all of its matrix
    is_tainted: bool = False  # made of a cell that is printed wrong

    @property
    def is_wrong(self) -> bool:
        return self.origin != "none"

    @property
    def right_text(self) -> str:
        """What belongs here, in the printed digits.

        Where what it is made of is printed right: what follows from that, if within reach of the
        inputs, so that it agrees with its neighbours. Else the exact value.
        """
        low = max(self.reachable[0], self.follows_range[0])
        high = min(self.reachable[1], self.follows_range[1])
        if self.is_tainted or not low <= high:
            return self.figure.like(self.right)
        return self.figure.like(min(max(self.from_printed, low), high))

    @property
    def symbol(self) -> str:
        return SYMBOLS.get(self.kind, "equations")

    @property
    def name(self) -> str:
        """`K[love, 2]`, or the equation."""
        return self.title or f"{SYMBOLS[self.kind]}[{self.row_label}, {self.column_label}]"


@dataclass
class Judged:
    """An exercise with its verdicts."""

    source: Source
    exercise: Exercise
    given: set[Key] = field(default_factory=set)
    cells: list[Cell] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    checked: int = 0  # how many printed cells had a verdict
    unknown: set[Key] = field(default_factory=set)  # some cell of them could not be checked
    unchecked: set[int] = field(default_factory=set)  # where those cells stand
    exact: dict[Key, Array] = field(default_factory=dict)  # what is printed and computed, in full

    @property
    def wrong(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.is_wrong]

    def of(self, key: Key) -> list[Cell]:
        return [cell for cell in self.cells if (cell.kind, cell.head) == key]

    def computed(self) -> Iterator[tuple[Figure, float]]:
        """The figures that a step gives, each with what it gives in full."""
        for key, exact in self.exact.items():
            for cell, figures in self.exercise.matrices[key].figures.items():
                yield from ((figure, float(exact[cell])) for figure in figures)

    def inherit_from(self, kind: str, head: Head) -> list[str]:
        """The matrices whose own mistakes a step inherits, by their symbols."""
        made_of = [(kind, head)]
        for key in made_of:  # which grows
            made_of += [source for source in sources(self.exercise, *key) if source not in made_of]
        first = {(cell.kind, cell.head) for cell in self.cells if cell.origin == "first"}
        causes = {cause for cause, _ in first & set(made_of[1:])}
        return [SYMBOLS[cause] for cause in KINDS if cause in causes]

    def cell(
        self, matrix: Matrix, place: tuple[int, int], figure: Figure, right: float, **verdict: Any
    ) -> Cell:
        """A cell of a matrix, by the names of its row and column."""
        row, column = place
        return Cell(
            figure,
            self.source.line(figure.start),
            right,
            kind=matrix.kind,
            head=matrix.head,
            row=row,
            column=column,
            row_label=self.label(matrix, 0, row),
            column_label=self.label(matrix, 1, column),
            **verdict,
        )

    def label(self, matrix: Matrix, axis: int, index: int) -> str:
        labels = (matrix.row_labels, matrix.column_labels)[axis]
        if axis == 1 and matrix.kind in OF_PAIRS:
            key = self.exercise.get("key", matrix.head)
            labels = labels or (key.row_labels if key is not None else []) or self.exercise.tokens
        elif axis == 0 and not labels and not matrix.kind.startswith("W_"):
            labels = self.exercise.tokens
        return labels[index] if index < len(labels) else str(index + 1)
