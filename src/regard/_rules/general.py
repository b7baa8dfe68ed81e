"""How steps around attention are made: looked up, added, multiplied, normed, activated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from regard._arithmetic import Explanation, dot, equals, factor, figure, plus
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


class Given(Rule):
    """It comes from outside."""

    words: str = ""

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        return cell.told(f"is given: {self.words}" if self.words else "is given")


class Incoming(Given):
    """Given, unless an earlier step of the model has the same numbers: then it is `Copied`."""


class Copied(Rule):
    """It is another step, or with `row` one row of it; `words` stand in place of its name."""

    of: StepName
    row: int = -1
    words: str = ""

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        source = trace.steps[self.of]
        i = cell.i if self.row < 0 else self.row
        row = "" if self.row < 0 else f", row {source.axes[-2].labels[i]}"
        value = float(in_head(source.array, cell.h)[i, cell.j])
        return cell._replace(value=value).told(f"is carried over: {self.words or self.of + row}")


class LookedUp(Rule):
    """A row of a table: of the token's id, one for all tokens, or that of its place in the text.

    Where the numbers were multiplied by √width, `rows` holds them as they stand in the table.
    """

    table: TableName
    ids: StepName | None = None
    row: int = -1
    rows: MatrixName | None = None

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        row = cell.i if self.row < 0 else self.row
        if self.ids is not None:
            row = int(trace.steps[self.ids].array[cell.i, 0])
        place = f"row {row} of {self.table}"
        if self.rows is None:
            return cell.told(f"is looked up: {place}")
        own, width = float(trace.matrices[self.rows][cell.i, cell.j]), step.array.shape[-1]
        root = math.sqrt(width)
        sign = equals(cell.value, [(own, root)]) if root.is_integer() else "≈"
        return cell.told(f"{sign} {factor(own)}·√{width} ({place})", ((own, root),))


class Wave(Rule):
    """sin(p·ωᵢ) or cos(p·ωᵢ), ωᵢ = base^(−2i/width)."""

    base: float
    halves: bool

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        width, j = step.array.shape[-1], cell.j
        half = (width + 1) // 2
        name, i = ("sin", j) if j < half else ("cos", j - half)
        if not self.halves:
            name, i = ("sin", "cos")[j % 2], j // 2
        angle = cell.i * self.base ** (-2 * i / width)
        line = f"{name}({cell.i} / {self.base:g}^({2 * i}/{width})) ≈ {name}({figure(angle)})"
        return cell.told(f"≈ {line}", (angle,))


class Summed(Rule):
    """Steps added up; `words` stand in place of their names."""

    of: tuple[StepName, ...]
    words: str = ""

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        arrays = [in_head(numbers_of(trace, name), cell.h) for name in self.of]
        numbers = [float(array[cell.i, cell.j]) for array in arrays]
        sign = equals(cell.value, [(number,) for number in numbers])
        words = self.words or " + ".join(self.of)
        return cell.told(f"{sign} {plus(numbers)} ({words})", numbers)


class Product(Rule):
    """left · weight + bias, as in the formulas: the weight is (in, out), or (heads, in, out).

    The bias is a row, (1, out) or (heads, 1, out).
    """

    left: StepName
    weight: MatrixName
    bias: MatrixName | None = None

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        _, h, i, j = cell
        left = in_head(numbers_of(trace, self.left), h)[i]
        right = in_head(trace.matrices[self.weight], h)[:, j]
        bias = None if self.bias is None else in_head(trace.matrices[self.bias], h)[0, j]
        return dot(cell.value, left, right, None if bias is None else float(bias))


class Linear(Rule):
    """left · weightᵀ + bias, as PyTorch keeps them: (out, in), or (heads, out, in) for slices.

    A step with heads has its columns one head after the other in the rows of the weight; of
    slices, each head sees its part of the left.
    """

    left: StepName
    weight: MatrixName
    bias: MatrixName | None = None

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        weight = trace.matrices[self.weight]
        at = cell.h * step.array.shape[-1] + cell.j  # among the columns of all heads
        right = weight.reshape(-1, weight.shape[-1])[at]
        left = in_head(trace.steps[self.left].array, cell.h)[cell.i]
        if weight.ndim == 3 and not trace.steps[self.left].has_heads:
            left = left[cell.h * len(right) : (cell.h + 1) * len(right)]
        bias = None if self.bias is None else float(trace.matrices[self.bias].reshape(-1)[at])
        return dot(cell.value, left, right, bias)


class LayerNormed(Rule):
    """(x − mean) / √(variance + ε) · γ + β; `terms` are x, mean, variance, ε, γ and β."""

    of: StepName
    weight: MatrixName | None
    bias: MatrixName | None
    eps: float

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        weight, bias = (
            None if name is None else float(trace.matrices[name][cell.j])
            for name in (self.weight, self.bias)
        )
        row = trace.steps[self.of].array[cell.i]
        x, middle, spread = float(row[cell.j]), float(row.mean()), float(row.var())
        line = f"({figure(x)} − {factor(middle)}) / √({figure(spread)} + {_small(self.eps)})"
        line += "" if weight is None else f"·{factor(weight)}"
        line += "" if bias is None else f" + {factor(bias)}"
        terms = (x, middle, spread, self.eps, 1.0 if weight is None else weight, bias or 0.0)
        return cell.told(f"≈ {line}", terms)


class RmsNormed(Rule):
    """x / √(mean(x²) + ε) · γ; `terms` are x, mean(x²), ε and γ."""

    of: StepName
    weight: MatrixName
    eps: float

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        row, weight = trace.steps[self.of].array[cell.i], trace.matrices[self.weight]
        x, square, own = float(row[cell.j]), float(np.square(row).mean()), float(weight[cell.j])
        line = f"≈ {figure(x)} / √({figure(square)} + {_small(self.eps)})·{factor(own)}"
        return cell.told(line, (x, square, self.eps, own))


def _small(eps: float) -> str:
    return f"{eps:g}".replace("-", "−")


class Activated(Rule):
    """A function of each number, which is x times a share of it; `terms` are what is multiplied."""

    of: StepName
    function: str

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        x = float(trace.steps[self.of].array[cell.i, cell.j])
        if self.function == "relu":
            return cell.told(f"= max(0, {figure(x)})", (max(0.0, x),))
        if self.function == "tanh":
            return cell.told(f"≈ tanh({figure(x)})", (math.tanh(x),))
        words, share_of = _SHARES[self.function]
        own, share = factor(x), share_of(x)
        return cell.told(f"≈ {own}·{words.format(figure(x))} ≈ {own}·{figure(share)}", (x, share))


def _sigmoid(x: float) -> float:
    small = math.exp(-abs(x))  # so that nothing overflows
    return 1.0 / (1.0 + small) if x >= 0 else small / (1.0 + small)


_SHARES: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "gelu": ("Φ({})", lambda x: 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))),
    "gelu_tanh": (
        "½(1 + tanh(√(2/π)(x + 0.044715 x³)))",
        lambda x: 0.5 * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "silu": ("σ({})", _sigmoid),
}


class Gated(Rule):
    """silu(gate) · hidden."""

    gate: StepName
    hidden: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        gate, hidden = (
            float(trace.steps[name].array[cell.i, cell.j]) for name in (self.gate, self.hidden)
        )
        share = _sigmoid(gate)
        line = f"{factor(gate)}·σ({figure(gate)})·{factor(hidden)}"
        line += f" ≈ {factor(gate)}·{figure(share)}·{factor(hidden)} (gate·σ(gate)·hidden)"
        return cell.told(f"≈ {line}", (gate, share, hidden))


class Mean(Rule):
    """The mean over all tokens."""

    of: StepName

    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        numbers: list[float] = trace.steps[self.of].array[:, cell.j].tolist()
        count = len(numbers)
        sign = equals(cell.value * count, [(number,) for number in numbers])
        line = f"{sign} ({plus(numbers)}) / {count} (the mean of {self.of} over all tokens)"
        return cell.told(line, [(number, 1.0 / count) for number in numbers])
