"""What an expression can come to: intervals, for each way in which it may have been meant.

A printed decimal stands for all that rounds to it. A product of two rows may be their dot product
or taken cell by cell, `a / b + c` may be meant as `a / (b + c)`: every such way gives a candidate,
and an equation is wrong only if none of them fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from itertools import product as pairs

import numpy as np

from regard._intervals import FUNCTIONS, Intervals, cellwise, product
from regard.written.figures import Figure
from regard.written.nodes import Node

__all__ = ["Evaluator"]

_MOST = 16  # candidates
_LARGE_COUNT = 20  # a whole number from here on may have been rounded


class Evaluator:
    """Computes trees. What is printed is `exact`, or whole numbers and zeros are (`counted`)."""

    def __init__(
        self, figure_of: Callable[[Node], Figure], *, exact: bool = False, counted: bool = False
    ) -> None:
        self.figure_of, self.exact, self.counted = figure_of, exact, counted
        self._known: dict[int, list[Intervals]] = {}

    def values(self, node: Node) -> list[Intervals]:
        """The candidates; none where something is not known."""
        with np.errstate(all="ignore"):
            found = list(islice(self._values(node), _MOST))
        return [v for v in found if not np.isnan(v.low).any() and not np.isnan(v.high).any()]

    def _values(self, node: Node) -> list[Intervals]:
        key = id(node)
        if key not in self._known:
            self._known[key] = self._compute(node)
        return self._known[key]

    def _compute(self, node: Node) -> list[Intervals]:
        if node.op in ("number", "scientific"):
            return self._number(node)
        if node.op == "matrix":
            return self._matrix(node)
        if node.op == "group":
            return self._values(node.args[0])
        if node.op == "neg":
            inner = self._values(node.args[0])
            meant = inner if node.args[0].op == "^" else []  # −2² = 4, meant as (−2)²
            return [Intervals(-v.high, -v.low) for v in inner] + meant
        if node.op == "T":
            return [v.transposed for v in self._values(node.args[0])]
        if node.op == "plus":
            return self._sum(node)
        if node.op == "/" and node.args[0].op == "/":
            return []  # 0.1 / 0.2 / 0.3 lists them
        if node.op in _OF_TWO:
            left, right = map(self._values, node.args)
            found = _each(left, right, node.op)
            if node.op in _PRODUCTS and node.args[0].op == "/":  # a / b · c, meant as a / (b · c)
                top, bottom = map(self._values, node.args[0].args)
                found += _each(top, _each(bottom, right, node.op), "/")
            return found[:_MOST]
        return self._function(node)

    def _number(self, node: Node) -> list[Intervals]:
        figure = self.figure_of(node)
        value = figure.value
        may_be_rounded = figure.unit < 1 or abs(value) >= _LARGE_COUNT
        if self.counted:
            may_be_rounded = figure.unit < 1 and value != 0
        is_rounded = may_be_rounded and not self.exact and math.isfinite(value)
        half = figure.unit / 2 if is_rounded else 0.0
        found = Intervals(np.array([[value - half]]), np.array([[value + half]]))
        return [found, found.each(lambda end: end * 100)] if figure.text.endswith("%") else [found]

    def _matrix(self, node: Node) -> list[Intervals]:
        cells = [self._values(cell) for cell in node.args]
        if not all(cells) or any(c.shape != (1, 1) for found in cells for c in found[:1]):
            return []
        row = Intervals.joined(np.hstack, [found[0] for found in cells])
        return [row.each(lambda end: end.reshape(-1, node.width))]

    def _sum(self, node: Node) -> list[Intervals]:
        terms = list(zip(node.signs, node.args, strict=True))
        found = self._total(self._values(node.args[0]), terms[1:])
        first, last = node.args[0], node.args[-1]
        if first.op == "/":  # a / b + c, meant as a / (b + c)
            top, bottom = map(self._values, first.args)
            found += _each(top, self._total(bottom, terms[1:]), "/")
        if last.op == "/":  # a + b / c, meant as (a + b) / c
            top, bottom = map(self._values, last.args)
            total = self._total(self._values(first), terms[1:-1])
            found += _each(_each(total, top, node.signs[-1]), bottom, "/")
        return found[:_MOST]

    def _total(self, found: list[Intervals], terms: list[tuple[str, Node]]) -> list[Intervals]:
        for sign, term in terms:
            found = _each(found, self._values(term), sign)
        return found

    def _function(self, node: Node) -> list[Intervals]:
        arguments = [self._values(arg) for arg in node.args if arg.op != "unknown"]
        if not arguments or not all(arguments) or len(arguments) < len(node.args):
            return []
        values = [found[0] for found in arguments]
        if node.op == "dot" and len(values) == 2:
            return _products(values[0], values[1], "·")
        are_numbers = all(v.shape == (1, 1) for v in values)
        fit_together = node.op == "concat" and len({v.shape[0] for v in values}) == 1
        if len(values) > 1 and not are_numbers and not fit_together:
            return []
        one = Intervals.joined(np.hstack, values)
        found = FUNCTIONS[node.op](one) if node.op in FUNCTIONS else []
        if node.op == "mean" and node.args[0].op == "plus":  # mean(25 + 225 + 25), of the three
            found += [v.each(lambda end: end / len(node.args[0].args)) for v in found[:1]]
        return found


def _each(left: list[Intervals], right: list[Intervals], op: str) -> list[Intervals]:
    """What two operands give, each in all of its ways."""
    combine = _OF_TWO[op]
    return [v for a, b in islice(pairs(left, right), _MOST) for v in combine(a, b, op)][:_MOST]


def _sums(a: Intervals, b: Intervals, op: str) -> list[Intervals]:
    if a.shape != b.shape and a.shape == b.shape[::-1] and 1 in a.shape:
        b = b.transposed
    broadcast = a.shape == b.shape or (1, 1) in (a.shape, b.shape)
    broadcast = broadcast or (1 in (a.shape[0], b.shape[0]) and a.shape[1] == b.shape[1])
    broadcast = broadcast or b.shape == (a.shape[0], 1)
    if not broadcast:
        return []
    if op == "+":
        return [a + b]
    return [Intervals(a.low - b.high, a.high - b.low)]


def _products(a: Intervals, b: Intervals, op: str) -> list[Intervals]:
    if (1, 1) in (a.shape, b.shape):
        return [cellwise(a, b)]
    found: list[Intervals] = []
    for left in (a, a.transposed) if 1 in a.shape else (a,):
        for right in (b, b.transposed):
            if left.shape[1] == right.shape[0]:
                found.append(product(left, right))
    if a.shape == b.shape and op != "@":
        found.append(cellwise(a, b))
    return found


def _cell_by_cell(a: Intervals, b: Intervals, _: str) -> list[Intervals]:
    fit = all(1 in sides or sides[0] == sides[1] for sides in zip(a.shape, b.shape, strict=True))
    return [cellwise(a, b)] if fit else []


def _quotients(a: Intervals, b: Intervals, _: str) -> list[Intervals]:
    fits = b.shape in ((1, 1), a.shape, (a.shape[0], 1))
    if not fits or ((b.low <= 0) & (b.high >= 0)).any():
        return []
    return [cellwise(a, Intervals(1 / b.high, 1 / b.low))]


def _powers(a: Intervals, b: Intervals, _: str) -> list[Intervals]:
    if a.shape != (1, 1) or b.shape != (1, 1):
        return []
    corners = [x**y for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    return [Intervals(np.zeros_like(low) if (a.low < 0 < a.high).item() else low, high)]


_PRODUCTS = ("·", "×", "*", "@")
_OF_TWO: dict[str, Callable[[Intervals, Intervals, str], list[Intervals]]] = {
    **dict.fromkeys("+-", _sums),
    **dict.fromkeys(_PRODUCTS, _products),
    **dict.fromkeys(("/", "frac"), _quotients),
    "^": _powers,
    "⊙": _cell_by_cell,
}
