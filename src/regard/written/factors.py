"""Sums of products whose factors are printed as given: those need no room for rounding.

`0.3·2 + 0.1·1 = 0.8` would pass if 0.3 could stand for 0.34. It cannot where [0.3, 0.1] and [2, 1]
are rows that the text starts from. Nor need whole numbers and zeros, where a sum of products is
followed by the sum of exactly those products. Nor scores of one decimal, where a section has only
them and their softmax: nothing there produces them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from contextlib import suppress
from itertools import pairwise
from math import isclose, isfinite, isinf

from regard.written.found import Equality, Found, Value
from regard.written.names import name_of
from regard.written.nodes import Node

__all__ = ["mark_exact"]

_MOST_GIVEN = 16  # values in a section that only gives scores
_ROUNDED = re.compile(
    r"≈|≃|~|\\approx|\\simeq|round|gerundet|arrondi|redonde|반올림|四舍五入|約|约"
)


def mark_exact(found: Found) -> None:
    """Let the equations be exact whose factors are two rows that nothing here produces.

    Of all equations it is told where the terms of a sum are printed in full.
    """
    headings = [start for start, line in found.lines if line.startswith("# ")]
    values = sorted(found.values, key=lambda value: value.start)
    starts = [value.start for value in values]
    for equality in found.equations:
        with suppress(ValueError):  # a number out of all proportion
            _mark_terms(equality)
            at = bisect_right(headings, equality.start)
            first = bisect_left(starts, headings[at - 1] if at else 0)
            last = bisect_left(starts, equality.start)
            if last - first <= _MOST_GIVEN:
                equality.is_exact = _is_of_given_scores(equality, values[first:last])
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
            equality.is_exact |= any(two and all(one in rows for one in two) for two in factors)


def _is_of_given_scores(equality: Equality, before: list[Value]) -> bool:
    """Whether it is the softmax of scores that its section starts from: nothing else is there."""
    first = equality.sides[0]
    row = first.args[0] if first.op == "softmax" and len(first.args) == 1 else None
    if row is None or not row.is_literal or row.op != "matrix":
        return False
    scores = [equality.figure_of(cell) for cell in row.args]
    printed = [figure.value for figure in scores]
    return (
        any(printed == [f.value for f in other] for value in before for other in value.rows)
        and all(figure.unit > 0.05 for figure in scores if isfinite(figure.value))
        and not any(value.is_code or value.is_number for value in before)
        and all(value.sums_to_one or _has_scores(value, printed) for value in before)
    )


def _has_scores(value: Value, row: list[float]) -> bool:
    """Whether a matrix has a row in it, masked or not."""
    rows = ([figure.value for figure in other] for other in value.rows)
    return any(len(other) == len(row) and _same(other, row) for other in rows)


def _same(one: list[float], other: list[float]) -> bool:
    return all(a == b or isinf(a) or isinf(b) for a, b in zip(one, other, strict=True))


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
