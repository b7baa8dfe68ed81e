"""Verdicts on what nothing in a text produces: printed twice, between 0 and 1, summing to 1."""

from __future__ import annotations

import math
import re
from collections import Counter

from regard.worked.exercise import Matrix
from regard.worked.judged import Judged
from regard.written.figures import Figure
from regard.written.found import Claim

__all__ = ["judge_given", "judge_sums"]

_NEAR = 80  # lines


def judge_given(matrix: Matrix, judged: Judged) -> None:
    """A given matrix is right as printed; printed twice it must be the same, weights 0 to 1."""
    mistakes: list[tuple[tuple[int, int], Figure, float, str]] = []
    repeated = 0
    astray = Counter[int]()  # of each piece, what differs, also where the digits are fewer
    for place, (first, *others) in sorted(matrix.figures.items()):
        repeated += len(others)
        for figure in others:
            if abs(figure.value - first.value) <= max(figure.unit, first.unit) / 2:
                continue
            astray[matrix.piece_of.get(figure.start, -1)] += 1
            if figure.unit == first.unit:
                line = judged.source.line(first.start)
                cause = f"printed twice: line {line} has {first.text}"
                mistakes.append((place, figure, first.value, cause))
    judged.checked += repeated
    # Where much of a piece differs, it is another; of a token's two numbers one may.
    pieces = Counter(matrix.piece_of.values())
    same = {piece for piece, n in astray.items() if 4 * n <= pieces[piece]}
    lines = [judged.source.line(f.start) for figures in matrix.figures.values() for f in figures]
    near = max(lines, default=0) - min(lines, default=0) <= _NEAR  # else it is another example
    if matrix.kind in ("input", "embeddings") and repeated == 2 and near:
        same |= {piece for piece, n in astray.items() if n == 1}
    mistakes = [m for m in mistakes if matrix.piece_of.get(m[1].start, -1) in same]
    if judged.exercise.by_program or not matrix.is_plain:
        mistakes = []
    if _are_weights(matrix):
        for place, figures in sorted(matrix.figures.items()):
            judged.checked += 1
            if not 0 <= figures[0].value <= 1:
                nearest = min(max(figures[0].value, 0.0), 1.0)
                mistakes.append((place, figures[0], nearest, "a weight is between 0 and 1"))
    judged.cells += [
        judged.cell(matrix, place, figure, right, cause=cause)
        for place, figure, right, cause in mistakes
    ]


def _are_weights(matrix: Matrix) -> bool:
    """Whether given numbers look like weights: half of the rows sum to 1, or it says so plainly."""
    if matrix.kind != "weights" or matrix.blocks > 1:
        return False
    if len(matrix.called) < 2 and not ((matrix.values > 0) & (matrix.values < 1)).any():
        return False  # zeros and ones that are called A may be anything
    sums = matrix.row_sums
    fitting = [abs(total - 1) <= min(slack, 0.25) for total, slack in sums]
    if len(sums) > 1:
        return 2 * sum(fitting) >= len(sums)
    inside = bool(((matrix.values >= 0) & (matrix.values <= 1)).all())
    near = abs(sums[0][0] - 1) < 0.3  # others are weights of something else
    return fitting[0] or (matrix.is_plain and inside and near)


def judge_sums(matrix: Matrix, judged: Judged) -> None:
    """Rows of given weights must sum to 1, and printed sums must be those of their rows."""
    if judged.exercise.by_program and matrix.key in judged.exercise.apart:
        return
    of_weights = matrix.kind == "weights"
    given_weights = matrix.key in judged.given and _are_weights(matrix)
    for row, (total, slack) in enumerate(matrix.row_sums):
        about = f"the sum of row “{judged.label(matrix, 0, row)}” of {matrix.symbol}"
        if given_weights and not math.isnan(total):
            judged.checked += 1
            start = matrix.figures[row, 0][0].start
            # A row that a program starts from may be the top of a longer one.
            of_program = re.search(r"\w\(\[", judged.source.line_at(start)[:200])
            if abs(total - 1) > min(slack, 0.25) and not of_program:
                line = judged.source.line(start)
                judged.claims.append(Claim(about, f"{total:.6g}", "1", False, line))
        figure = matrix.sums.get(row)
        if figure is not None:
            judged.checked += 1
            fits = abs(figure.value - total) <= figure.unit / 2 + slack or (
                of_weights and abs(figure.value - 1) <= figure.unit / 2 + 1e-9
            )
            right = figure.like(1.0 if of_weights else total)
            line = judged.source.line(figure.start)
            judged.claims.append(Claim(about, figure.text, right, fits, line, figure))
