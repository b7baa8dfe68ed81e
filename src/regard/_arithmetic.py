"""A calculation as a line of text: figures as they are shown, and whether they add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from regard.reference import Array


class Explanation(str):
    """How one cell came about, as a line of text that also carries its value and its terms.

    `terms` are the numbers that were added up: pairs (a, b) of a·b, single ones, or the
    exponentials of a row. Where nothing is added up they are the numbers of the line, in order.
    """

    value: float
    terms: tuple[Any, ...]

    def __new__(cls, text: str, value: float, terms: Iterable[Any] = ()) -> Explanation:
        self = super().__new__(cls, text)
        self.value = value
        self.terms = tuple(terms)
        return self


def figure(value: float, digits: int = 4) -> str:
    """A number as it is shown: at most `digits` after the point, at least one, a true minus.

    >>> figure(1.75), figure(-1.0), figure(0.00001234), figure(float("-inf"))
    ('1.75', '−1.0', '1.234e−05', '−∞')
    """
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 10.0**-digits <= abs(value) < 1e6:
        text = f"{value:.3e}"
    else:
        text = f"{value:.{digits}f}".rstrip("0")
        text += "0" if text.endswith(".") else ""
    return "0.0" if text == "-0.0" else text.replace("-", "−")


def _shown(value: float) -> Fraction:
    """The number that a reader of `figure(value)` sees."""
    return Fraction(figure(value).replace("−", "-"))


def equals(value: float, products: Sequence[tuple[float, ...]]) -> str:
    """“=” if the figures shown, multiplied and added, give the figure shown; “≈” if not."""
    if not np.isfinite([value, *chain.from_iterable(products)]).all():
        return "≈"
    total = sum(math.prod(map(_shown, factors)) for factors in products)
    return "=" if total == _shown(value) else "≈"


def factor(value: float) -> str:
    return f"({figure(value)})" if value < 0 and figure(value) != "0.0" else figure(value)


def dot(value: float, left: Array, right: Array, bias: float | None = None) -> Explanation:
    """A row times a column, and a bias, if there is one.

    >>> dot(1.75, np.array([1.0, 1.1]), np.array([1.2, 0.5]))
    '1.75 = 1.0·1.2 + 1.1·0.5'
    >>> dot(1.65, np.array([1.0, 1.1]), np.array([1.2, 0.5]), -0.1)
    '1.65 = 1.0·1.2 + 1.1·0.5 + (−0.1) (bias)'
    """
    terms: list[tuple[float, ...]] = [
        (float(a), float(b)) for a, b in zip(left, right, strict=True)
    ]
    products = elide([f"{factor(a)}·{factor(b)}" for a, b in terms])
    if bias is not None:
        terms.append((float(bias),))
        products += f" + {factor(float(bias))} (bias)"
    return Explanation(f"{figure(value)} {equals(value, terms)} {products}", value, terms)


def plus(numbers: Sequence[float]) -> str:
    """Numbers that are added.

    >>> plus([1.0, -0.25])
    '1.0 + (−0.25)'
    """
    return elide([figure(numbers[0]), *map(factor, numbers[1:])])


def elide(terms: list[str]) -> str:
    """Terms that are added, some of them left out where they are many."""
    if len(terms) > 16:
        terms = [*terms[:8], f"… ({len(terms) - 10} more) …", *terms[-2:]]
    return " + ".join(terms) or "0.0"
