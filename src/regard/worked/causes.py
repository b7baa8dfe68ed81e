"""What a wrong row looks like: counted twice, left out, copied, swapped.

A guess at how a mistake was made is put only where it gives every printed number of the row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regard.reference import Array, softmax
from regard.worked.cell import Cell
from regard.worked.chain import Chain, Head, available
from regard.worked.exercise import Exercise
from regard.written.names import SYMBOLS

__all__ = ["diagnose"]


def diagnose(exercise: Exercise, key: tuple[str, Head], full: Chain, cells: list[Cell]) -> None:
    """Write into the cells of first causes what explains the whole row, if that is found."""
    matrix = exercise.get(*key)
    assert matrix is not None
    right = full.reach(*key).middle
    for row in sorted({cell.row for cell in cells if cell.origin == "first"}):
        own = [cell for cell in cells if cell.row == row and cell.origin == "first"]
        columns = [c for (r, c) in matrix.figures if r == row]
        printed = np.array([matrix.figures[row, c][0].value for c in columns])
        units = np.array([matrix.figures[row, c][0].unit for c in columns])
        for guess, text in _guesses(exercise, key, full, row, right[row]):
            # A row that was added up from rounded terms may be off by a step of its last digit.
            steps = 1.5 if key[0] == "head_output" else 0.5 + 1e-6
            with np.errstate(invalid="ignore"):
                explains = np.all(np.abs(guess[columns] - printed) <= steps * units)
            if explains:
                for cell in own:
                    cell.cause = text
                break
        for cell in own:
            cell.cause = "; ".join(
                filter(None, [_impossible(exercise, key, full, cell), cell.cause])
            )


def _guesses(
    exercise: Exercise, key: tuple[str, Head], full: Chain, row: int, right: Array
) -> Iterator[tuple[Array, str]]:
    kind, head = key
    if kind == "head_output" and available(exercise, "weights", head):
        weights, values = full.carried("weights", head).middle, full.carried("value", head).middle
        for j in range(len(values)):
            name = f"“{exercise.tokens[j]}”" if j < len(exercise.tokens) else f"key {j + 1}"
            yield right + weights[row, j] * values[j], f"as if {name} had been added twice"
            yield right - weights[row, j] * values[j], f"as if {name} had been left out"
    if kind in ("query", "key", "value") and len(right) > 1:
        for other in ("query", "key", "value"):
            if other != kind and available(exercise, other, head):
                copied = full.reach(other, head).middle
                if copied.shape[1] == len(right) and row < len(copied):
                    yield copied[row], f"copied from the row of {SYMBOLS[other]}?"
    if kind == "weights" and available(exercise, "scores", head):
        for divisor, text in ((1.0, "not divided by √d_k"), (_width(full, head), "divided by d_k")):
            scores = full.carried("scores", head).middle[row] / divisor
            yield softmax(scores), f"as if the scores had been {text}"
    for i in range(len(right)):
        for j in range(i):
            swapped = right.copy()
            swapped[[i, j]] = right[[j, i]]
            yield swapped, "two cells are swapped"


def _width(full: Chain, head: Head) -> float:
    if not available(full.exercise, "key", head):
        return 1.0
    return float(full.carried("key", head).shape[1])


def _impossible(exercise: Exercise, key: tuple[str, Head], full: Chain, cell: Cell) -> str:
    """An output outside the range of the values is wrong whatever the weights are."""
    kind, head = key
    value = cell.figure.value
    half = cell.figure.unit / 2
    if kind == "head_output" and available(exercise, "value", head):
        column = full.carried("value", head).middle[:, cell.column]
        low, high = float(column.min()), float(column.max())
        if not low - half <= value <= high + half:
            return f"impossible: no mixture of values from {low:g} to {high:g} gives it"
    if kind == "weights" and not -half <= value <= 1 + half:
        return "impossible: a weight is between 0 and 1"
    return ""
