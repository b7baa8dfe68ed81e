"""Sums of products whose factors are printed as given: those need no room for rounding.

`0.3·2 + 0.1·1 = 0.8` would pass if 0.3 could stand for 0.34. It cannot where [0.3, 0.1] and [2, 1]
are rows that the text starts from.
"""

from __future__ import annotations

import re

from regard.written.found import Equality, Found
from regard.written.grammar import Node
from regard.written.names import name_of

__all__ = ["mark_exact"]

_ROUNDED = re.compile(
    r"≈|≃|~|\\approx|\\simeq|round|gerundet|arrondi|redonde|반올림|四舍五入|約|约"
)


def mark_exact(found: Found) -> None:
    """Let the equations be exact whose factors are two rows that nothing here produces."""
    names = (name_of(value.lead) for value in found.values if not value.is_number)
    if any(name is not None and name.kind.startswith("W_") for name in names):
        return  # rows of Q and K are computed, and may be rounded
    rows = {
        tuple(figure.value for figure in row)
        for value in found.values
        if not value.is_number and not value.is_distribution and not value.is_code
        for row in value.rows
    }
    for equality in found.equations if rows else ():
        if not _ROUNDED.search(equality.text):
            factors = [_factors(side, equality) for side in equality.sides]
            equality.is_exact = any(two and all(one in rows for one in two) for two in factors)


def _factors(side: Node, equality: Equality) -> list[tuple[float, ...]]:
    """The left and the right factors of a sum of products of numbers."""
    terms = [_bare(term) for term in side.args] if side.op == "plus" else []
    if set(side.signs) > {"+"} or not all(
        term.op in ("·", "×", "*") and all(arg.is_number for arg in term.args) for term in terms
    ):
        return []
    pairs = [[equality.figure_of(arg).value for arg in term.args] for term in terms]
    return list(zip(*pairs, strict=True)) if pairs else []


def _bare(node: Node) -> Node:
    return _bare(node.args[0]) if node.op == "group" else node
