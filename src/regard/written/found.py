"""What is found in a document: values and the words around them, equations, what was not read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from regard.written.figures import Figure
from regard.written.nodes import Node

__all__ = ["Claim", "Equality", "Found", "Value"]


@dataclass
class Value:
    """A matrix, a vector or a number as printed, not yet known by name.

    `lead` is the text directly left of it (`E_{The} =`, a column's heading, a key in a file) and
    `titles` are the lines above it, the nearest first.
    """

    start: int
    rows: list[list[Figure]]
    lead: str = ""
    titles: list[str] = field(default_factory=list)
    row_labels: list[str] | None = None
    column_labels: list[str] | None = None
    headings: list[str] = field(default_factory=list)  # of the columns of a table
    sums: list[Figure] | None = None
    is_vector: bool = False
    is_number: bool = False
    head: int | None = None  # where the file itself says it
    number: int = 0  # which row it is, counted from 1, where its index says it
    sentence: str = ""  # the line of running text that a vector stands in, up to the vector
    is_code: bool = False  # in a notebook, where a program names what it prints
    is_assigned: bool = True  # it stands right of a sign that sets it equal to something

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0]) if self.rows else 0

    @property
    def announced(self) -> str:
        """What stands left of it, and in the line above."""
        return " ".join([self.lead, *self.titles[:1]])

    @property
    def figure(self) -> Figure:
        return self.rows[0][0]

    @property
    def figures(self) -> list[Figure]:
        return [figure for row in self.rows for figure in row]

    @property
    def n_digits(self) -> int:
        """How many digits its numbers have after the point, each number counted once."""
        units = {abs(figure.value): figure.unit for figure in self.figures}
        return sum(round(-math.log10(unit)) for unit in units.values() if unit > 0)

    def refine_units(self) -> None:
        """NumPy drops zeros: `1.` beside `0.45` is 1.00."""
        if any(figure.text.endswith(".") for figure in self.figures):
            finest = min((figure.unit for figure in self.figures if figure.unit > 0), default=1.0)
            for row in self.rows:
                row[:] = [replace(f, unit=finest) if f.text.endswith(".") else f for f in row]

    @property
    def sums_to_one(self) -> bool:
        """Whether all is from 0 to 1, and each row sums to 1 as far as its digits tell."""
        return all(0 <= figure.value <= 1 for figure in self.figures) and all(
            abs(sum(f.value for f in row) - 1) <= 0.011 + sum(min(f.unit, 0.1) for f in row) / 2
            for row in self.rows
        )

    @property
    def is_distribution(self) -> bool:
        """Rows of several shares that sum to 1."""
        some_between = any(0 < figure.value < 1 for figure in self.figures)
        return len(self.rows[0]) > 1 and some_between and self.sums_to_one


@dataclass
class Claim:
    """Something that the text says besides its matrices: `d_k = 2`, V ∈ R^{n×n}, a row's sum."""

    about: str
    printed: str
    right: str
    is_right: bool
    line: int
    figure: Figure | None = None


@dataclass
class Equality:
    """Sides that are set equal and hold no names; `figure_of` gives the figure of a number."""

    start: int
    text: str
    sides: list[Node]
    figure_of: Callable[[Node], Figure]
    by_program: bool = False  # a cell of a notebook says how it was made
    by_lines: bool = False  # lines below one another that set the same name
    is_exact: bool = False  # its factors are given, and not rounded
    terms: Node | None = None  # a side whose terms are exactly those of the side before it

    @property
    def is_about(self) -> bool:
        return bool(re.search(r"[≈≃~∼]|\\(?:approx|simeq|sim)\b", self.text))


@dataclass
class Found:
    """All that was found in one document, in the order of its text."""

    values: list[Value] = field(default_factory=list)
    equations: list[Equality] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)  # of running text, with their places
    passed_over: list[tuple[int, str]] = field(default_factory=list)  # where, and what it is
    remarks: list[str] = field(default_factory=list)
    is_prose: bool = True  # False for JSON and TOML, in which words are keys
