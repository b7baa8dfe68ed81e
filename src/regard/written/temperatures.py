"""Distributions at several temperatures, in a list or a table: each as an equation.

`T = 0.5: [0.98, 0.02]` below `logits = [4, 2]` says that softmax([4, 2] / 0.5) is that. The order
of the logits must be that of each distribution, or they are not what it was made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from regard.written.figures import Figure
from regard.written.found import Equality, Value
from regard.written.nodes import Node

__all__ = ["at_temperatures"]

_WORD = (
    r"(?<![^\W_])(?:T|τ|temp(?:erature)?|température|temperatur[ae]?|nhiệt độ|температура|温度|온도"
    r"|তাপমাত্রা)"
)
_AT = re.compile(
    rf"{_WORD}[\s*`$)]*(?:[=:]|\bof\b)?[\s*`$(]*(\d{{1,3}}(?:\.\d{{1,3}})?)\W*$", re.IGNORECASE
)
_COLUMN = re.compile(rf"\W*{_WORD}\b.{{0,12}}", re.IGNORECASE)
_LOGITS = re.compile(
    r"logit|\bscores?\b|(?<!\w)z(?!\w)|점수|得分|分数|スコア|puntu|punteg", re.IGNORECASE
)
_FAR = 12  # values between the logits and what is made of them


def at_temperatures(values: list[Value]) -> Iterator[Equality]:
    """An equation for each distribution that stands beside its temperature."""
    for k, value in enumerate(values):
        if value.is_number:
            continue
        before = values[max(0, k - _FAR) : k][::-1]
        rows = list(_distributions(value))
        for temperature, row, logits in rows:
            known = logits or next((v for v in map(_logits, before) if len(v) == len(row)), [])
            if temperature > 0 and _same_order(known, row):
                yield _equality(temperature, known, row)


def _logits(value: Value) -> list[Figure]:
    """Figures in a row, or down a column, that are called logits."""
    if value.is_number or not _LOGITS.search(value.lead or "".join(value.titles[:1])):
        return []
    return value.figures if 1 in value.shape else []


def _distributions(value: Value) -> Iterator[tuple[float, list[Figure], list[Figure]]]:
    """Temperatures with the numbers beside them, and the logits if the same table has them."""
    if value.is_vector and (at := _AT.search(value.lead)):
        yield float(at[1]), value.rows[0], []
    if len(value.headings) != value.shape[1] or value.shape[0] < 2:
        return
    columns = list(zip(*value.rows, strict=True))
    if _COLUMN.fullmatch(value.headings[0]) and not _AT.search(value.headings[0]):
        shares = [k for k, column in enumerate(columns[1:], 1) if all(f.value <= 1 for f in column)]
        for row in value.rows:
            yield from (
                (row[0].value, [row[k] for k in shares[:n]], [])
                for n in range(2, len(shares) + 1)
                if shares[:n] == list(range(1, n + 1))
            )
        return
    logits = [c for h, c in zip(value.headings, columns, strict=True) if _LOGITS.search(h)]
    for heading, column in zip(value.headings, columns, strict=True):
        if (at := _AT.search(heading)) and len(logits) == 1:
            yield float(at[1]), list(column), list(logits[0])


def _same_order(logits: list[Figure], row: list[Figure]) -> bool:
    if len(logits) != len(row) or len(row) < 2 or not all(0 <= f.value <= 1 for f in row):
        return False
    ranked = sorted(zip(logits, row, strict=True), key=lambda pair: pair[0].value)
    ordered = all(a[1].value <= b[1].value for a, b in pairwise(ranked))
    return ordered and len({figure.value for figure in row}) > 1


def _equality(temperature: float, logits: list[Figure], row: list[Figure]) -> Equality:
    # Logits of few digits were chosen; those of many were computed and rounded.
    given = [replace(f, unit=0.0) if f.unit >= 0.005 else f for f in logits]
    figures = [*given, Figure("", -1, temperature, 0.0), *row]
    nodes = [Node("number", k, k + 1) for k in range(len(figures))]
    n = len(row)
    scaled = Node("/", 0, 0, [Node("matrix", 0, 0, nodes[:n], n), nodes[n]])
    sides = [Node("softmax", 0, 0, [scaled]), Node("matrix", 0, 0, nodes[n + 1 :], n)]
    text = f"softmax([{', '.join(f.text for f in logits)}] / {temperature:g})"
    return Equality(row[0].start, text, sides, lambda node: figures[node.start])
