"""How the steps of attention are made: turned, scored, scaled, weighed, mixed, joined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard._arithmetic import Explanation, dot, figure
from regard._steps import Step
from regard._trace import cells
from regard._trace.rule import Cell, Rule, row_of

if TYPE_CHECKING:
    from regard._trace.model import ModelTrace


@dataclass(frozen=True)
class Turned(Rule):
    """Pairs of numbers turned by an angle; those beyond the angles are left as they are."""

    of: str
    cosine: str
    sine: str  # with the sign of each number's turn
    halves: bool

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        x = row_of(trace.steps[self.of], cell.h, cell.i)
        cosine, sine = (trace.matrices[name][cell.i] for name in (self.cosine, self.sine))
        width = len(cosine)
        if cell.j >= width:
            return Explanation(f"{figure(cell.value)} is carried over: not turned", cell.value)
        partner = (cell.j + width // 2) % width if self.halves else cell.j ^ 1
        numbers = (x[cell.j], cosine[cell.j], x[partner], sine[cell.j])
        return cells.turned(cell.value, *map(float, numbers))


@dataclass(frozen=True)
class Sloped(Rule):
    """−slope · distance, with a slope for each head."""

    slopes: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        slope = float(trace.matrices[self.slopes][cell.h])
        n_queries, n_keys = step.array.shape[-2:]
        far = float(abs(cell.i + n_keys - n_queries - cell.j))
        product = dot(cell.value, np.array([-slope]), np.array([far]))
        return Explanation(f"{product} (slope · distance)", cell.value, product.terms)


@dataclass(frozen=True)
class Bucket(Rule):
    """A learned number for each head and each bucket of distances."""

    table: str
    buckets: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        n_queries, n_keys = step.array.shape[-2:]
        bucket = int(trace.matrices[self.buckets][cell.i, cell.j])
        far = cell.i + n_keys - n_queries - cell.j
        where = f"{far} before" if far > 0 else f"{-far} after" if far else "itself"
        return cells.looked_up(cell.value, f"row {bucket} of {self.table}, for a key {where}")


@dataclass(frozen=True)
class Scored(Rule):
    """Query times key."""

    query: str
    key: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        query, key = trace.steps[self.query], trace.steps[self.key]
        shared = cell.h * len(key.array) // len(query.array)
        return dot(cell.value, query.array[cell.h, cell.i], key.array[shared, cell.j])


@dataclass(frozen=True)
class Scaled(Rule):
    """Scores divided, a bias added, −∞ where a query may not look."""

    scores: str
    divisor: float
    bias: str | None
    causal: bool

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        value, h, i, j = cell
        if value == -math.inf:
            rows, columns = (axis.labels for axis in step.axes[-2:])
            return cells.masked(rows, columns, i, j, self.causal)
        score = float(trace.steps[self.scores].array[h, i, j])
        bias = None if self.bias is None else float(trace.steps[self.bias].array[h, i, j])
        return cells.scaled(value, score, self.divisor, bias)


@dataclass(frozen=True)
class Softmaxed(Rule):
    """The softmax of a row."""

    scaled: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        return cells.softmax(cell.value, trace.steps[self.scaled].array[cell.h, cell.i], cell.j)


@dataclass(frozen=True)
class Mixed(Rule):
    """Weights times values."""

    weights: str
    values: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        weights, values = trace.steps[self.weights].array, trace.steps[self.values].array
        shared = cell.h * len(values) // len(weights)
        return dot(cell.value, weights[cell.h, cell.i], values[shared][:, cell.j])


@dataclass(frozen=True)
class Joined(Rule):
    """The heads side by side."""

    of: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        h, j = divmod(cell.j, trace.steps[self.of].array.shape[-1])
        value = float(trace.steps[self.of].array[h, cell.i, j])
        label = step.axes[-1].labels[cell.j]
        return Explanation(f"{figure(value)} is carried over: {label}", value)


ATTENTION_RULES: tuple[type[Rule], ...] = (
    Bucket,
    Joined,
    Mixed,
    Scaled,
    Scored,
    Sloped,
    Softmaxed,
    Turned,
)
