"""A row of scores, the exponentials of it, and their shares: a softmax that no word need name.

    [2, 1, 0.1]
    [7.39, 2.72, 1.11]
    [0.66, 0.24, 0.10]

Every exponential must be that of its score, and most shares must fit, or they are something else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from regard.written.figures import Figure
from regard.written.found import Equality, Value
from regard.written.moments import equality

__all__ = ["by_exponentials"]

_LARGEST = 50.0  # a score whose exponential people print


def by_exponentials(values: list[Value]) -> Iterator[Equality]:
    """Where a row is followed by its exponentials, and those by as many shares: their softmax."""
    rows = [value.rows[0] for value in values if value.is_vector and not value.is_number]
    for (scores, powers), (_, shares) in pairwise(pairwise(rows)):
        if not 2 < len(scores) == len(powers) == len(shares):
            continue
        if all(_is_power(figure, power) for figure, power in zip(scores, powers, strict=True)):
            total = sum(math.exp(figure.value) for figure in scores)
            made = [math.exp(figure.value) / total for figure in scores]
            right = sum(f.may_result(m, m) for f, m in zip(shares, made, strict=True))
            if 2 * right > len(shares):
                yield equality("softmax", scores, shares)


def _is_power(score: Figure, power: Figure) -> bool:
    if not -_LARGEST < score.value < _LARGEST or not power.unit < 1:
        return False
    made = math.exp(score.value)
    return power.may_result(made, made)
