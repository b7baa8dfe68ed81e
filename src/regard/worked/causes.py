"""How a mistake was made: the classic slips, tried on a matrix, on a row, on a cell.

A slip is named only where it gives every printed number of the matrix, the row or the cell, digit
by digit, and where that cannot well be chance: the farther off the wrong numbers are, and the fewer
slips of its family there are to try, the more a hit proves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from regard._intervals import Intervals
from regard.reference import Array, Mask, softmax
from regard.worked.cell import Cell
from regard.worked.chain import Chain, enlarged
from regard.worked.exercise import Exercise
from regard.worked.parts import Head, Key, available, sources
from regard.written.names import SYMBOLS

__all__ = ["diagnose"]

Guess = tuple[str, Array, str]  # the family of slips, what one gives, how it is told
_CHANCE = 0.02
_MOST_TERMS = 16
_LIKELY = {"sign": 0.2, "copy": 1}  # slips so common that little proves them


class _Coarse(Chain):
    """The chain with all that a step takes rounded to fewer digits than are printed."""

    digits = 0

    def carried(self, kind: str, head: Head) -> Intervals:
        return Intervals.exactly(np.round(super().carried(kind, head).middle, self.digits))


def diagnose(exercise: Exercise, key: Key, chains: dict[str, Chain], cells: list[Cell]) -> None:
    """Write into the cells of first causes which slip explains them, if one is found."""
    own = [cell for cell in cells if cell.origin == "first"]
    matrix = exercise.get(*key)
    if not own or matrix is None:
        return
    right = chains["full"].reach(*key).middle
    printed = enlarged(matrix.values, right.shape, np.nan)
    half = enlarged(matrix.units, right.shape, 0.0) * (0.5 + 1e-6)
    guesses = [
        (family, guess, text)
        for way in ("full", "printed")
        for family, guess, text in _guesses(exercise, key, chains[way])
        if guess.shape == right.shape
    ]
    sizes = Counter(
        {family: len({t for f, _, t in guesses if f == family}) for family, *_ in guesses}
    )
    hits: list[tuple[Mask, str, str]] = []
    with np.errstate(invalid="ignore"):
        for family, guess, text in guesses:
            hits.append(((np.abs(guess - printed) <= half) | np.isnan(printed), family, text))
    for scope in ("matrix", "row", "cell"):
        for group in _groups(own, scope):
            rows, columns = [c.row for c in group], [c.column for c in group]
            wide = {"matrix": np.s_[:, :], "row": np.s_[rows[0], :], "cell": (rows, columns)}[scope]
            proof = sum(_evidence(cell) for cell in group)
            with np.errstate(divide="ignore", invalid="ignore"):
                digits = np.nan_to_num(np.log10(np.abs(printed[wide]) / half[wide] / 2)).clip(0)
            for fits, family, text in hits:
                weight = _LIKELY.get(family, sizes[family])
                # A row that is the same as another is so in its right numbers, too.
                proven = float(digits.sum()) if family == "copy" else proof
                if fits[wide].all() and proven >= math.log10(weight / _CHANCE):
                    for cell in group:
                        cell.cause, cell.is_explained = text, scope == "matrix" and family == "norm"
                    break
    for cell in own:
        impossible = _impossible(exercise, key, chains["full"], cell)
        cell.cause = "; ".join(filter(None, [impossible, cell.cause]))


def _groups(own: list[Cell], scope: str) -> list[list[Cell]]:
    """The cells without a cause that are to be explained together."""
    left = [cell for cell in own if not cell.cause]
    if scope == "matrix":
        return [left]
    if scope == "cell":
        return [[cell] for cell in left]
    return [[c for c in left if c.row == row] for row in sorted({cell.row for cell in left})]


def _evidence(cell: Cell) -> float:
    """How many digits must agree for a guess to give this number by chance."""
    unit = cell.figure.unit or 1.0
    return math.log10(max(1.0, 2 * abs(cell.figure.value - cell.right) / unit))


# ── slips ─────────────────────────────────────────────────────────────────────────────────────


def _guesses(exercise: Exercise, key: Key, chain: Chain) -> Iterator[Guess]:
    kind, head = key
    right = chain.reach(*key).middle
    parts = {k: chain.carried(k, h).middle for k, h in sources(exercise, *key)}
    with np.errstate(all="ignore"):
        if kind in ("scores", "scaled", "weights"):
            yield from _of_scores(exercise, key, chain, right, parts)
        elif kind == "head_output" and len(parts) == 2:
            names = [_key(exercise, j) for j in range(len(parts["value"]))]
            yield from _terms(parts["weights"], parts["value"], right, names)
            for steps in (1e2, 1e3, 1e4):  # weights that are not printed may have been cut off
                cut = np.floor(parts["weights"] * steps) / steps
                yield from _terms(cut, parts["value"], cut @ parts["value"], names)
            if parts["weights"].shape[0] == parts["weights"].shape[1]:
                mixed = parts["weights"].T @ parts["value"]
                yield "transposed", mixed, "as if the weights had been transposed"
            to_one = right / right.sum(axis=1, keepdims=True)
            yield "step", to_one, "as if the rows of the output had to sum to 1"
        elif len(parts) > 1 and kind in (
            "query",
            "key",
            "value",
            "output",
            "hidden",
            "feed_forward",
        ):
            x, w = list(parts.values())[:2]
            if x.shape[1] == w.shape[0]:
                yield from _terms(x, w, right, [])
                yield "bias", x @ w, "as if the bias had been left out"
            if x.shape[1] == w.shape[1] == w.shape[0]:
                yield "transposed", right - x @ w + x @ w.T, "as if the matrix had been transposed"
            for other in ("query", "key", "value"):
                is_copy = kind in ("query", "key", "value") and other != kind
                if is_copy and right.shape[1] > 1 and available(exercise, other, head):
                    copied = chain.reach(other, head).middle
                    yield "copy", copied, f"copied from the row of {SYMBOLS[other]}?"
        else:
            yield from _of_layer(exercise, kind, chain, right)
        yield from _of_any(right)
        for digits in range(3):
            coarse = _Coarse(exercise, chain.reading, "printed")
            coarse.digits = digits
            text = f"as if what it is made of had been rounded to {digits} decimals first"
            yield "rounding", coarse.reach(*key).middle, text.replace("0 decimals", "whole numbers")


def _key(exercise: Exercise, j: int) -> str:
    return f"“{exercise.tokens[j]}”" if j < len(exercise.tokens) else f"key {j + 1}"


def _terms(a: Array, b: Array, right: Array, names: list[str]) -> Iterator[Guess]:
    """A term of a sum of products that is left out, counted twice, or has lost its sign."""
    for m in range(min(a.shape[1], _MOST_TERMS)):
        name = names[m] if m < len(names) else f"term {m + 1}"
        term = a[:, m, None] * b[None, m]
        family = "token" if names else "term"
        yield family, right + term, f"as if {name} had been added twice"
        yield family, right - term, f"as if {name} had been left out"
        if not names:
            yield family, right - 2 * term, f"as if {name} had the other sign"


def _of_scores(
    exercise: Exercise, key: Key, chain: Chain, right: Array, parts: dict[str, Array]
) -> Iterator[Guess]:
    kind, head = key
    if kind == "scores":
        q, k = parts["query"], parts["key"]
        if q.shape[1] == k.shape[0]:
            yield "step", q @ k, "as if K had not been transposed: it is Q K, not Q Kᵀ"
        yield from _terms(q, k.T, right, [])
        return
    if available(exercise, "scores", head):
        scores = chain.carried("scores", head).middle
        for divisor, text in _divisors(exercise, chain, head, scores.shape[1]):
            wrong = scores / divisor
            wrong = wrong if kind == "scaled" else softmax(wrong)
            yield "step", wrong, f"as if the scores had been {text}"
    if kind == "weights":
        scaled = parts["scaled"]
        yield "step", softmax(scaled.T).T, "as if the softmax had been taken over columns, not rows"
        yield "step", np.exp(scaled), "as if e^score had not been divided by the sum of its row"
        yield "step", scaled / scaled.sum(axis=1, keepdims=True), "as if e^ had been left out"
        for j in range(min(right.shape[1], _MOST_TERMS)):
            name = _key(exercise, j)
            less, more = right / (1 - right[:, [j]]), right / (1 + right[:, [j]])
            yield "sum", less, f"as if {name} had been left out of the sum below"
            yield "sum", more, f"as if {name} had been counted twice in the sum below"


def _divisors(
    exercise: Exercise, chain: Chain, head: Head, n_keys: int
) -> Iterable[tuple[float, str]]:
    yield 1.0, "not divided by √dₖ"
    sizes = {"the number of keys": n_keys}
    if available(exercise, "input", None):
        sizes["d_model"] = chain.carried("input", None).shape[1]
    if available(exercise, "value", head):
        sizes["d_v"] = chain.carried("value", head).shape[1]
    if available(exercise, "key", head):
        d_k = chain.carried("key", head).shape[1]
        yield d_k, "divided by dₖ, not by √dₖ"
        sizes = {name: size for name, size in sizes.items() if size != d_k}
    for name, size in sizes.items():
        yield math.sqrt(size), f"divided by the root of {name}, not of dₖ"


def _of_layer(exercise: Exercise, kind: str, chain: Chain, right: Array) -> Iterator[Guess]:
    stem = kind.removesuffix("_2")
    found = sources(exercise, kind, None)
    values = [chain.carried(*source).middle for source in found]
    if stem == "residual":
        yield "step", values[1], "as if nothing had been added to it"
    if stem == "activated":
        yield "step", values[0], "as if there were no activation function"
    if stem == "variance":
        squares = right * values[0].shape[1]
        yield "norm", squares, "as if the squares had been added up, not averaged"
    if stem == "deviation":
        yield "norm", right**2, "as if the root had been left out"
    if stem in ("norm", "normalized"):
        base = sources(exercise, f"normalized{kind[len(stem) :]}", None)
        x = chain.carried(*base[0]).middle if base else values[0]
        centred, spread = x - x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)
        gamma, beta = 1.0, 0.0
        for (part, _), value in zip(found, values, strict=True):
            gamma = value if part.startswith("gamma") else gamma
            beta = value if part.startswith("beta") else beta
        for wrong, text in (
            (centred / spread**2, "as if divided by the variance, not by its root"),
            (x / spread, "as if the mean had not been taken off"),
            (centred, "as if the mean had been taken off, and no more"),
        ):
            yield "norm", wrong * gamma + beta, text


def _of_any(right: Array) -> Iterator[Guess]:
    yield "sign", -right, "the sign is lost"
    for axis, what in ((1, "cells"), (0, "rows")):
        for i in range(min(right.shape[axis], _MOST_TERMS)):
            for j in range(i):
                order = np.arange(right.shape[axis])
                order[[i, j]] = j, i
                yield "swap", np.take(right, order, axis=axis), f"two {what} are swapped"
    if right.shape[0] == right.shape[1] > 1:
        yield "transposed", right.T, "rows and columns are exchanged"


def _impossible(exercise: Exercise, key: Key, full: Chain, cell: Cell) -> str:
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
