"""One attention of a model as a trace of ten steps, which every view can show."""

from __future__ import annotations

import numpy as np

from regard._steps import NO_W_O, Axis, Step
from regard._trace.attention import Trace
from regard._trace.model import ModelStep, ModelTrace
from regard._trace.rules import Copied, Product
from regard._trace.rules_attention import Scaled, Turned
from regard.reference import Array

_MATRICES = {"query": "Q", "key": "K", "value": "V"}


def ten_steps(trace: ModelTrace, name: str) -> Trace:
    """What `ModelTrace.attention` gives."""
    begin = f"{name}." if name else ""
    found = {
        each.removeprefix(begin): step
        for each, step in trace.steps.items()
        if each.startswith(begin) and "." not in each.removeprefix(begin)
    }
    heads = found["weights"].axes[0]
    n_heads = len(heads.labels)
    matrices: dict[str, Array] = {}
    steps = {"input": _input(found["input"])}
    for each, symbol in _MATRICES.items():
        made = found[each]
        turned = found.get(f"turned_{each}")
        this = made if turned is None else turned
        parts, formula = {}, made.formula
        if turned is not None:
            parts = _turned(trace, turned, made, n_heads)
            formula = f"{symbol} = x·cos − y·sin, pair by pair"
        else:
            matrices |= _matrices(trace, made, symbol, n_heads)
        axes = (heads, *made.axes[-2:])
        steps[each] = Step(each, axes, _repeated(this.array, n_heads), formula, parts)
    if "context" in found:
        matrices["Y"] = found["context"].array
    for each in ("scores", "scaled", "weights", "head_output", "concatenated"):
        made = found[each]
        bias = {"bias": found["bias"].array} if each == "scaled" and "bias" in found else {}
        steps[each] = Step(each, made.axes, made.array, _plain(made), bias)
    if "output" in found:
        made = found["output"]
        rule = made.rule
        assert isinstance(rule, Product)
        matrices["W_O"] = _float(trace, rule.weight).T
        if rule.bias is not None:
            matrices["b_O"] = _float(trace, rule.bias)[None]
        steps["output"] = Step("output", made.axes, made.array, made.formula)
    else:
        made = found["concatenated"]
        columns = Axis("dimension", tuple(f"o{i + 1}" for i in range(made.array.shape[1])))
        steps["output"] = Step("output", (made.axes[0], columns), made.array, NO_W_O)
    scaled = found["scaled"].rule
    assert isinstance(scaled, Scaled)
    return Trace(
        title=trace.title or name,
        tokens=found["input"].axes[0].labels,
        steps=steps,
        matrices=matrices,
        divisor=scaled.divisor,
        causal=scaled.causal,
        note=f"{name or 'Attention'} in a pass of the {trace.model}. {trace.note}",
    )


def _input(made: ModelStep) -> Step:
    formula = f"X = {made.rule.of}" if isinstance(made.rule, Copied) else "X, given"
    return Step("input", made.axes, made.array, formula, {"embeddings": made.array})


def _plain(made: ModelStep) -> str:
    """The formula, in which query and key have no primes: they stand there as they are used."""
    return made.formula.replace("S = Q′ K′ᵀ", "S = Q Kᵀ")


def _repeated(array: Array, heads: int) -> Array:
    """Key heads that serve several query heads, once for each."""
    return np.repeat(array, heads // len(array), axis=0)


def _float(trace: ModelTrace, name: str) -> Array:
    return trace.matrices[name].astype(np.float64)


def _matrices(trace: ModelTrace, made: ModelStep, symbol: str, heads: int) -> dict[str, Array]:
    """The matrix of each head as in the formula, (heads, in, out), its bias, and what it is of."""
    rule = made.rule
    assert isinstance(rule, Product)
    own, width = len(made.array), made.array.shape[-1]
    weight, left = _float(trace, rule.weight), trace.steps[rule.left]
    matrix = weight.reshape(own, width, weight.shape[-1]).swapaxes(1, 2)
    found: dict[str, Array] = {}
    if left.has_heads:  # the low-rank value
        found["X V_down"] = _repeated(left.array, heads)
        found["V_up"] = _repeated(matrix, heads)
    else:
        if weight.ndim == 3:  # each head sees its part of X: the rest is multiplied by 0
            part = weight.shape[-1]
            whole = np.zeros((own, own * part, width))
            for h in range(own):
                whole[h, h * part : (h + 1) * part] = matrix[h]
            matrix = whole
        found[f"W_{symbol}"] = _repeated(matrix, heads)
    if rule.bias is not None:
        bias = _float(trace, rule.bias).reshape(own, 1, width)
        found[f"b_{symbol}"] = _repeated(bias, heads)
    return found


def _turned(trace: ModelTrace, turned: ModelStep, made: ModelStep, heads: int) -> dict[str, Array]:
    """What each number was turned with: x·cosine + partner·sine."""
    rule = turned.rule
    assert isinstance(rule, Turned)
    x = _repeated(made.array, heads)
    cosine, sine, partner = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    width = trace.matrices[rule.cosine].shape[-1]
    cosine[..., :width], sine[..., :width] = (
        trace.matrices[name] for name in (rule.cosine, rule.sine)
    )
    for j in range(width):
        other = (j + width // 2) % width if rule.halves else j ^ 1
        partner[..., j] = x[..., other]
    return {"straight": x, "cosine": cosine, "partner": partner, "sine": sine}
