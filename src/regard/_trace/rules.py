"""How steps around attention are made: looked up, added, multiplied, normed, activated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard._arithmetic import Explanation, added, dot, figure
from regard._steps import Step
from regard._trace import cells
from regard._trace.rule import Cell, Rule, row_of

if TYPE_CHECKING:
    from regard._trace.model import ModelTrace


@dataclass(frozen=True)
class Given(Rule):
    """It comes from outside."""

    words: str = ""

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        more = f": {self.words}" if self.words else ""
        return Explanation(f"{figure(cell.value)} is given{more}", cell.value)


@dataclass(frozen=True)
class Copied(Rule):
    """It is another step; with `row` one row of it."""

    of: str
    row: int = -1

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        source = trace.steps[self.of]
        i = cell.i if self.row < 0 else self.row
        row = "" if self.row < 0 else f", row {source.axes[-2].labels[i]}"
        value = float(row_of(source, cell.h, i)[cell.j])
        return Explanation(f"{figure(value)} is carried over: {self.of}{row}", value)


@dataclass(frozen=True)
class LookedUp(Rule):
    """Row `ids` of a table; times √width where `part` holds the table's own numbers."""

    table: str
    ids: str | None

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        row = cell.i if self.ids is None else int(trace.steps[self.ids].array[cell.i, 0])
        place, width = f"row {row} of {self.table}", step.array.shape[-1]
        if "table" not in step.parts:
            return cells.looked_up(cell.value, place)
        own = float(step.parts["table"][cell.i, cell.j])
        return cells.looked_up(cell.value, place, own, width)


@dataclass(frozen=True)
class FirstRow(Rule):
    """The first row of a table, for every token."""

    table: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        return cells.looked_up(cell.value, f"row 0 of {self.table}")


@dataclass(frozen=True)
class Wave(Rule):
    """sin(p·ωᵢ) or cos(p·ωᵢ), ωᵢ = base^(−2i/width)."""

    base: float
    halves: bool

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        width, j = step.array.shape[-1], cell.j
        half = (width + 1) // 2
        name, i = ("sin", j) if j < half else ("cos", j - half)
        if not self.halves:
            name, i = ("sin", "cos")[j % 2], j // 2
        return cells.wave(cell.value, name, cell.i, self.base, 2 * i, width)


@dataclass(frozen=True)
class Summed(Rule):
    """Steps added up."""

    of: tuple[str, ...]

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        numbers = [float(row_of(trace.steps[name], cell.h, cell.i)[cell.j]) for name in self.of]
        return added(cell.value, numbers, " + ".join(self.of))


@dataclass(frozen=True)
class Product(Rule):
    """left · weightᵀ + bias: the weight is (out, in), or (heads, out, in) for parts of the left.

    A step with heads has its columns one head after the other in the rows of the weight.
    """

    left: str
    weight: str
    bias: str | None

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        weight = trace.matrices[self.weight]
        bias = None if self.bias is None else trace.matrices[self.bias].reshape(-1)
        at = cell.h * step.array.shape[-1] + cell.j  # among the columns of all heads
        right = weight.reshape(-1, weight.shape[-1])[at]
        left = row_of(trace.steps[self.left], cell.h, cell.i)
        if weight.ndim == 3 and not trace.steps[self.left].has_heads:
            left = left[cell.h * len(right) : (cell.h + 1) * len(right)]
        return dot(cell.value, left, right, None if bias is None else float(bias[at]))


@dataclass(frozen=True)
class LayerNormed(Rule):
    """(x − mean) / √(variance + ε) · γ + β."""

    of: str
    weight: str | None
    bias: str | None
    eps: float

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        weight, bias = (
            None if name is None else float(trace.matrices[name][cell.j])
            for name in (self.weight, self.bias)
        )
        x = trace.steps[self.of].array[cell.i]
        return cells.layer_norm(cell.value, x, cell.j, weight, bias, self.eps)


@dataclass(frozen=True)
class RmsNormed(Rule):
    """x / √(mean(x²) + ε) · γ."""

    of: str
    weight: str
    eps: float

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        x, weight = trace.steps[self.of].array[cell.i], trace.matrices[self.weight]
        return cells.rms_norm(cell.value, x, cell.j, float(weight[cell.j]), self.eps)


@dataclass(frozen=True)
class Activated(Rule):
    """A function of each number."""

    of: str
    function: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        x = float(trace.steps[self.of].array[cell.i, cell.j])
        return cells.ACTIVATED[self.function](cell.value, x)


@dataclass(frozen=True)
class Gated(Rule):
    """silu(gate) · hidden."""

    gate: str
    hidden: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        gate, hidden = (
            trace.steps[name].array[cell.i, cell.j] for name in (self.gate, self.hidden)
        )
        return cells.gated(cell.value, float(gate), float(hidden))


@dataclass(frozen=True)
class Mean(Rule):
    """The mean over all tokens."""

    of: str

    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        numbers = trace.steps[self.of].array[:, cell.j]
        return cells.mean(cell.value, numbers, f"the mean of {self.of} over all tokens")


RULES: tuple[type[Rule], ...] = (
    Activated,
    Copied,
    FirstRow,
    Gated,
    Given,
    LayerNormed,
    LookedUp,
    Mean,
    Product,
    RmsNormed,
    Summed,
    Wave,
)
