"""A row of numbers, its mean and its deviation, and the row made standard: each as an equation.

    x = [1, 3, 2, 4]
    μ = 2.5, σ = 1.118
    [−1.34, 0.45, −0.45, 1.34]

The mean as printed must be that of the row, or they are not of one another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from regard.written.figures import Figure
from regard.written.found import Equality, Value
from regard.written.nodes import Node

__all__ = ["by_moments", "equality"]

_MEAN = re.compile(
    r"(?:^|[^\w^])(?:μ|µ|\\mu|mean|mittelwert|moyenne|media|média)\s*[=≈:]\s*$", re.I
)
_DEVIATION = re.compile(r"(?:^|[^\w^])(?:σ|\\sigma|std|standard deviation)\s*[=≈:]\s*$", re.I)
_NORMAL = re.compile(r"normali[sz]|standardi[sz]|→|归一|標準化|정규화", re.I)
_CHOSEN = 0.05  # the last digit of numbers that a person thought of


def by_moments(values: list[Value]) -> Iterator[Equality]:
    """Where a row is followed by its mean, and that by its deviation: what they must be."""
    for k, (mean, deviation) in enumerate(pairwise(values)):
        before = values[k - 1] if k else None
        numbers = mean.is_number and deviation.is_number
        if not numbers or before is None or not before.is_vector or before.shape[1] < 3:
            continue
        if not (_MEAN.search(mean.lead) and _DEVIATION.search(deviation.lead)):
            continue
        row = before.rows[0]
        total = sum(figure.value for figure in row)
        slack = sum(figure.unit for figure in row) / len(row) / 2
        middle = total / len(row)
        if middle == 0 or not mean.figure.may_stand_for(middle - slack, middle + slack):
            continue
        if mean.figure.unit < min(figure.unit for figure in row) >= _CHOSEN:
            row = [replace(figure, unit=0.0) for figure in row]  # one decimal is no rounding
        yield equality("mean", row, [mean.figure])
        yield equality("std", row, [deviation.figure])
        made = values[k + 2] if k + 2 < len(values) else None
        if made is not None and made.is_vector and made.shape == before.shape:
            said = f"{made.lead} {' '.join(made.titles[:2])}"
            if _NORMAL.search(said) and _is_standard(row, deviation.figure):
                yield equality("layernorm", row, made.rows[0])


def _is_standard(row: list[Figure], printed: Figure) -> bool:
    """Whether a deviation is that of a row, of n or of n − 1."""
    middle = sum(figure.value for figure in row) / len(row)
    squares = sum((figure.value - middle) ** 2 for figure in row)
    ends = [(squares / n) ** 0.5 for n in (len(row), len(row) - 1)]
    return any(printed.may_stand_for(end, end) for end in ends)


def equality(of: str, row: list[Figure], result: list[Figure]) -> Equality:
    """A function of a row, set equal to what is printed for it."""
    figures = [*row, *result]
    nodes = [Node("number", k, k + 1) for k in range(len(figures))]
    n = len(row)
    made = Node(of, 0, 0, [Node("matrix", 0, 0, nodes[:n], n)])
    right = nodes[n] if len(result) == 1 else Node("matrix", 0, 0, nodes[n:], len(result))
    text = f"{of}([{', '.join(figure.text for figure in row)}])"
    return Equality(result[0].start, text, [made, right], lambda node: figures[node.start])
