"""How a mistake was made: the classic slips, tried on a matrix, on a row, on a cell.

A slip is named only where it gives every printed number of the matrix, the row or the cell, digit
by digit, and where that cannot well be chance: the farther off the wrong numbers are, and the fewer
slips of its family there are to try, the more a hit proves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from regard._intervals import Intervals
from regard.reference import Array, softmax
from regard.worked.chain import Chain, Reading, enlarged
from regard.worked.exercise import OF_PAIRS, Exercise, Head, Key
from regard.worked.judged import Cell
from regard.worked.parts import available, sources
from regard.written.names import SYMBOLS

__all__ = ["diagnose"]

Guess = tuple[str, Array, str]  # the family of slips, what one gives, how it is told
_CHANCE = 0.02
_MOST_TERMS = 16
_COPIED = ("query", "key", "value")
_LIKELY = {"sign": 0.2, "copy": 1}  # slips so common that little proves them


class _Coarse(Chain):
    """The chain with all that a step takes rounded to fewer digits than are printed."""

    digits = 0

    def carried(self, kind: str, head: Head) -> Intervals:
        return Intervals.exactly(np.round(super().carried(kind, head).middle, self.digits))


def diagnose(exercise: Exercise, key: Key, chains: dict[str, Chain], cells: list[Cell]) -> None:
    """Write into the cells of first causes which slip explains them, if one is found."""
    own = [cell for cell in cells if cell.origin == "first"]
    if not own:
        return
    matrix, right = exercise.matrices[key], chains["full"].reach(*key).middle
    printed = enlarged(matrix.values, right.shape, np.nan)
    half = enlarged(matrix.units, right.shape, 0.0) * (0.5 + 1e-6)
    with np.errstate(all="ignore"):
        tried = [
            guess
            for way in ("full", "printed")
            for guess in (*_guesses(key, chains[way]), *_of_any(chains[way].reach(*key)))
        ]
        tried += _rounded_first(exercise, key, chains["full"].reading)
        tried = [guess for guess in tried if guess[1].shape == right.shape]
        made = np.array([guess for _, guess, _ in tried])
        fits = (np.abs(made - printed) <= half) | np.isnan(printed)
        digits = np.nan_to_num(np.log10(np.abs(printed) / half / 2)).clip(0)
    sizes = Counter(family for family, _ in {(family, text) for family, _, text in tried})
    in_rows = np.asarray(fits.all(axis=2))
    everywhere = np.asarray(np.all(in_rows, axis=1))
    for scope in ("matrix", "row", "cell"):
        for group in _groups(own, scope):
            row, column = group[0].row, group[0].column
            wide = {"matrix": slice(None), "row": row, "cell": (row, column)}[scope]
            fit = {"matrix": everywhere, "row": in_rows[:, row], "cell": fits[:, row, column]}
            proof = sum(map(_evidence, group))
            for k in np.flatnonzero(fit[scope]):
                family, _, text = tried[k]
                weight = _LIKELY.get(family, sizes[family])
                # A row that is the same as another is so in its right numbers, too.
                proven = float(digits[wide].sum()) if family == "copy" else proof
                if proven >= math.log10(weight / _CHANCE):
                    for cell in group:
                        cell.cause, cell.is_explained = text, scope == "matrix" and family == "norm"
                    break
    for cell in own:
        impossible = _impossible(key, chains["full"], cell)
        cell.cause = "; ".join(filter(None, [impossible, cell.cause]))


def _groups(own: list[Cell], scope: str) -> list[list[Cell]]:
    """The cells without a cause that are to be explained together."""
    left = [cell for cell in own if not cell.cause]
    if scope == "cell":
        return [[cell] for cell in left]
    rows = sorted({cell.row for cell in left}) if scope == "row" else [None] * bool(left)
    return [[cell for cell in left if row in (None, cell.row)] for row in rows]


def _evidence(cell: Cell) -> float:
    """How many digits must agree for a guess to give this number by chance."""
    unit = cell.figure.unit or 1.0
    return math.log10(max(1.0, 2 * abs(cell.figure.value - cell.right) / unit))


# ── slips ─────────────────────────────────────────────────────────────────────────────────────


def _guesses(key: Key, chain: Chain) -> Iterator[Guess]:
    exercise, (kind, head) = chain.exercise, key
    right = chain.reach(*key).middle
    parts = {k: chain.carried(k, h).middle for k, h in sources(exercise, *key)}
    if kind in OF_PAIRS:
        yield from _of_scores(key, chain, right, parts)
    elif kind == "head_output" and len(parts) == 2:
        weights, value = parts["weights"], parts["value"]
        names = [_key(exercise, j) for j in range(len(value))]
        yield from _terms(weights, value, right, names)
        for steps in (1e2, 1e3, 1e4):  # weights that are not printed may have been cut off
            cut = np.floor(weights * steps) / steps
            yield from _terms(cut, value, cut @ value, names)
        if weights.shape[0] == weights.shape[1]:
            yield "transposed", weights.T @ value, "as if the weights had been transposed"
        to_one = right / right.sum(axis=1, keepdims=True)
        yield "step", to_one, "as if the rows of the output had to sum to 1"
    elif len(parts) > 1 and kind in (*_COPIED, "output", "hidden", "feed_forward"):
        x, w = list(parts.values())[:2]
        if x.shape[1] == w.shape[0]:
            yield from _terms(x, w, right, [])
            yield "bias", x @ w, "as if the bias had been left out"
        if x.shape[1] == w.shape[1] == w.shape[0]:
            yield "transposed", right - x @ w + x @ w.T, "as if the matrix had been transposed"
        for other in _COPIED if kind in _COPIED and right.shape[1] > 1 else ():
            if other != kind and available(exercise, other, head):
                copied = chain.reach(other, head).middle
                yield "copy", copied, f"copied from the row of {SYMBOLS[other]}?"
    else:
        yield from _of_layer(kind, chain, right)


def _rounded_first(exercise: Exercise, key: Key, reading: Reading) -> Iterator[Guess]:
    for digits in range(3):
        coarse = _Coarse(exercise, reading, "printed")
        coarse.digits = digits
        to = f"{digits} decimals" if digits else "whole numbers"
        text = f"as if what it is made of had been rounded to {to} first"
        yield "rounding", coarse.reach(*key).middle, text


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


def _of_scores(key: Key, chain: Chain, right: Array, parts: dict[str, Array]) -> Iterator[Guess]:
    exercise, (kind, head) = chain.exercise, key
    if kind == "scores":
        q, k = parts["query"], parts["key"]
        if q.shape[1] == k.shape[0]:
            yield "step", q @ k, "as if K had not been transposed: it is Q K, not Q Kᵀ"
        yield from _terms(q, k.T, right, [])
        return
    if available(exercise, "scores", head):
        scores = chain.carried("scores", head).middle
        for divisor, text in _divisors(chain, head, scores.shape[1]):
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


def _divisors(chain: Chain, head: Head, n_keys: int) -> Iterator[tuple[float, str]]:
    yield 1.0, "not divided by √dₖ"
    named = {"d_model": ("input", None), "d_v": ("value", head), "dₖ": ("key", head)}
    sizes = {"the number of keys": n_keys} | {
        name: chain.carried(*key).shape[1]
        for name, key in named.items()
        if available(chain.exercise, *key)
    }
    d_k = sizes.pop("dₖ", None)
    if d_k is not None:
        yield d_k, "divided by dₖ, not by √dₖ"
    for name, size in sizes.items():
        if size != d_k:
            yield math.sqrt(size), f"divided by the root of {name}, not of dₖ"


def _of_layer(kind: str, chain: Chain, right: Array) -> Iterator[Guess]:
    stem = kind.removesuffix("_2")
    found = sources(chain.exercise, kind, None)
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
        base = sources(chain.exercise, f"normalized{kind[len(stem) :]}", None)
        x = chain.carried(*base[0]).middle if base else values[0]
        centred, spread = x - x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)
        named = {k.removesuffix("_2"): v for (k, _), v in zip(found, values, strict=True)}
        gamma, beta = named.get("gamma", 1.0), named.get("beta", 0.0)
        for wrong, text in (
            (centred / spread**2, "as if divided by the variance, not by its root"),
            (x / spread, "as if the mean had not been taken off"),
            (centred, "as if the mean had been taken off, and no more"),
        ):
            yield "norm", wrong * gamma + beta, text


def _of_any(reached: Intervals) -> Iterator[Guess]:
    right = reached.middle
    yield "sign", -right, "the sign is lost"
    for axis, what in ((1, "cells"), (0, "rows")):
        for i in range(min(right.shape[axis], _MOST_TERMS)):
            for j in range(i):
                order = np.arange(right.shape[axis])
                order[[i, j]] = j, i
                yield "swap", np.take(right, order, axis=axis), f"two {what} are swapped"
    if right.shape[0] == right.shape[1] > 1:
        yield "transposed", right.T, "rows and columns are exchanged"


def _impossible(key: Key, full: Chain, cell: Cell) -> str:
    """What is wrong whatever it is made of: a weight below 0, an output far from all values."""
    if key[0] == "weights":
        low, high, text = 0.0, 1.0, "a weight is between 0 and 1"
    elif key[0] == "head_output" and available(full.exercise, "value", key[1]):
        column = full.carried("value", key[1]).middle[:, cell.column]
        low, high = float(column.min()), float(column.max())
        text = f"no mixture of values from {low:g} to {high:g} gives it"
    else:
        return ""
    half = cell.figure.unit / 2
    return "" if low - half <= cell.figure.value <= high + half else f"impossible: {text}"
