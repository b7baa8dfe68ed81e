"""A cell of a worked example with a verdict that is not plainly good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.worked.chain import Head
from regard.worked.figures import Figure
from regard.worked.names import SYMBOLS

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

    @property
    def is_wrong(self) -> bool:
        return self.origin != "none"

    @property
    def right_text(self) -> str:
        return self.figure.like(self.right)

    @property
    def name(self) -> str:
        """`K[love, 2]`, with the head where there are several."""
        return f"{SYMBOLS[self.kind]}[{self.row_label}, {self.column_label}]"
