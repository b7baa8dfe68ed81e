"""A cell of a worked example with a verdict that is not plainly good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.worked.parts import Head
from regard.written.figures import Figure
from regard.written.names import SYMBOLS

__all__ = ["Cell"]


@dataclass
class Cell:
    """A printed cell that is wrong, or that does not follow from what is printed before it.

    `origin` is "first" where the mistake was made here, "inherited" where the step is right and
    what it starts from is not, and "none" where the cell itself is right.
    """

    kind: str
    head: Head
    row: int
    column: int
    row_label: str
    column_label: str
    figure: Figure
    line: int
    right: float
    from_printed: float  # what the step gives from what is printed before it
    reachable: tuple[float, float]
    follows_range: tuple[float, float]
    from_inputs: bool
    from_step: bool
    origin: Literal["first", "inherited", "none"]
    cause: str = ""
    is_explained: bool = False  # by a slip that gives all of its matrix
    is_tainted: bool = False  # made of a cell that is printed wrong
    title: str = ""  # for what is no cell of a matrix: the equation

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
