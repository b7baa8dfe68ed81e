"""Matrices of intervals: what a cell may be, when what it is made of may have been rounded.

All operations give the smallest interval for operands that vary independently in theirs, but for
the layer norm. That depends on all cells of a row at once, and is bounded twice, of which the
narrower counts: each cell's distance from the mean over the deviation, as if they varied on their
own; and the value in the middle, give or take the steepest slope inside (the mean value theorem).
For figures of a few digits the second is all but exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.reference import Array

__all__ = [
    "Intervals",
    "bent",
    "cellwise",
    "centered_rows",
    "divided",
    "mean_square",
    "mixture",
    "normalized_rows",
    "product",
    "rounded_or_full",
    "softmax_rows",
    "variance_rows",
]

_AT_ONCE = 20_000  # products that are formed before they are added up


@dataclass(frozen=True)
class Intervals:
    """A matrix of which each cell lies between `low` and `high`. NaN: nothing is known of it."""

    low: Array
    high: Array

    @classmethod
    def exactly(cls, values: Array) -> Intervals:
        return cls(values, values)

    @classmethod
    def about(cls, values: Array, half: Array | float) -> Intervals:
        return cls(values - half, values + half)

    @classmethod
    def joined(cls, join: Callable[[list[Array]], Array], boxes: Sequence[Intervals]) -> Intervals:
        """Several put together, by `np.stack` or `np.hstack`."""
        return cls(join([box.low for box in boxes]), join([box.high for box in boxes]))

    def each(self, function: Callable[[Array], Array]) -> Intervals:
        """What a function makes of both ends: one that rises, or that only moves cells about."""
        return Intervals(function(self.low), function(self.high))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.low.shape

    @property
    def transposed(self) -> Intervals:
        return self.each(np.transpose)

    def at(self, row: int, column: int) -> tuple[float, float]:
        return float(self.low[row, column]), float(self.high[row, column])

    @property
    def middle(self) -> Array:
        return (self.low + self.high) / 2

    def __add__(self, other: Intervals) -> Intervals:
        return Intervals(self.low + other.low, self.high + other.high)

    def over(self, divisor: tuple[float, float]) -> Intervals:
        """Divided by a positive number between the two of `divisor`."""
        corners = np.stack([end / d for end in (self.low, self.high) for d in divisor])
        return Intervals(corners.min(axis=0), corners.max(axis=0))

    def where(self, condition: np.ndarray, value: float) -> Intervals:
        """With the exact `value` in the cells where `condition` is False."""
        return self.each(lambda end: np.where(condition, end, value))


def cellwise(left: Intervals, right: Intervals) -> Intervals:
    """The product cell by cell; a row, a column or a number counts for all."""
    one, two, three, four = (a * b for a in (left.low, left.high) for b in (right.low, right.high))
    return Intervals(
        np.minimum(np.minimum(one, two), np.minimum(three, four)),
        np.maximum(np.maximum(one, two), np.maximum(three, four)),
    )


def product(left: Intervals, right: Intervals) -> Intervals:
    """The matrix product: of each pair of factors the least and the greatest of the corners."""
    shape = left.shape[0], right.shape[1]
    low, high = np.zeros(shape), np.zeros(shape)
    step = max(1, _AT_ONCE // max(1, low.size))
    for m in range(0, left.shape[1], step):
        columns = Intervals(left.low[:, m : m + step, None], left.high[:, m : m + step, None])
        rows = Intervals(right.low[None, m : m + step], right.high[None, m : m + step])
        terms = cellwise(columns, rows)
        low += terms.low.sum(axis=1)
        high += terms.high.sum(axis=1)
    return Intervals(low, high)


def softmax_rows(scores: Intervals) -> Intervals:
    """The softmax of each row: a weight rises with its own score and falls with the others'."""
    return Intervals(
        _softmax_against(scores.low, scores.high), _softmax_against(scores.high, scores.low)
    )


def _softmax_against(own: Array, others: Array) -> Array:
    """exp(ownⱼ) / (exp(ownⱼ) + Σ exp(othersᵢ), i ≠ j), row by row."""
    largest = np.maximum(own, others).max(axis=-1, keepdims=True)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    mine, theirs = np.exp(own - shift), np.exp(others - shift)
    before, after = np.zeros_like(theirs), np.zeros_like(theirs)
    before[..., 1:] = np.cumsum(theirs, axis=-1)[..., :-1]
    after[..., :-1] = np.cumsum(theirs[..., ::-1], axis=-1)[..., -2::-1]
    total = mine + before + after
    return np.divide(mine, total, out=np.zeros_like(mine), where=total != 0)


def mixture(weights: Intervals, values: Intervals, slack: Array) -> Intervals:
    """weights · values, where each row of the weights sums to 1, give or take its `slack`.

    Without that, four weights that may each be 0.01 too large would all be at once. The largest sum
    under the condition is found greedily: every weight at its low end, then what is left of the sum
    to the largest values first.
    """
    high = _greatest_mixture(weights, values.high, slack)
    low = -_greatest_mixture(weights, -values.low, slack)
    return Intervals(low, high)


def _greatest_mixture(weights: Intervals, values: Array, slack: Array) -> Array:
    result = np.empty((weights.shape[0], values.shape[1]))
    room = weights.high - weights.low
    total = weights.low.sum(axis=1)
    for c in range(values.shape[1]):
        order = np.argsort(-values[:, c], kind="stable")
        value = values[order, c]
        mixed = weights.low[:, order] @ value
        # How much may be added: as much as possible to positive values, no more than needed to
        # negative ones.
        most, least = 1 + slack - total, 1 - slack - total
        for position, j in enumerate(order):
            add = np.clip(most if value[position] > 0 else least, 0, room[:, j])
            mixed = mixed + add * value[position]
            most, least = most - add, least - add
        result[:, c] = mixed
    return result


def rounded_or_full(exact: Intervals, units: Array) -> Intervals:
    """The values, or what they become when rounded to `units`; 0 is a cell that is not rounded.

    A tie may go either way.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        down = np.ceil(exact.low / units - 0.5 - 1e-9) * units
        up = np.floor(exact.high / units + 0.5 + 1e-9) * units
    rounds = (units > 0) & np.isfinite(down) & np.isfinite(up)
    return Intervals(
        np.where(rounds, np.minimum(exact.low, down), exact.low),
        np.where(rounds, np.maximum(exact.high, up), exact.high),
    )


# ── a layer ──────────────────────────────────────────────────────────────────────────────────

_erf = np.vectorize(math.erf, otypes=[float])


def centered_rows(x: Intervals) -> Intervals:
    """Each cell less the mean of its row: the own cell against all others."""
    n = x.shape[1]
    low = x.low - (x.high.sum(axis=1, keepdims=True) - x.high + x.low) / n
    high = x.high - (x.low.sum(axis=1, keepdims=True) - x.low + x.high) / n
    return Intervals(low, high)


def mean_square(d: Intervals, *, unbiased: bool) -> Intervals:
    count = max(d.shape[1] - unbiased, 1)
    squares = np.minimum(d.low**2, d.high**2), np.maximum(d.low**2, d.high**2)
    low = np.where((d.low <= 0) & (d.high >= 0), 0.0, squares[0])
    return Intervals(*(end.sum(axis=1, keepdims=True) / count for end in (low, squares[1])))


def variance_rows(x: Intervals, *, unbiased: bool) -> Intervals:
    """The variance of each row; unbiased, of n − 1."""
    d = centered_rows(x)
    apart = mean_square(d, unbiased=unbiased)
    middle = x.middle - x.middle.mean(axis=1, keepdims=True)
    at_middle = mean_square(Intervals.exactly(middle), unbiased=unbiased).low
    steepest = 2 * np.maximum(np.abs(d.low), np.abs(d.high)) / max(x.shape[1] - unbiased, 1)
    off = (steepest * (x.high - x.low) / 2).sum(axis=1, keepdims=True)
    return Intervals(
        np.maximum(apart.low, at_middle - off), np.minimum(apart.high, at_middle + off)
    )


def divided(d: Intervals, sigma: Intervals) -> Intervals:
    """d / σ; nothing is known of it where σ may be 0."""
    positive = np.where(sigma.low > 0, sigma.low, np.nan)
    return cellwise(d, Intervals(1 / sigma.high, 1 / positive))


def normalized_rows(x: Intervals, epsilon: float, *, unbiased: bool) -> Intervals:
    """(x − μ) / √(σ² + ε) of each row, with anything from 0 to `epsilon` for ε.

    The slope of cell j along cell i is (δ − 1/n − zᵢ zⱼ / count) / σ.
    """
    n = x.shape[1]
    count = max(n - unbiased, 1)
    variance = variance_rows(x, unbiased=unbiased)
    sigma = Intervals(np.sqrt(variance.low), np.sqrt(variance.high + epsilon))
    apart = divided(centered_rows(x), sigma)
    apart = Intervals(np.fmax(apart.low, -math.sqrt(n)), np.fmin(apart.high, math.sqrt(n)))
    middle = x.middle - x.middle.mean(axis=1, keepdims=True)
    square = (middle**2).sum(axis=1, keepdims=True) / count
    z = [middle / np.sqrt(np.where(square > 0, square, np.nan) + e) for e in (0.0, epsilon)]
    own = Intervals(apart.low[:, :, None], apart.high[:, :, None])
    others = Intervals(apart.low[:, None, :], apart.high[:, None, :])
    pairs = cellwise(own, others)
    level = (np.eye(n) - 1 / n)[None]
    slope = np.maximum(np.abs(level - pairs.low / count), np.abs(level - pairs.high / count))
    off = (slope @ ((x.high - x.low) / 2)[:, :, None])[:, :, 0]
    off = off / np.where(sigma.low > 0, sigma.low, np.nan)
    found = Intervals(
        np.fmax(apart.low, np.minimum(*z) - off), np.fmin(apart.high, np.maximum(*z) + off)
    )
    return found.where(~np.isnan(x.low.sum(axis=1, keepdims=True)), np.nan)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# Each is lowest at one place and rises on both sides of it; GELU by erf and by its tanh formula.
_BENT: dict[str, tuple[tuple[Callable[[Array], Array], ...], float, float]] = {
    "ReLU": ((lambda x: np.maximum(x, 0.0),), 0.0, 0.0),
    "GELU": (
        (
            lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
            lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
        ),
        -0.752,
        -0.17005,
    ),
    "x·σ(1.702 x)": ((lambda x: x * _sigmoid(1.702 * x),), -0.7512, -0.16361),
    "SiLU": ((lambda x: x * _sigmoid(x),), -1.2785, -0.27847),
}


def bent(x: Intervals, activation: str) -> Intervals:
    """An activation function of each cell."""
    functions, place, lowest = _BENT[activation]
    with np.errstate(over="ignore"):
        ends = [function(end) for function in functions for end in (x.low, x.high)]
    low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    inside = (x.low <= place + 0.001) & (x.high >= place - 0.001)
    return Intervals(np.where(inside, np.minimum(low, lowest), low), high)
