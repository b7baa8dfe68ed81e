"""Matrices of intervals: what a cell may be, when what it is made of may have been rounded.

All operations give the smallest interval for operands that vary independently in theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.reference import Array

__all__ = ["Intervals", "mixture", "product", "rounded_or_full", "softmax_rows"]


@dataclass(frozen=True)
class Intervals:
    """A matrix of which each cell lies between `low` and `high`. NaN: nothing is known of it."""

    low: Array
    high: Array

    @classmethod
    def exactly(cls, values: Array) -> Intervals:
        return cls(values, values)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.low.shape

    @property
    def transposed(self) -> Intervals:
        return Intervals(self.low.T, self.high.T)

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
        return Intervals(
            np.where(condition, self.low, value), np.where(condition, self.high, value)
        )


def product(left: Intervals, right: Intervals) -> Intervals:
    """The matrix product."""
    low = np.zeros((left.shape[0], right.shape[1]))
    high = low.copy()
    for m in range(left.shape[1]):
        columns = (left.low[:, m, None], left.high[:, m, None])
        rows = (right.low[None, m], right.high[None, m])
        corners = np.stack([a * b for a in columns for b in rows])
        low += corners.min(axis=0)
        high += corners.max(axis=0)
    return Intervals(low, high)


def softmax_rows(scores: Intervals) -> Intervals:
    """The softmax of each row: a weight rises with its own score and falls with the others'."""
    return Intervals(
        _softmax_against(scores.low, scores.high), _softmax_against(scores.high, scores.low)
    )


def _softmax_against(own: Array, others: Array) -> Array:
    """exp(ownⱼ) / (exp(ownⱼ) + Σ exp(othersᵢ), i ≠ j), row by row."""
    largest = np.maximum(own, others).max(axis=1, keepdims=True)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    mine, theirs = np.exp(own - shift), np.exp(others - shift)
    none = np.zeros((len(own), 1))
    before = np.hstack([none, np.cumsum(theirs, axis=1)[:, :-1]])
    after = np.hstack([np.cumsum(theirs[:, ::-1], axis=1)[:, -2::-1], none])
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
