"""The steps of the heads of a layer in a page: their words, and which parts hold numbers."""

from __future__ import annotations

import json
from collections.abc import Container
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from regard._flow.flow import Flow
from regard._flow.heads import TooMany, attentions_of, head_steps
from regard._flow.outline import sizes
from regard._rules.general import Linear

_NONE = np.zeros(0)
_MADE = ("query", "key", "value", "output")
_HELD = ("step", "matrix", "weight", "bias")  # what may hold numbers


def heads_of_band(
    flow: Flow, stages: list[str], steps: Container[str], matrices: Container[str]
) -> dict[str, Any]:
    """Of each attention of a band: a trace of its first head without numbers, and where the page
    has those of any head: in its `steps` and `matrices`. None of an attention that lacks some.
    """
    found: dict[str, Any] = {}
    for attention, begin in attentions_of(flow).items():
        if f"{begin}weights" not in stages:
            continue
        with suppress(TooMany):
            trace = head_steps(flow, attention, 0)
            known = _numbers(flow, begin)
            numbers = {name: known[name] for name in trace.steps}
            for name, matrix in trace.matrices.items():
                numbers[name] = {**known[name], "several": matrix.ndim == 3}
            used = [
                (kind, each[kind]) for each in numbers.values() for kind in _HELD if kind in each
            ]
            if all(name in (steps if kind == "step" else matrices) for kind, name in used):
                empty = {name: replace(step, array=_NONE) for name, step in trace.steps.items()}
                words = json.loads(replace(trace, steps=empty, matrices={}).to_json())
                found[attention] = {"trace": words, "numbers": numbers}
    return found


def _numbers(flow: Flow, begin: str) -> dict[str, dict[str, Any]]:
    """What holds each step and each matrix of a head: a step of the page; a matrix as it is; or
    some rows of a weight or of a bias, which hold those of every head.
    """
    found: dict[str, dict[str, Any]] = {}
    sketch = flow.sketch
    for name in ("input", "scores", "scaled", "weights", "head_output", "concatenated"):
        found[name] = {"step": begin + name}
    heads = sizes(sketch[f"{begin}weights"])[0]
    for name in _MADE:
        made = sketch.get(begin + name)
        if made is None or not isinstance(made.rule, Linear):
            found[name] = {"step": begin + ("concatenated" if name == "output" else name)}
            continue
        turned = begin + f"turned_{name}"
        found[name] = {"step": turned if turned in sketch else begin + name}
        symbol = made.symbol
        if turned in sketch:
            found[f"{symbol} before it is turned"] = {"step": begin + name}
            found |= {each: {"matrix": begin + each} for each in ("cosine", "sine")}
        rule, own = made.rule, sizes(made)[0]
        left = sketch[rule.left]
        rows = {"own": own, "heads": heads, "width": sizes(made)[2]}
        by = "V_up" if left.has_heads else f"W_{symbol}"
        if left.has_heads:
            found["X V_down"] = {"step": rule.left}
        elif rule.left == f"{begin}context":
            found["Y"] = {"step": rule.left}
        sliced = flow.matrices[rule.weight].ndim == 3 and not left.has_heads
        found[by] = {"weight": rule.weight, "sliced": sliced, **rows}
        if rule.bias is not None:
            found[f"b_{symbol}"] = {"bias": rule.bias, **rows}
    if f"{begin}bias" in sketch:
        found["B"] = {"step": f"{begin}bias"}
    return found
