"""Equations of shapes, in which whole numbers are sizes: (3 × 4) · (4 × 2) = (3 × 2)."""

from __future__ import annotations

from collections.abc import Callable

from regard.written.figures import Figure
from regard.written.nodes import Node

__all__ = ["are_shapes"]

_FigureOf = Callable[[Node], Figure]


def are_shapes(sides: list[Node], figure_of: _FigureOf) -> bool:
    """Whether sides that are set equal are about shapes, and not about what numbers come to."""
    expressions = [side for side in sides if not side.is_literal]
    if _meet(sides, figure_of):
        return True
    # (3 × 4) · (4 × 2) = (3 × 2), or (1, 4, 6, 16) × (1, 4, 16, 5) = (1, 4, 6, 5)
    several = len(expressions) > 1 or any(map(_joins_shapes, expressions))
    shapes = expressions if several else sides if sides[-1].round else []
    return bool(shapes) and all(_is_shape(side, figure_of) for side in shapes)


def _meet(sides: list[Node], figure_of: _FigureOf) -> bool:
    """[1, 4096] × [4096, 512] = [1, 512]: the sizes meet as those of a product do."""
    if len(sides) != 2 or sides[0].op not in ("×", "@", "·", "*") or sides[1].op != "matrix":
        return False
    pairs = [*sides[0].args, sides[1]]
    if not all(pair.op == "matrix" and pair.is_literal and len(pair.args) == 2 for pair in pairs):
        return False
    (a, b), (c, d), (rows, columns) = ([figure_of(n).value for n in pair.args] for pair in pairs)
    return b == c and (a, d) == (rows, columns) and min(a, b, d) >= 1 and float(b).is_integer()


def _joins_shapes(node: Node) -> bool:
    """1 × 6 @ 6 × 28: what is joined to a number by @ is a shape."""
    joined = node.op == "@" and node.args[1].op in ("number", "×")
    return joined or any(map(_joins_shapes, node.args))


def _is_shape(node: Node, figure_of: _FigureOf) -> bool:
    """Only whole numbers and a cross between them: `3 × 4`, or in round brackets: (1, 4, 6)."""
    if node.op == "number":
        return figure_of(node).value.is_integer()
    if node.op == "matrix" and len(node.args) > 2 and not node.round:
        return False
    return node.op in ("×", "·", "@", "*", "group", "matrix") and all(
        _is_shape(arg, figure_of) for arg in node.args
    )
