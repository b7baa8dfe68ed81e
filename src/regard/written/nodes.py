"""The tree of an expression: what stands in it, by the tokens that it starts and ends at."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Node"]


@dataclass(slots=True)
class Node:
    """A node of the tree.

    `op`: number, name, matrix, unknown, neg, T, group, plus, · × * @ / frac ^, or a function.

    A matrix has its cells row by row in `args`, `width` to a row. `start` and `end` are tokens.
    """

    op: str
    start: int
    end: int
    args: list[Node] = field(default_factory=list)
    width: int = 0
    signs: str = ""  # of the terms of a sum
    round: bool = False  # a vector in round brackets

    @property
    def is_number(self) -> bool:
        if self.op in ("neg", "group"):
            return self.args[0].is_number
        return self.op in ("number", "scientific")

    @property
    def is_literal(self) -> bool:
        """A number, or a matrix of numbers."""
        if self.op == "matrix":
            return all(cell.is_number for cell in self.args)
        return self.is_number

    @property
    def is_known(self) -> bool:
        """Whether it can be computed without knowing a name."""
        if self.op in ("name", "unknown"):
            return False
        return all(arg.is_known for arg in self.args)

    @property
    def matrices(self) -> list[Node]:
        """The matrices in it, the outermost only."""
        if self.op == "matrix":
            return [self]
        return [matrix for arg in self.args for matrix in arg.matrices]
