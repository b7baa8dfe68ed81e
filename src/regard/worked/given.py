"""Verdicts on what nothing in a text produces: printed twice, between 0 and 1, summing to 1."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from regard.worked.exercise import Matrix
from regard.worked.judged import Judged, cell_at, label_at
from regard.written.figures import Figure
from regard.written.found import Claim
from regard.written.source import Source

__all__ = ["judge_given", "judge_sums"]


def judge_given(source: Source, matrix: Matrix, judged: Judged) -> None:
    """A given matrix is right as printed; printed twice it must be the same, weights 0 to 1."""
    mistakes: list[tuple[tuple[int, int], Figure, float, str]] = []
    repeated = 0
    for place, (first, *others) in sorted(matrix.figures.items()):
        repeated += len(others)
        for figure in others:
            if figure.unit == first.unit and abs(figure.value - first.value) > first.unit / 2:
                cause = f"printed twice: line {source.line(first.start)} has {first.text}"
                mistakes.append((place, figure, first.value, cause))
    judged.checked += repeated
    # Where much of a piece differs, it is another; of a token's two numbers one may.
    pieces = Counter(matrix.piece_of.values())
    astray = Counter(matrix.piece_of.get(figure.start, -1) for _, figure, _, _ in mistakes)
    same = {piece for piece, n in astray.items() if 4 * n <= pieces[piece]}
    if matrix.kind in ("input", "embeddings") and repeated == 2:
        same |= {piece for piece, n in astray.items() if n == 1}
    mistakes = [m for m in mistakes if matrix.piece_of.get(m[1].start, -1) in same]
    if judged.exercise.by_program or not matrix.is_plain:
        mistakes = []
    if matrix.kind == "weights" and _are_weights(matrix):
        for place, figures in sorted(matrix.figures.items()):
            judged.checked += 1
            if not 0 <= figures[0].value <= 1:
                nearest = min(max(figures[0].value, 0.0), 1.0)
                mistakes.append((place, figures[0], nearest, "a weight is between 0 and 1"))
    judged.cells += [
        cell_at(
            source,
            matrix,
            judged.exercise,
            place,
            figure,
            right=right,
            from_printed=right,
            reachable=(right, right),
            follows_range=(right, right),
            from_inputs=False,
            from_step=False,
            origin="first",
            cause=cause,
        )
        for place, figure, right, cause in mistakes
    ]


def _are_weights(matrix: Matrix) -> bool:
    """Whether given numbers look like weights: half of the rows sum to 1, or it says so plainly."""
    sums = matrix.values.sum(axis=1)
    fitting = np.abs(sums - 1) <= np.minimum(matrix.units.sum(axis=1) / 2, 0.25) + 1e-9
    if matrix.blocks > 1:
        return False
    inside = (matrix.values >= 0) & (matrix.values <= 1)
    if len(sums) > 1:
        return 2 * int(fitting.sum()) >= len(sums)
    near = abs(float(sums[0]) - 1) < 0.5  # others are weights of something else
    return bool(fitting.all()) or (matrix.is_plain and bool(inside.all()) and near)


def judge_sums(source: Source, matrix: Matrix, judged: Judged) -> None:
    values, units = matrix.values, matrix.units
    given_weights = matrix.kind == "weights" and (matrix.kind, matrix.head) in judged.given
    given_weights = given_weights and _are_weights(matrix)
    if judged.exercise.by_program and (matrix.kind, matrix.head) in judged.exercise.apart:
        return
    for row in range(matrix.shape[0]):
        total = float(values[row].sum())
        slack = min(float(units[row].sum()) / 2, 0.05 * matrix.shape[1]) + 1e-9
        label = label_at(matrix, judged.exercise, 0, row)
        about = f"the sum of row “{label}” of {matrix.symbol}"
        if given_weights and not math.isnan(total):
            judged.checked += 1
            if abs(total - 1) > min(slack, 0.25):
                line = source.line(matrix.figures[row, 0][0].start)
                judged.claims.append(Claim(about, f"{total:.6g}", "1", False, line))
        figure = matrix.sums.get(row)
        if figure is not None:
            judged.checked += 1
            right = 1.0 if matrix.kind == "weights" else total
            off = abs(figure.value - total)
            fits = off <= figure.unit / 2 + slack or (
                matrix.kind == "weights" and abs(figure.value - 1) <= figure.unit / 2 + 1e-9
            )
            line = source.line(figure.start)
            judged.claims.append(Claim(about, figure.text, figure.like(right), fits, line, figure))
