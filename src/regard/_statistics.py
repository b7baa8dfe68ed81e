"""A mean, and how sure it is: Student's interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.reference import Array

Z = 1.959964  # a normal number lies within this with a chance of 95 %


class Interval(NamedTuple):
    """An estimate, and where the true value lies with a chance of about 95 %."""

    value: float
    low: float
    high: float

    def contains(self, value: float) -> bool:
        """
        >>> Interval(1.0, 0.9, 1.1).contains(1.05)
        True
        """
        return self.low <= value <= self.high


def mean(sample: Sequence[float] | Array) -> Interval:
    """The mean of independent numbers, by Student's t.

    >>> mean([1.0, 2.0, 3.0])
    Interval(value=2.0, low=-0.48..., high=4.48...)
    """
    numbers = np.asarray(sample, dtype=float)
    middle = float(numbers.mean())
    if len(numbers) < 2:
        return Interval(middle, -math.inf, math.inf)
    half = student(len(numbers) - 1) * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Interval(middle, middle - half, middle + half)


def student(freedom: int) -> float:
    """The 97.5 % point of Student's t, to three digits or better (Cornish and Fisher)."""
    exact = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706}
    if freedom in exact:
        return exact[freedom]
    z, n = Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
