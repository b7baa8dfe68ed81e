"""How the steps of attention are made: turned, scored, scaled, weighed, mixed, joined."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard._arithmetic import Explanation, dot, elide, equals, factor, figure
from regard._rules.general import looked_up
from regard._rules.rule import (
    Cell,
    MatrixName,
    Rule,
    Step,
    StepName,
    TableName,
    Traced,
    in_head,
    numbers_of,
)


@dataclass(frozen=True, eq=False, repr=False)
class Turned(Rule):
    """Pairs of numbers turned by an angle; those beyond the angles are left as they are."""

    of: StepName
    cosine: MatrixName
    sine: MatrixName  # with the sign of each number's turn
    halves: bool  # a number's partner is half of the width away, not beside it

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        value, h, i, j = cell
        row = in_head(numbers_of(trace, self.of), h)[i]
        cosines, sines = (trace.matrices[name][i] for name in (self.cosine, self.sine))
        width = len(cosines)
        if j >= width:
            return Explanation(f"{figure(value)} is carried over: not turned", value)
        partner = (j + width // 2) % width if self.halves else j ^ 1
        x, cosine, other, sine = map(float, (row[j], cosines[j], row[partner], sines[j]))
        terms = [(x, cosine), (other, sine)]
        sign = "−" if sine < 0 else "+"
        line = f"{factor(x)}·{factor(cosine)} {sign} {factor(other)}·{figure(abs(sine))}"
        return Explanation(
            f"{figure(value)} {equals(value, terms)} {line} (turned by its position)", value, terms
        )


@dataclass(frozen=True, eq=False, repr=False)
class Sloped(Rule):
    """−slope · distance, with a slope for each head."""

    slopes: MatrixName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        slope = float(trace.matrices[self.slopes][cell.h])
        n_queries, n_keys = step.array.shape[-2:]
        far = float(abs(cell.i + n_keys - n_queries - cell.j))
        product = dot(cell.value, np.array([-slope]), np.array([far]))
        return Explanation(f"{product} (slope · distance)", cell.value, product.terms)


@dataclass(frozen=True, eq=False, repr=False)
class Bucket(Rule):
    """A learned number for each head and each bucket of distances."""

    table: TableName
    buckets: MatrixName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        n_queries, n_keys = step.array.shape[-2:]
        bucket = int(trace.matrices[self.buckets][cell.i, cell.j])
        far = cell.i + n_keys - n_queries - cell.j
        where = f"{far} before" if far > 0 else f"{-far} after" if far else "itself"
        return looked_up(cell.value, f"row {bucket} of {self.table}, for a key {where}")


@dataclass(frozen=True, eq=False, repr=False)
class Scored(Rule):
    """Query times key."""

    query: StepName
    key: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        query, key = trace.steps[self.query].array, trace.steps[self.key].array
        shared = cell.h * len(key) // len(query)  # key heads may serve several
        return dot(cell.value, query[cell.h, cell.i], key[shared, cell.j])


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Rule):
    """Scores divided, a bias added, −∞ where a query may not look; `plain`: they are not divided.

    The divisor is a number above 0. `causal` says that no query sees a key that comes later.
    """

    scores: StepName
    divisor: float
    bias: StepName | None = None
    causal: bool = False
    plain: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.divisor < math.inf:
            raise ValueError(f"the divisor is {self.divisor}")

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        value, h, i, j = cell
        score = float(trace.steps[self.scores].array[h, i, j])
        if value == -math.inf:
            return self._masked(step, i, j)
        bias = None if self.bias is None else float(numbers_of(trace, self.bias)[h, i, j])
        more = "" if bias is None else f" + {factor(bias)} (bias)"
        if self.plain:
            sign = "=" if bias is None else equals(value, [(score,), (bias,)])
            line = f"{figure(score)}{more}, not scaled"
        else:
            # Only a root that is a whole number gives a score other than 0 an exact quotient.
            exact = self.divisor.is_integer() or score == 0
            products = [(value, self.divisor)]
            products += [] if bias is None else [(-bias, self.divisor)]
            sign = equals(score, products) if exact else "≈"
            line = f"{figure(score)} / √{figure(self.divisor**2).removesuffix('.0')}{more}"
        terms = (score,) if bias is None else (score, bias)
        return Explanation(f"{figure(value)} {sign} {line}", value, terms)

    def _masked(self, step: Step, i: int, j: int) -> Explanation:
        rows, columns = (axis.labels for axis in step.axes[-2:])
        # The last query stands beside the last key.
        if self.causal and j > i + len(columns) - len(rows):
            why = f"“{columns[j]}” comes after “{rows[i]}” and may not be seen"
        else:
            why = f"“{columns[j]}” may not be seen by “{rows[i]}”"
        return Explanation(f"−∞: masked, as {why}", -math.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Softmaxed(Rule):
    """The softmax of a row; `terms` are its exponentials."""

    scaled: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        scores: list[float] = trace.steps[self.scaled].array[cell.h, cell.i].tolist()
        own, allowed = scores[cell.j], [s for s in scores if s != -math.inf]
        if own == -math.inf:
            return Explanation("0.0 = e^−∞ / …: masked, no attention at all", cell.value)
        largest, remark = max(allowed), ""
        if abs(largest) > 100.0:  # e^±100 is past what a reader, and e^±710 what a float, can hold
            own, allowed = own - largest, [s - largest for s in allowed]
            remark = " (largest score taken off first)"
        exponentials = [math.exp(s) for s in allowed]
        powers = elide([f"e^{figure(s)}" for s in allowed], " + ")
        line = (
            f"{figure(cell.value)} ≈ e^{figure(own)} / ({powers}) "
            f"≈ {figure(math.exp(own))} / {figure(sum(exponentials))}{remark}"
        )
        return Explanation(line, cell.value, exponentials)


@dataclass(frozen=True, eq=False, repr=False)
class Mixed(Rule):
    """Weights times values; heads without weights are known by their result."""

    weights: StepName
    values: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        weights, values = trace.steps[self.weights].array, trace.steps[self.values].array
        if cell.h >= len(weights):
            words = "is given: this head is known by its result"
            return Explanation(f"{figure(cell.value)} {words}", cell.value)
        shared = cell.h * len(values) // len(weights)
        return dot(cell.value, weights[cell.h, cell.i], values[shared][:, cell.j])


@dataclass(frozen=True, eq=False, repr=False)
class Joined(Rule):
    """The heads side by side."""

    of: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        h, j = divmod(cell.j, trace.steps[self.of].array.shape[-1])
        value = float(trace.steps[self.of].array[h, cell.i, j])
        label = step.axes[-1].labels[cell.j]
        return Explanation(f"{figure(value)} is carried over: {label}", value)
