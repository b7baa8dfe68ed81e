"""How the steps of attention are made: turned, scored, scaled, weighed, mixed, joined."""

from __future__ import annotations

import math

import numpy as np

from regard._arithmetic import Explanation, dot, elide, equals, factor, figure
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


class Turned(Rule):
    """Pairs of numbers turned by an angle; those beyond the angles are left as they are."""

    of: StepName
    cosine: MatrixName
    sine: MatrixName  # with the sign of each number's turn
    halves: bool  # a number's partner is half of the width away, not beside it

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        _, h, i, j = cell
        row = in_head(numbers_of(trace, self.of), h)[i]
        cosines, sines = (trace.matrices[name][i] for name in (self.cosine, self.sine))
        width = len(cosines)
        if j >= width:
            return cell.told("is carried over: not turned")
        partner = (j + width // 2) % width if self.halves else j ^ 1
        x, cosine, other, sine = map(float, (row[j], cosines[j], row[partner], sines[j]))
        terms = [(x, cosine), (other, sine)]
        sign = "−" if sine < 0 else "+"
        line = f"{factor(x)}·{factor(cosine)} {sign} {factor(other)}·{figure(abs(sine))}"
        return cell.told(f"{equals(cell.value, terms)} {line} (turned by its position)", terms)


def _before(step: Step, cell: Cell) -> int:
    """How far the key stands before the query; the last query stands beside the last key."""
    n_queries, n_keys = step.array.shape[-2:]
    return cell.i + n_keys - n_queries - cell.j


class Sloped(Rule):
    """−slope · distance, with a slope for each head."""

    slopes: MatrixName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        slope, far = trace.matrices[self.slopes][cell.h], abs(_before(step, cell))
        product = dot(cell.value, np.array([-slope]), np.array([far]))
        return Explanation(f"{product} (slope · distance)", cell.value, product.terms)


class Bucket(Rule):
    """A learned number for each head and each bucket of distances."""

    table: TableName
    buckets: MatrixName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        bucket, far = int(trace.matrices[self.buckets][cell.i, cell.j]), _before(step, cell)
        where = f"{far} before" if far > 0 else f"{-far} after" if far else "itself"
        return cell.told(f"is looked up: row {bucket} of {self.table}, for a key {where}")


class Scored(Rule):
    """Query times key."""

    query: StepName
    key: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        query = trace.steps[self.query].array
        key = in_head(trace.steps[self.key].array, cell.h, len(query))
        return dot(cell.value, query[cell.h, cell.i], key[cell.j])


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
            rows, columns = (axis.labels for axis in step.axes[-2:])
            why = f"“{columns[j]}” may not be seen by “{rows[i]}”"
            if self.causal and _before(step, cell) < 0:
                why = f"“{columns[j]}” comes after “{rows[i]}” and may not be seen"
            return Explanation(f"−∞: masked, as {why}", value)
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
        return cell.told(f"{sign} {line}", (score,) if bias is None else (score, bias))


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
        powers = elide([f"e^{figure(s)}" for s in allowed])
        quotient = f"{figure(math.exp(own))} / {figure(sum(exponentials))}{remark}"
        return cell.told(f"≈ e^{figure(own)} / ({powers}) ≈ {quotient}", exponentials)


class Mixed(Rule):
    """Weights times values; heads without weights are known by their result."""

    weights: StepName
    values: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        weights = trace.steps[self.weights].array
        if cell.h >= len(weights):
            return cell.told("is given: this head is known by its result")
        values = in_head(trace.steps[self.values].array, cell.h, len(weights))
        return dot(cell.value, weights[cell.h, cell.i], values[:, cell.j])


class Joined(Rule):
    """The heads side by side."""

    of: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        h, j = divmod(cell.j, trace.steps[self.of].array.shape[-1])
        value = float(trace.steps[self.of].array[h, cell.i, j])
        label = step.axes[-1].labels[cell.j]
        return cell._replace(value=value).told(f"is carried over: {label}")


class OneJoined(Rule):
    """The heads side by side, of which only one is here as a step."""

    of: StepName
    head: int

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        return cell.told(f"is carried over: {step.axes[-1].labels[cell.j]}")
