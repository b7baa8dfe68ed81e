"""What the readers find in a text: blocks of numbers, single statements, and the words around."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.worked.figures import Figure

__all__ = ["Block", "Found", "Statement"]


@dataclass
class Block:
    """A matrix of printed figures, not yet known by name.

    `lead` is the text directly left of it (`E_{The} =`, a column's heading, a key in a file) and
    `titles` are the lines above it, the nearest first.
    """

    start: int
    rows: list[list[Figure]]
    lead: str = ""
    titles: list[str] = field(default_factory=list)
    row_labels: list[str] | None = None
    column_labels: list[str] | None = None
    sums: list[Figure] | None = None
    is_vector: bool = False
    end: int = 0  # where it ends in the text, for what stands in a line
    head: int | None = None  # where the file itself says it
    sentence: str = ""  # the line of running text that a vector stands in, up to the vector

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0]) if self.rows else 0


@dataclass
class Statement:
    """`lead = figure`, for a single number: `d_k = 2`, `Q·K₁ᵀ = 6`."""

    start: int
    lead: str
    figure: Figure


@dataclass
class Found:
    """All that the readers found in one source, in the order of the text."""

    blocks: list[Block] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    is_prose: bool = True  # False for JSON and TOML, in which words are keys
