"""Sums of products whose factors are printed as given: those need no room for rounding.

`0.3·2 + 0.1·1 = 0.8` would pass if 0.3 could stand for 0.34. It cannot where [0.3, 0.1] and [2, 1]
are rows that the text starts from. Nor need whole numbers and zeros, where a sum of products is
followed by the sum of exactly those products.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import pairwise
from math import isclose

from regard.written.found import Equality, Found
from regard.written.names import name_of
from regard.written.nodes import Node

__all__ = ["mark_exact"]

_ROUNDED = re.compile(
    r"≈|≃|~|\\approx|\\simeq|round|gerundet|arrondi|redonde|반올림|四舍五入|約|约"
)


def mark_exact(found: Found) -> None:
    """Let the equations be exact whose factors are two rows that nothing here produces.

    Of all equations it is told where the terms of a sum are printed in full.
    """
    for equality in found.equations:
        with suppress(ValueError):  # a number out of all proportion
            _mark_terms(equality)
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


def _mark_terms(equality: Equality) -> None:
    """0.5·0.1 + 0.7·0.2 = 0.05 + 0.14: each term as printed, so nothing was rounded before."""
    sums = [side for side in equality.sides if side.op == "plus"]
    for left, right in pairwise(sums):
        terms = [
            (_value(a, equality, sign), _value(b, equality, other))
            for sign, a, other, b in zip(
                left.signs, left.args, right.signs, right.args, strict=False
            )
        ]
        same = all(a is not None and b is not None and isclose(a, b) for a, b in terms)
        if same and len(left.args) == len(right.args):
            equality.terms = right


def _value(node: Node, equality: Equality, sign: str) -> float | None:
    """What a number, or a product or quotient of two, comes to as printed."""
    node = _bare(node)
    if node.is_number:
        value = equality.figure_of(node).value
    elif node.op in ("·", "×", "*", "/") and all(arg.is_number for arg in node.args):
        left, right = (equality.figure_of(arg).value for arg in node.args)
        if node.op == "/" and right == 0:
            return None
        value = left / right if node.op == "/" else left * right
    else:
        return None
    return -value if sign == "-" else value


def _bare(node: Node) -> Node:
    return _bare(node.args[0]) if node.op == "group" else node
