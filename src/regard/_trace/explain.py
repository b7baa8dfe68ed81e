"""How one cell of a trace of attention came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard._arithmetic import Explanation, added, dot, figure
from regard._steps import STEPS, TURNED, find_label, is_other_step
from regard._trace import cells

if TYPE_CHECKING:
    from regard._trace.attention import Trace


def explain_cell(
    trace: Trace, step: str, row: str | int, column: str | int, head: str | int
) -> Explanation:
    """What `Trace.explain` says."""
    if step not in trace.steps:
        raise KeyError(
            f"explain(): this trace has no step {step!r}. It has: {', '.join(trace.steps)}."
        )
    this = trace.steps[step]
    i, j = (
        find_label(label, axis) for label, axis in zip((row, column), this.axes[-2:], strict=True)
    )
    h = find_label(head, this.axes[0]) if this.has_heads else 0
    value = float(this.array[h, i, j] if this.has_heads else this.array[i, j])
    return _EXPLAINERS[step](trace, step, value, h, i, j)


def _input(trace: Trace, step: str, value: float, h: int, i: int, j: int) -> Explanation:
    parts = trace.steps[step].parts
    if "positions" not in parts:
        formula = trace.steps[step].formula
        whose = "the embedding, with no position"
        if is_other_step(formula):
            whose = formula.removeprefix("X = ")
        return Explanation(f"{figure(value)} is given: {whose}", value)
    numbers = [float(parts[name][i, j]) for name in ("embeddings", "positions")]
    return added(value, numbers, "embedding + position")


def _projection(trace: Trace, step: str, value: float, h: int, i: int, j: int) -> Explanation:
    parts, symbol = trace.steps[step].parts, STEPS[step].symbol
    if "cosine" in parts:
        return cells.turned(value, *(float(parts[name][h, i, j]) for name in TURNED))
    if step == "value" and "V_up" in trace.matrices:
        left, matrix = trace.matrices["X V_down"][h], trace.matrices["V_up"]
    elif f"W_{symbol}" in trace.matrices and "input" in trace.steps:
        # In cross-attention keys and values are made from the other sequence.
        other = None if step == "query" else trace.matrices.get("Y")
        left = trace.steps["input"].array if other is None else other
        matrix = trace.matrices[f"W_{symbol}"]
    else:
        return Explanation(f"{figure(value)} is given", value)
    bias = trace.matrices.get(f"b_{symbol}")
    return dot(value, left[i], matrix[h][:, j], None if bias is None else float(bias[h, 0, j]))


def _score(trace: Trace, step: str, value: float, h: int, i: int, j: int) -> Explanation:
    return dot(value, trace.steps["query"].array[h, i], trace.steps["key"].array[h, j])


def _scaled(trace: Trace, step: str, value: float, h: int, i: int, j: int) -> Explanation:
    this = trace.steps[step]
    if np.isneginf(value):
        rows, columns = (axis.labels for axis in this.axes[-2:])
        return cells.masked(rows, columns, i, j, trace.causal)
    score, divisor = float(trace.steps["scores"].array[h, i, j]), trace.divisor or 1.0
    bias = float(this.parts["bias"][h, i, j]) if "bias" in this.parts else None
    return cells.scaled(value, score, divisor, bias, this.formula.startswith("S′ = S,"))


def _weight(trace: Trace, step: str, value: float, h: int, i: int, j: int) -> Explanation:
    if "scaled" not in trace.steps:
        return Explanation(f"{figure(value)} is given", value)
    return cells.softmax(value, trace.steps["scaled"].array[h, i], j)


def _head_output(trace: Trace, step: str, value: float, h: int, i: int, j: int) -> Explanation:
    if h >= len(trace.steps["weights"].array):
        return Explanation(f"{figure(value)} is given: this head is known by its result", value)
    return dot(value, trace.steps["weights"].array[h, i], trace.steps["value"].array[h, :, j])


def _concatenated(trace: Trace, step: str, value: float, h: int, i: int, j: int) -> Explanation:
    label = trace.steps[step].axes[-1].labels[j]
    return Explanation(f"{figure(value)} is carried over: {label}", value)


def _output(trace: Trace, step: str, value: float, h: int, i: int, j: int) -> Explanation:
    concatenated = trace.steps["concatenated"].array[i]
    if "W_O" not in trace.matrices:
        return Explanation(f"{figure(value)} is carried over: there is no W_O here", value)
    bias = trace.matrices.get("b_O")
    return dot(
        value,
        concatenated,
        trace.matrices["W_O"][:, j],
        None if bias is None else float(bias[0, j]),
    )


_EXPLAINERS = {
    "input": _input,
    "query": _projection,
    "key": _projection,
    "value": _projection,
    "scores": _score,
    "scaled": _scaled,
    "weights": _weight,
    "head_output": _head_output,
    "concatenated": _concatenated,
    "output": _output,
}
