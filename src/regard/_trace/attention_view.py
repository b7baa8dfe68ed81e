"""One attention of a model as a trace of ten steps, which every view can show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard._rules.attention import Scaled, Turned
from regard._rules.general import Copied, Given, Linear, Product
from regard._rules.rule import Rule
from regard._steps import STEPS, Step, dimensions
from regard._trace.build import PLAIN_INPUT, UNMIXED
from regard._trace.trace import Trace
from regard.reference import Array


def attention_view(trace: Trace, name: str) -> Trace:
    """What `Trace.attention` gives: heads as in the formulas, each with matrices of its own.

    Key heads stand there once for each query head; a matrix is (heads, in, out), 0 where a head
    does not see that part of X; what was turned has what it was turned from beside it.
    """
    begin = f"{name}." if name else ""
    found = {
        each.removeprefix(begin): step
        for each, step in trace.steps.items()
        if each.startswith(begin) and "." not in each.removeprefix(begin)
    }
    heads = found["weights"].axes[0]
    matrices: dict[str, Array] = {}

    def repeated(array: Array) -> Array:
        return np.repeat(array, len(heads.labels) // len(array), axis=0)

    def product(made: Step, of: str = "input") -> Rule:
        """The matrix of each head, or of all, its bias, and what it is multiplied by."""
        rule, symbol = made.rule, made.symbol
        assert isinstance(rule, Linear)
        own = len(made.array) if made.has_heads else 1
        width, left = made.array.shape[-1], trace.steps[rule.left]
        weight = trace.matrices[rule.weight].astype(np.float64)
        matrix = weight.reshape(own, width, weight.shape[-1]).swapaxes(1, 2)
        by, bias = f"W_{symbol}", None
        if left.has_heads:
            of, by = "X V_down", "V_up"
            matrices[of] = repeated(left.array)
        elif weight.ndim == 3:  # each head sees its part of X: the rest is multiplied by 0
            part = weight.shape[-1]
            whole = np.zeros((own, own * part, width))
            for h in range(own):
                whole[h, h * part : (h + 1) * part] = matrix[h]
            matrix = whole
        if left.name == begin + "context":
            of = "Y"
            matrices[of] = left.array
        matrices[by] = repeated(matrix) if made.has_heads else matrix[0]
        if rule.bias is not None:
            bias = f"b_{symbol}"
            row = trace.matrices[rule.bias].astype(np.float64).reshape(own, 1, width)
            matrices[bias] = repeated(row) if made.has_heads else row[0]
        return Product(of, by, bias)

    given = found["input"]
    kind = replace(PLAIN_INPUT, formula="X, given")
    if isinstance(given.rule, Copied):
        of, meaning = given.rule.of, "Each token is a row of numbers, as it comes into attention."
        kind = replace(kind, formula=f"X = {of}", meaning=meaning, rule=Given(of), kind="arriving")
    steps = {"input": kind.step("input", given.axes, given.array)}
    for each in ("query", "key", "value"):
        made, turned = found[each], found.get(f"turned_{each}")
        array, formula = made.array, made.formula
        if turned is None:
            rule = product(made)
        else:
            turning = turned.rule
            assert isinstance(turning, Turned)
            before = f"{made.symbol} before it is turned"
            matrices[before] = repeated(made.array)
            matrices |= {name: trace.matrices[begin + name] for name in ("cosine", "sine")}
            rule = Turned(before, "cosine", "sine", turning.halves)
            array, formula = turned.array, f"{made.symbol} = x·cos − y·sin, pair by pair"
        axes = (heads, *made.axes[-2:])
        kind = replace(STEPS[each], formula=formula, rule=rule)
        steps[each] = kind.step(each, axes, repeated(array))
    for each in ("scores", "scaled", "weights", "head_output", "concatenated"):
        steps[each] = replace(found[each], name=each, rule=STEPS[each].rule)
    # Query and key have no primes here: they stand there as they are used.
    steps["scores"] = replace(steps["scores"], formula=STEPS["scores"].formula)
    scaled = found["scaled"].rule
    assert isinstance(scaled, Scaled)
    bias = None
    if scaled.bias is not None:
        bias = "B"
        matrices[bias] = found["bias"].array
    steps["scaled"] = replace(steps["scaled"], rule=replace(scaled, scores="scores", bias=bias))
    joined = steps["concatenated"]
    axes = (joined.axes[0], dimensions("o", joined.array.shape[1]))
    steps["output"] = UNMIXED.step("output", axes, joined.array)
    if made := found.get("output"):
        rule = product(made, "concatenated")
        steps["output"] = replace(made, name="output", rule=rule)
    sequences = {"input": given.axes[0].labels}
    if "context" in found:
        sequences["context"] = found["context"].axes[0].labels
    note = f"{name or 'Attention'} in a pass of the {trace.model}. {trace.note}"
    return Trace(trace.title or name, sequences, steps, matrices, note)
