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
    "FUNCTIONS",
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


@dataclass(slots=True)
class Intervals:
    """A matrix of which each cell lies between `low` and `high`. NaN: nothing is known of it.

    Of one that is exact, both are the same array: what is made of it is computed only once.
    """

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
        low = join([box.low for box in boxes])
        are_exact = all(box.is_exact for box in boxes)
        return cls(low, low if are_exact else join([box.high for box in boxes]))

    def each(self, function: Callable[[Array], Array]) -> Intervals:
        """What a function makes of both ends: one that rises, or that only moves cells about."""
        low = function(self.low)
        return Intervals(low, low if self.is_exact else function(self.high))

    @property
    def is_exact(self) -> bool:
        return self.low is self.high

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
    one = left.low * right.low
    if left.is_exact and right.is_exact:
        return Intervals.exactly(one)
    two = left.low * right.high
    low, high = np.minimum(one, two), np.maximum(one, two)
    if left.is_exact:
        return Intervals(low, high)
    three, four = left.high * right.low, left.high * right.high
    return Intervals(
        np.minimum(low, np.minimum(three, four)), np.maximum(high, np.maximum(three, four))
    )


def product(left: Intervals, right: Intervals) -> Intervals:
    """The matrix product: of each pair of factors the least and the greatest of the corners.

    Of two stacks of matrices, (…, n, m) and (…, m, k), those of each pair.
    """
    shape = (*left.shape[:-1], right.shape[-1])
    low = np.zeros(shape)
    high = low if left.is_exact and right.is_exact else np.zeros(shape)
    step = max(1, _AT_ONCE // max(1, shape[-2] * shape[-1]))
    for m in range(0, left.shape[-1], step):
        columns = left.each(lambda end, m=m: end[..., m : m + step, None])
        rows = right.each(lambda end, m=m: end[..., None, m : m + step, :])
        terms = cellwise(columns, rows)
        low += terms.low.sum(axis=-2)
        if high is not low:
            high += terms.high.sum(axis=-2)
    return Intervals(low, high)


def softmax_rows(scores: Intervals) -> Intervals:
    """The softmax of each row: a weight rises with its own score and falls with the others'."""
    largest = np.maximum(scores.low, scores.high).max(axis=-1, keepdims=True)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    powers = scores.each(lambda end: np.exp(end - shift))
    low = _shares(powers.low, powers.high)
    return Intervals(low, low if scores.is_exact else _shares(powers.high, powers.low))


def _shares(own: Array, others: Array) -> Array:
    """ownⱼ / (ownⱼ + Σ othersᵢ, i ≠ j), row by row."""
    before, after = np.zeros(own.shape), np.zeros(own.shape)
    others[..., :-1].cumsum(axis=-1, out=before[..., 1:])
    others[..., :0:-1].cumsum(axis=-1, out=after[..., -2::-1])
    total = own + before + after
    return np.divide(own, total, out=np.zeros(own.shape), where=total != 0)


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


# ── functions by their names, each in all ways in which it may be meant ───────────────────────

_Function = Callable[[Intervals], list[Intervals]]


def _softmaxes(x: Intervals) -> list[Intervals]:
    found = [softmax_rows(x)] if x.shape[1] > 1 else []
    return found + ([softmax_rows(x.transposed).transposed] if x.shape[0] > 1 else [])


def _layer_norms(x: Intervals) -> list[Intervals]:
    return [normalized_rows(x, 1e-5, unbiased=u) for u in (False, True) if x.shape[1] > 1]


def _variances(x: Intervals) -> list[Intervals]:
    return [variance_rows(x, unbiased=u) for u in (False, True) if x.shape[1] > 1]


def _deviations(x: Intervals) -> list[Intervals]:
    return [Intervals(np.sqrt(v.low), np.sqrt(v.high + 1e-5)) for v in _variances(x)]


def _rising(function: Callable[[Array], Array]) -> _Function:
    return lambda x: [x.each(function)]


def _wavy(function: Callable[[Array], Array]) -> _Function:
    return lambda x: [Intervals.about(function(x.middle), (x.high - x.low) / 2)]


_sigmoids = _rising(lambda x: 1 / (1 + np.exp(-x)))
FUNCTIONS: dict[str, _Function] = {
    "exp": _rising(np.exp),
    "sqrt": _rising(np.sqrt),
    "tanh": _rising(np.tanh),
    "sigmoid": _sigmoids,
    "relu": _rising(lambda x: np.maximum(x, 0)),
    "max": _rising(lambda x: x.max(keepdims=True)),
    "min": _rising(lambda x: x.min(keepdims=True)),
    "sum": _rising(lambda x: x.sum(keepdims=True)),
    "mean": _rising(lambda x: x.mean(keepdims=True)),
    "concat": lambda x: [x],
    "sin": _wavy(np.sin),
    "cos": _wavy(np.cos),
    "gelu": lambda x: [bent(x, "GELU"), bent(x, "x·σ(1.702 x)")],
    "silu": lambda x: [bent(x, "SiLU")],
    "log": lambda x: [x.each(log) for log in (np.log, np.log2, np.log10)],
    "ln": lambda x: [*_layer_norms(x), x.each(np.log)],  # of a row it need be no logarithm
    "softmax": _softmaxes,
    "squashed": lambda x: [*_softmaxes(x), *_sigmoids(x)] if x.shape[0] == 1 else [],
    "layernorm": _layer_norms,
    "var": _variances,
    "variance": _variances,
    "rowvar": _variances,
    "std": _deviations,
    "rowstd": _deviations,
    "rowmean": _rising(lambda x: x.mean(axis=1, keepdims=True)),
    "rowsum": _rising(lambda x: x.sum(axis=1, keepdims=True)),
    **dict.fromkeys(("rowmax", "rowamax"), _rising(lambda x: x.max(axis=1, keepdims=True))),
}
