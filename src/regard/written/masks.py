"""Masks as programs make them: ones, triangles, comparisons, and what is filled in by them."""

from __future__ import annotations

import ast
from collections.abc import Callable

__all__ = ["Grid", "compared", "constant", "filled", "triangle"]

Grid = list[list[float]]
_LARGEST_SIDE = 64
_SIGNS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Gt: lambda a, b: a > b,
    ast.Lt: lambda a, b: a < b,
}


def constant(name: str, sides: list[float]) -> Grid | None:
    """`ones(2, 3)`, `zeros`, `eye(2)`; None if it is no matrix of a usual size."""
    sides = sides * 2 if name == "eye" and len(sides) == 1 else sides
    if len(sides) != 2 or not all(s.is_integer() and 0 < s <= _LARGEST_SIDE for s in sides):
        return None
    rows, columns = (range(int(side)) for side in sides)
    of = {"ones": lambda i, j: 1.0, "zeros": lambda i, j: 0.0, "eye": lambda i, j: float(i == j)}
    return [[of[name](i, j) for j in columns] for i in rows]


def triangle(name: str, grid: Grid, k: float) -> Grid:
    """`tril` or `triu`, from the k-th diagonal on.

    >>> triangle("triu", [[1.0, 1.0], [1.0, 1.0]], 1)
    [[0.0, 1.0], [0.0, 0.0]]
    """
    lower = name == "tril"
    return [
        [cell if (j <= i + k if lower else j >= i + k) else 0.0 for j, cell in enumerate(row)]
        for i, row in enumerate(grid)
    ]


def compared(grid: Grid, sign: ast.cmpop, to: float) -> Grid | None:
    """`mask == 0` as zeros and ones; None for another sign."""
    holds = _SIGNS.get(type(sign))
    return [[float(holds(cell, to)) for cell in row] for row in grid] if holds else None


def filled(where: Grid, new: float, old: Grid) -> Grid | None:
    """`old`, with `new` where the mask is set; None if they are not of one shape."""
    if [len(row) for row in where] != [len(row) for row in old]:
        return None
    pairs = (zip(*rows, strict=True) for rows in zip(where, old, strict=True))
    return [[new if is_set else cell for is_set, cell in row] for row in pairs]
