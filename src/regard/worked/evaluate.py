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

from regard._intervals import (
    Intervals,
    bent,
    cellwise,
    normalized_rows,
    product,
    softmax_rows,
    variance_rows,
)
from regard.reference import Array
from regard.written.figures import Figure
from regard.written.grammar import Node

__all__ = ["Evaluator"]

_MOST = 16  # candidates
_LARGE_COUNT = 20  # a whole number from here on may have been rounded
_ONE = np.ones((1, 1))


class Evaluator:
    """Computes trees; `figure_of` gives the figure of a number's node."""

    def __init__(self, figure_of: Callable[[Node], Figure], *, exact: bool = False) -> None:
        self.figure_of, self.exact = figure_of, exact
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
            return [Intervals(-v.high, -v.low) for v in self._values(node.args[0])]
        if node.op == "T":
            return [v.transposed for v in self._values(node.args[0])]
        if node.op == "^":
            return self._power(node)
        if node.op == "plus":
            return self._sum(node)
        if node.op in ("·", "×", "*", "@"):
            found = self._each(node, lambda a, b: _products(a, b, node.op))
            if node.args[0].op == "/":  # a / b · c, meant as a / (b · c)
                top, bottom = (self._values(arg) for arg in node.args[0].args)
                under = [
                    v
                    for a in bottom
                    for b in self._values(node.args[1])
                    for v in _products(a, b, node.op)
                ]
                found += [v for a in top for b in under for v in _quotients(a, b)]
            return found[:_MOST]
        if node.op == "/" and node.args[0].op == "/":
            return []  # 0.1 / 0.2 / 0.3 lists them
        if node.op in ("/", "frac"):
            return self._each(node, _quotients)
        return self._function(node)

    def _each(
        self, node: Node, combine: Callable[[Intervals, Intervals], list[Intervals]]
    ) -> list[Intervals]:
        left, right = (self._values(arg) for arg in node.args)
        return [v for a, b in islice(pairs(left, right), _MOST) for v in combine(a, b)][:_MOST]

    def _number(self, node: Node) -> list[Intervals]:
        figure = self.figure_of(node)
        value, half = figure.value, 0.0
        if not self.exact and math.isfinite(value):
            has_decimals = figure.unit < 1
            half = figure.unit / 2 if has_decimals or abs(value) >= _LARGE_COUNT else 0.0
        found = Intervals((value - half) * _ONE, (value + half) * _ONE)
        if figure.text.endswith("%"):
            return [found, Intervals(found.low * 100, found.high * 100)]
        return [found]

    def _matrix(self, node: Node) -> list[Intervals]:
        cells = [self._values(cell) for cell in node.args]
        if not all(cells) or any(c.shape != (1, 1) for found in cells for c in found[:1]):
            return []
        ends = [np.array([getattr(c[0], end).item() for c in cells]) for end in ("low", "high")]
        return [Intervals(*(end.reshape(-1, node.width) for end in ends))]

    def _power(self, node: Node) -> list[Intervals]:
        base, exponents = node.args[0], self._values(node.args[1])
        found: list[Intervals] = []
        for a, b in pairs(self._values(base), exponents):
            if a.shape != (1, 1) or b.shape != (1, 1):
                continue
            corners = [x**y for x in (a.low, a.high) for y in (b.low, b.high)]
            low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
            low = np.zeros((1, 1)) if (a.low < 0 < a.high).item() else low
            found.append(Intervals(low, high))
        return found

    def _sum(self, node: Node) -> list[Intervals]:
        terms = list(zip(node.signs, node.args, strict=True))
        found = self._total(self._values(node.args[0]), terms[1:])
        first, last = node.args[0], node.args[-1]
        if first.op == "/":  # a / b + c, meant as a / (b + c)
            top, bottom = (self._values(arg) for arg in first.args)
            under = self._total(bottom, terms[1:])
            found += [v for a, b in pairs(top, under) for v in _quotients(a, b)]
        if last.op == "/":  # a + b / c, meant as (a + b) / c
            top, bottom = (self._values(arg) for arg in last.args)
            total = self._total(self._values(first), terms[1:-1])
            above = [v for a, b in pairs(total, top) for v in _sums(a, b, node.signs[-1])]
            found += [v for a, b in pairs(above, bottom) for v in _quotients(a, b)]
        return found[:_MOST]

    def _total(self, found: list[Intervals], terms: list[tuple[str, Node]]) -> list[Intervals]:
        for sign, term in terms:
            found = [v for a, b in pairs(found, self._values(term)) for v in _sums(a, b, sign)]
            found = found[:_MOST]
        return found

    def _function(self, node: Node) -> list[Intervals]:
        arguments = [self._values(arg) for arg in node.args if arg.op != "unknown"]
        if not arguments or not all(arguments) or len(arguments) < len(node.args):
            return []
        values = [found[0] for found in arguments]
        one = values[0]
        if len(values) > 1:
            if any(v.shape != (1, 1) for v in values):
                return self._of_two(node, values)
            one = Intervals(np.hstack([v.low for v in values]), np.hstack([v.high for v in values]))
        if node.op in _INCREASING:
            of = _INCREASING[node.op]
            return [Intervals(of(one.low), of(one.high))]
        if node.op == "softmax":
            found = [softmax_rows(one)] if one.shape[1] > 1 else []
            return found + ([softmax_rows(one.transposed).transposed] if one.shape[0] > 1 else [])
        of_layer = _OF_LAYER[node.op](one) if node.op in _OF_LAYER and one.shape[1] > 1 else []
        if node.op in ("gelu", "silu"):
            kinds = {"gelu": ("GELU", "x·σ(1.702 x)"), "silu": ("SiLU",)}[node.op]
            return [bent(one, kind) for kind in kinds]
        if node.op in ("log", "ln"):
            bases = (1.0,) if node.op == "ln" else (1.0, math.log(2), math.log(10))
            logs = [Intervals(np.log(one.low) / b, np.log(one.high) / b) for b in bases]
            return of_layer + logs
        if node.op in ("sin", "cos"):
            of = getattr(np, node.op)
            slack = (one.high - one.low) / 2
            return [Intervals(of(one.middle) - slack, of(one.middle) + slack)]
        if node.op in ("max", "min", "sum", "mean"):
            of = getattr(np, node.op)
            return [Intervals(np.full((1, 1), of(one.low)), np.full((1, 1), of(one.high)))]
        if node.op == "concat":
            return [one]
        return of_layer

    def _of_two(self, node: Node, values: list[Intervals]) -> list[Intervals]:
        if node.op == "concat" and len({v.shape[0] for v in values}) == 1:
            return [
                Intervals(*(np.hstack([getattr(v, e) for v in values]) for e in ("low", "high")))
            ]
        return _products(values[0], values[1], "·") if node.op == "dot" and len(values) == 2 else []


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_INCREASING: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
}


def _layer_norms(x: Intervals) -> list[Intervals]:
    return [normalized_rows(x, 1e-5, unbiased=unbiased) for unbiased in (False, True)]


def _variances(x: Intervals) -> list[Intervals]:
    return [variance_rows(x, unbiased=unbiased) for unbiased in (False, True)]


def _deviations(x: Intervals) -> list[Intervals]:
    return [Intervals(np.sqrt(v.low), np.sqrt(v.high + 1e-5)) for v in _variances(x)]


# LN(…) of a row need be no logarithm.
_OF_LAYER: dict[str, Callable[[Intervals], list[Intervals]]] = {
    "layernorm": _layer_norms,
    "ln": _layer_norms,
    "var": _variances,
    "variance": _variances,
    "std": _deviations,
}


def _sums(a: Intervals, b: Intervals, op: str) -> list[Intervals]:
    if a.shape != b.shape and a.shape == b.shape[::-1] and 1 in a.shape:
        b = b.transposed
    broadcast = a.shape == b.shape or (1, 1) in (a.shape, b.shape)
    broadcast = broadcast or (1 in (a.shape[0], b.shape[0]) and a.shape[1] == b.shape[1])
    if not broadcast:
        return []
    if op == "+":
        return [Intervals(a.low + b.low, a.high + b.high)]
    return [Intervals(a.low - b.high, a.high - b.low)]


def _products(a: Intervals, b: Intervals, op: str) -> list[Intervals]:
    if (1, 1) in (a.shape, b.shape):
        return [cellwise(a, b)]
    found: list[Intervals] = []
    vectors = [1 in v.shape for v in (a, b)]
    for left in (a, a.transposed) if vectors[0] else (a,):
        for right in (b, b.transposed):
            if left.shape[1] == right.shape[0]:
                found.append(product(left, right))
    if a.shape == b.shape and op != "@":
        found.append(cellwise(a, b))
    return found


def _quotients(a: Intervals, b: Intervals) -> list[Intervals]:
    if b.shape != (1, 1) and a.shape != b.shape:
        return []
    if ((b.low <= 0) & (b.high >= 0)).any():
        return []
    return [cellwise(a, Intervals(1 / b.high, 1 / b.low))]
