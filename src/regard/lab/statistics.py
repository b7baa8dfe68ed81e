"""How sure a figure is: means and slopes with their intervals, shares, paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from regard._statistics import Interval, Z, mean, student
from regard.reference import Array


def mean_share(sample: Sequence[float] | Array) -> Interval:
    """The mean of independent shares, each from 0 to 1, as the ends of its interval are.

    >>> mean_share([0.9, 1.0])
    Interval(value=0.95, low=0.31..., high=1.0)
    """
    found = mean(sample)
    return Interval(found.value, max(0.0, found.low), min(1.0, found.high))


def share(successes: int, of: int) -> Interval:
    """The share of successes, by Wilson's interval.

    >>> share(9, 10)
    Interval(value=0.9, low=0.59..., high=0.98...)
    """
    if of == 0:
        return Interval(math.nan, 0.0, 1.0)
    found, z2 = successes / of, Z**2
    middle = (found + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * math.sqrt(found * (1 - found) / of + z2 / (4 * of**2))
    return Interval(found, max(0.0, middle - half), min(1.0, middle + half))


def slope(x: Sequence[float] | Array, y: Sequence[float] | Array) -> Interval:
    """The slope of the straight line through points, by least squares, with Student's interval.

    >>> slope([1, 2, 3, 4], [2, 4.1, 5.9, 8])
    Interval(value=1.98, low=1.79..., high=2.16...)
    """
    across, up = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    centred = across - across.mean()
    steepness = float(centred @ up / (centred @ centred))
    if len(across) < 3:
        return Interval(steepness, -math.inf, math.inf)
    rest = up - up.mean() - steepness * centred
    error = math.sqrt(float(rest @ rest) / (len(across) - 2) / float(centred @ centred))
    half = student(len(across) - 2) * error
    return Interval(steepness, steepness - half, steepness + half)


def exponent(x: Sequence[float] | Array, y: Sequence[float] | Array) -> Interval:
    """How y grows with x: y ~ x^exponent, the slope of the logarithms.

    >>> round(exponent([1, 10, 100], [3, 300, 30000]).value, 9)
    2.0
    """
    return slope(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)))


def bootstrap(sample: Array, draws: int = 2000, seed: int = 0) -> Interval:
    """The mean of the rows of a sample, by drawing from it again; for numbers that are not normal.

    >>> low = bootstrap(np.array([0.0, 1.0, 1.0, 1.0])).low
    >>> 0.0 <= low <= 0.75
    True
    """
    numbers = np.asarray(sample, dtype=float)
    random = np.random.default_rng(seed)
    picks = random.integers(0, len(numbers), (draws, len(numbers)))
    means = numbers[picks].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(numbers.mean()), float(low), float(high))


def jackknife(whole: float, without: Sequence[float] | Array) -> Interval:
    """Any figure of a sample, from what it is if one of the sample is left out, each in turn.

    >>> sample = np.array([1.0, 2.0, 3.0])
    >>> jackknife(2.0, [sample[sample != one].mean() for one in sample])
    Interval(value=2.0, low=-0.48..., high=4.48...)
    """
    numbers = np.asarray(without, dtype=float)
    n = len(numbers)
    if n < 2:
        return Interval(whole, -math.inf, math.inf)
    error = math.sqrt((n - 1) / n * float(((numbers - numbers.mean()) ** 2).sum()))
    half = student(n - 1) * error
    return Interval(whole, whole - half, whole + half)


def rank_correlation(x: Array, y: Array) -> Array:
    """How alike two orders are, along the last axis (Spearman): 1 the same, −1 reversed; 0 where
    all numbers of one side are equal. Equal numbers share their ranks.

    >>> float(rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0])))
    0.5
    """
    first, second = (_ranks(np.asarray(side, dtype=float)) for side in np.broadcast_arrays(x, y))
    together = (first * second).sum(axis=-1)
    size = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    return together / np.where(size > 0, size, 1.0)


def _ranks(numbers: Array) -> Array:
    """Of each number, how many are smaller less how many are larger: its rank around 0."""
    apart = np.sign(numbers[..., :, None] - numbers[..., None, :])
    return apart.sum(axis=-1)


def ratio(top: Sequence[float] | Array, bottom: Sequence[float] | Array) -> Interval:
    """The mean of one measure by that of another of the same cases, by drawing the cases again.

    >>> ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    Interval(value=0.5, low=0.5, high=0.5)
    """
    above, below = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(above), (2000, len(above)))
    found = above[picks].mean(axis=1) / below[picks].mean(axis=1)
    low, high = np.quantile(found, [0.025, 0.975])
    return Interval(float(above.mean() / below.mean()), float(low), float(high))


def sign_test(differences: Sequence[float] | Array) -> float:
    """How likely so uneven a split of signs, or a more uneven one, is by chance (two-sided).

    >>> round(sign_test([1, 1, 1, 1, 1, -1]), 4)
    0.2188
    """
    numbers = np.asarray(differences, dtype=float)
    above, below = int((numbers > 0).sum()), int((numbers < 0).sum())
    of = above + below
    tail = sum(math.comb(of, k) for k in range(min(above, below) + 1)) / 2**of
    return min(1.0, 2 * tail)
