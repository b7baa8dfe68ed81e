"""The steps of an exercise as a chain of intervals: what each cell can be.

The same chain is walked in several ways. *In full*: nothing is ever rounded. *From the inputs*:
what nothing in the file produces is exact as printed; a later value was carried on in full, or as
rounded to the digits printed for it. *From the step before*: what is computed and printed stands
for all that rounds to it. *As printed*: it stands for just what is printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard._intervals import Intervals, mixture, product, rounded_or_full, softmax_rows
from regard.reference import Array, allowed_keys
from regard.worked.exercise import HEAD_KINDS, Exercise, Head, Key, Matrix
from regard.worked.layers import layer_step
from regard.worked.parts import LAYER_KINDS, LAYER_STEPS, chosen, sources
from regard.written.source import Unreadable

__all__ = ["Chain", "Misfit", "Reading", "enlarged"]

Way = Literal["full", "inputs", "step", "printed"]


class Misfit(Unreadable):
    """A step whose parts do not fit in shape: they do not belong together."""

    key: Key


@dataclass(frozen=True)
class Reading:
    """How the softmax of an exercise is to be read: divided by what, and masked or not."""

    divisor: tuple[float, float]
    causal: bool = False
    remark: str = ""
    question: str = ""  # what is not known, where the text does not say what to divide by


class Chain:
    """What each step of an exercise can be, walked in one of its ways."""

    def __init__(self, exercise: Exercise, reading: Reading, way: Way) -> None:
        self.exercise, self.reading, self.way = exercise, reading, way
        self.heads = exercise.heads
        self._reached: dict[Key, Intervals] = {}

    def reach(self, kind: str, head: Head) -> Intervals:
        """What the step gives, before it is printed."""
        key = (kind, head if kind in HEAD_KINDS else None)
        if key not in self._reached:
            try:
                self._reached[key] = self._compute(*key)
            except Misfit:
                raise
            except Unreadable as error:
                misfit = Misfit(*error.args)
                misfit.key = key
                raise misfit from None
        return self._reached[key]

    def carried(self, kind: str, head: Head) -> Intervals:
        """What the next step may have used for it."""
        matrix = self.exercise.get(kind, head)
        if not sources(self.exercise, kind, head):
            assert matrix is not None
            return self._given(matrix)
        reached = self.reach(kind, head)
        if matrix is None or self.way == "full":
            return reached
        units = enlarged(matrix.units, reached.shape, 0.0)
        if self.way == "inputs":
            return rounded_or_full(reached, units)
        values = enlarged(matrix.values, reached.shape, np.nan)
        printed = ~np.isnan(values)
        if self.way == "printed":
            return reached.each(lambda end: np.where(printed, values, end))
        half = units / 2
        return Intervals(
            np.where(printed, values - half, reached.low),
            np.where(printed, values + half, reached.high),
        )

    def _compute(self, kind: str, head: Head) -> Intervals:
        exercise = self.exercise
        found = sources(exercise, kind, head)
        if not found:
            return self.carried(kind, head)
        parts = [self.carried(*source) for source in found]
        if kind in LAYER_KINDS:
            result = self._layer(kind, found, parts)
        elif kind == "input":
            self._must(parts[0].shape == parts[1].shape, found, "added")
            result = parts[0] + parts[1]
        elif kind in ("query", "key", "value"):
            result = self._project(parts, found, head)
            result = self._biased(result, f"b_{found[1][0][-1]}", head)
        elif kind == "scores":
            self._must(parts[0].shape[1] == parts[1].shape[1], found, "multiplied (Q Kᵀ)")
            result = product(parts[0], parts[1].transposed)
        elif kind == "scaled":
            result = self._masked(parts[0].over(self.reading.divisor), head)
        elif kind == "weights":
            result = softmax_rows(self._masked(parts[0], head))
        elif kind == "head_output" and len(found) == 1:
            result = self._hull(parts[0])
        elif kind == "head_output":
            self._must(parts[0].shape[1] == parts[1].shape[0], found, "multiplied (A V)")
            result = self._mix(parts[0], parts[1], head)
        elif kind == "concatenated":
            result = self._side_by_side(dict(zip((h for _, h in found), parts, strict=True)))
        else:
            self._must(parts[0].shape[1] == parts[1].shape[0], found, "multiplied")
            result = self._biased(product(parts[0], parts[1]), "b_O", None)
        self._must_fit(kind, head, result)
        return result

    # ── single steps ─────────────────────────────────────────────────────────────────────────

    def _given(self, matrix: Matrix) -> Intervals:
        """What nothing here produces is exact, unless it must have been computed elsewhere."""
        by_program, units = self.exercise.by_program, matrix.units
        if self.way not in ("inputs", "step"):
            return Intervals.exactly(matrix.values)
        elsewhere = matrix.kind in LAYER_STEPS or matrix.key in self.exercise.apart
        elsewhere |= by_program and matrix.kind in ("query", "key", "value", "scores")
        # A program prints four digits of what it has; a person gives what there is, but for scores.
        made = matrix.kind == "scores" and ("scaled", matrix.head) in self.exercise.matrices
        finest = 1 if elsewhere else 1.1e-4 if by_program else 0.011 if made else 0
        return Intervals.about(matrix.values, np.where(units < finest, units / 2, 0.0))

    def _layer(self, kind: str, found: list[Key], parts: list[Intervals]) -> Intervals:
        ways = {role: chosen(self.exercise, role) for role in ("variance", "activation", "maps")}
        named = dict(zip((kind for kind, _ in found), parts, strict=True))
        try:
            with np.errstate(invalid="ignore", divide="ignore"):
                return layer_step(kind, named, self.exercise.epsilon, ways)
        except ValueError as error:
            self._must(False, found, str(error))
            raise

    def _project(self, parts: list[Intervals], found: list[Key], head: Head) -> Intervals:
        x, w = parts
        heads = self.heads
        if w.shape[0] != x.shape[1] and head in heads and w.shape[0] * len(heads) == x.shape[1]:
            own = slice(heads.index(head) * w.shape[0], (heads.index(head) + 1) * w.shape[0])
            x = x.each(lambda end: end[:, own])  # each head sees its slice of X
        self._must(x.shape[1] == w.shape[0], found, "multiplied")
        return product(x, w)

    def _biased(self, result: Intervals, kind: str, head: Head) -> Intervals:
        bias = self.exercise.get(kind, head)
        if bias is None:
            return result
        if bias.shape != (1, result.shape[1]):
            raise Unreadable(f"{bias.describe()} should be 1×{result.shape[1]}.")
        return result + Intervals.exactly(np.broadcast_to(bias.values, result.shape))

    def _masked(self, scaled: Intervals, head: Head) -> Intervals:
        allowed = np.ones(scaled.shape, dtype=bool)
        if self.reading.causal:
            allowed &= allowed_keys(scaled.shape[0], scaled.shape[1], causal=True)
        for kind in ("scores", "scaled"):
            matrix = self.exercise.get(kind, head)
            if matrix is not None:
                self._must_fit(kind, head, scaled)
                allowed &= ~np.isneginf(enlarged(matrix.values, scaled.shape, np.nan))
        return scaled.where(allowed, -np.inf)

    def _hull(self, values: Intervals) -> Intervals:
        """With no weights known: a mixture of the values cannot leave their range."""
        output = self.exercise.get("head_output", self.heads[0])
        rows = max(1, len(self.exercise.tokens), output.shape[0] if output is not None else 0)
        hull = Intervals(values.low.min(axis=0), values.high.max(axis=0))
        return hull.each(lambda end: np.tile(end, (rows, 1)))

    def _mix(self, weights: Intervals, values: Intervals, head: Head) -> Intervals:
        matrix = self.exercise.get("weights", head)
        free = product(weights, values)
        if not sources(self.exercise, "weights", head):
            return free
        slack = np.zeros(weights.shape[0])
        if matrix is not None:
            slack = enlarged(matrix.units, weights.shape, 0.0).sum(axis=1) / 2
        least, most = weights.low.sum(axis=1), weights.high.sum(axis=1)
        reaches_one = ((least <= 1 + slack) & (most >= 1 - slack))[:, None]
        constrained = mixture(weights, values, slack + 1e-12)
        return Intervals(
            np.where(reaches_one, np.maximum(constrained.low, free.low), free.low),
            np.where(reaches_one, np.minimum(constrained.high, free.high), free.high),
        )

    def _side_by_side(self, parts: dict[Head, Intervals]) -> Intervals:
        """The heads in order; one that is not known is taken as printed here."""
        matrix = self.exercise.get("concatenated")
        rows, width = next(iter(parts.values())).shape
        pieces = list(parts.values())
        if matrix is not None:
            total, first = matrix.shape[1], min(1, *self.heads)  # counted from 1, or from 0
            if total % width:
                raise Unreadable(
                    f"{matrix.describe()} cannot be made of heads of {width} columns each."
                )
            values = enlarged(matrix.values, (max(rows, matrix.shape[0]), total), np.nan)
            printed = (values[:, start : start + width] for start in range(0, total, width))
            pieces = [
                parts[head] if head in parts else Intervals.exactly(own)
                for head, own in enumerate(printed, first)
            ]
        if len({len(piece.low) for piece in pieces}) > 1:
            raise Unreadable("The outputs of the heads have not as many rows as one another.")
        return Intervals.joined(np.hstack, pieces)

    # ── shapes ───────────────────────────────────────────────────────────────────────────────

    def _must(self, holds: bool, found: list[Key], done: str) -> None:
        if holds:
            return
        matrices = [
            self.exercise.get(*key) or Matrix(*key, shape=self.carried(*key).low.shape)
            for key in found
        ]
        names = " and ".join(matrix.describe() for matrix in matrices)
        lines = [matrix.line for matrix in matrices if matrix.line]
        hint = f" If one is something else, say so with --as {lines[-1]}=…" if lines else ""
        raise Unreadable(f"{names} cannot be {done}: their shapes do not fit.{hint}")

    def _must_fit(self, kind: str, head: Head, result: Intervals) -> None:
        matrix = self.exercise.get(kind, head)
        if matrix is None:
            return
        rows, columns = matrix.shape
        if columns != result.shape[1] or rows > result.shape[0]:
            raise Unreadable(
                f"{matrix.describe()} should be {result.shape[0]}×{result.shape[1]}, "
                "from what it is made of. If it is something else, say so with "
                f"--as {matrix.line}=…"
            )


def enlarged(array: Array, shape: tuple[int, ...], fill: float) -> Array:
    """The array with rows added at its end: of some matrices only the first rows are printed."""
    if array.shape == shape:
        return array
    result = np.full(shape, fill)
    result[: array.shape[0], : array.shape[1]] = array
    return result
