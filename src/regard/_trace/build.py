"""The steps of attention, computed from wherever an example starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard import reference
from regard._arithmetic import figure
from regard._rules.attention import Scaled
from regard._rules.general import Copied, Given
from regard._rules.rule import Rule
from regard._steps import STEPS, Axis, Step, dimensions
from regard._trace.projections import Positions, Projections
from regard.reference import Array

PLAIN_INPUT = {
    "formula": "X = embeddings (no positions added)",
    "meaning": "Each token is a row of numbers: what the word means.",
}
NO_POSITION = Given("the embedding, with no position")


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused with a message
def build_steps(
    *,
    tokens: tuple[str, ...],
    key_tokens: tuple[str, ...],
    embeddings: ArrayLike | None,
    projections: Projections | None,
    given: Mapping[str, ArrayLike | None],
    positions: Positions,
    causal: bool,
    scale: bool | float,
) -> tuple[dict[str, Step], dict[str, Array]]:
    """The steps and the matrices that `Trace.build` makes a trace of."""
    if (embeddings is None) != (projections is None):
        raise ValueError("trace(): embeddings and projections need each other.")
    maker = _Maker(tokens, key_tokens, projections)
    if embeddings is not None and projections is not None:
        x = maker.add_input(as_matrix(embeddings, "embeddings"), positions)
        _, width, d_k = projections.w_q.shape
        if width != x.shape[1]:
            raise ValueError(
                f"trace(): X is {x.shape[0]}×{x.shape[1]} and W_Q {width}×{d_k}: the width of X "
                "must equal the height of W_Q."
            )
        matrices = {"W_Q": projections.w_q, "W_K": projections.w_k, "W_V": projections.w_v}
        maker.matrices |= matrices
        q, k, v = (x @ w for w in matrices.values())
        a = None
    else:
        q, k, v, a = (
            None if array is None else as_matrix(array, name)[None] for name, array in given.items()
        )
    for name, array in (("query", q), ("key", k), ("value", v)):
        if array is not None:
            maker.add(name, array, given=projections is None)
    outputs = None
    if q is not None and k is not None:
        a, outputs = maker.add_weights(q, k, v, causal, scale)
    else:
        if causal:
            raise ValueError("trace(): there are no scores here that `causal` could mask.")
        if a is not None:
            maker.add("weights", a, given=True)
    if a is not None and v is not None:
        maker.add_outputs(a @ v if outputs is None else outputs)
    if not maker.steps:
        raise ValueError(
            "trace(): there is nothing to trace. Give embeddings and projections, or query "
            "and key, or weights and value."
        )
    return maker.steps, maker.matrices


class _Maker:
    """Collects the steps of a trace and labels their axes."""

    def __init__(
        self, tokens: tuple[str, ...], key_tokens: tuple[str, ...], projections: Projections | None
    ) -> None:
        self.tokens, self.keys = Axis("token", tokens), Axis("key token", key_tokens)
        self.projections = projections
        self.steps: dict[str, Step] = {}
        self.matrices: dict[str, Array] = {}

    def add_input(self, embeddings: Array, positions: Positions) -> Array:
        options: dict[str, Any] = {"rule": NO_POSITION, **PLAIN_INPUT}
        x = embeddings
        if positions == "sinusoidal":
            added = reference.sinusoidal(*embeddings.shape)
            self.matrices |= {"embeddings": embeddings, "positions": added}
            x, options = embeddings + added, {}
        elif positions != "none":
            raise ValueError(
                f"trace(): positions must be 'none' or 'sinusoidal'; got {positions!r}."
            )
        if len(x) != len(self.tokens.labels):
            raise ValueError(f"trace(): {len(x)} rows of X, but {len(self.tokens.labels)} tokens.")
        axes = (self.tokens, dimensions("x", x.shape[1]))
        self.steps["input"] = STEPS["input"].step("input", axes, x, **options)
        return x

    def add(
        self,
        name: str,
        array: Array,
        rule: Rule | None = None,
        *,
        formula: str = "",
        given: bool = False,
        further: int = 0,
    ) -> None:
        """A step with heads; the last `further` of them are known by their result only."""
        kind = STEPS[name]
        if given:
            rule, formula = Given(), f"{kind.symbol}, given"
        heads = [f"head {h + 1}" for h in range(len(array))]
        for h in range(len(array) - further, len(array)):
            heads[h] += ", given"
        rows = self.keys if kind.of_keys else self.tokens
        columns = self.keys
        if kind.columns == "dimension":
            columns = dimensions(kind.symbol, array.shape[-1])
        if array.shape[1:] != (len(rows.labels), len(columns.labels)):
            raise ValueError(
                f"trace(): {name} must be {len(rows.labels)}×{len(columns.labels)}, a row "
                f"for each of {', '.join(rows.labels)}; got {array.shape[-2]}×{array.shape[-1]}."
            )
        if name != "scaled":  # −∞ where it is masked
            _refuse_overflow(name, array)
        axes = (Axis("head", tuple(heads)), rows, columns)
        self.steps[name] = kind.step(name, axes, array, rule=rule, formula=formula)

    def add_weights(
        self, q: Array, k: Array, v: Array | None, causal: bool, scale: bool | float
    ) -> tuple[Array, Array]:
        """Scores, scaled scores and weights; returns the weights, and what they make of V."""
        usual = math.sqrt(k.shape[-1])
        divisor, formula = usual, STEPS["scaled"].formula
        if scale is False:
            divisor, formula = 1.0, "S′ = S, not scaled"
        elif scale is not True:
            if not 0 < scale < math.inf:
                raise ValueError(f"trace(): scale must be a number above 0; got {scale!r}.")
            if not math.isclose(scale * usual, 1.0, rel_tol=1e-12):
                divisor = 1.0 / scale
            if divisor != usual:
                formula = f"S′ = S / {figure(divisor)}"
        formula += ", −∞ where the key comes later" if causal else ""
        values = np.zeros((*k.shape[:-1], 0)) if v is None else v
        step = reference.attention(q, k, values, causal=causal, scale=1.0 / divisor)
        self.add("scores", step.scores)
        # Divided, not multiplied by a reciprocal: 6 / √4 is 3 to the last bit.
        scaled = np.where(step.allowed, step.scores / divisor, -np.inf)
        rule = Scaled("scores", divisor, causal=causal, plain=scale is False)
        self.add("scaled", scaled, rule, formula=formula)
        self.add("weights", step.weights)
        return step.weights, step.output

    def add_outputs(self, outputs: Array) -> None:
        projections, further = self.projections, 0
        if projections is not None and projections.given_heads is not None:
            (_, n, width), given = outputs.shape, projections.given_heads.shape
            if given[1:] != (n, width):
                raise ValueError(
                    f"trace(): given_heads must be {n}×{width} each, like the computed ones; "
                    f"got {given[1]}×{given[2]}."
                )
            outputs, further = np.concatenate([outputs, projections.given_heads]), given[0]
        self.add("head_output", outputs, further=further)
        if projections is None:
            return
        joined = np.concatenate(list(outputs), axis=-1)
        axes = (self.tokens, joined_columns(self.steps["head_output"]))
        self.steps["concatenated"] = STEPS["concatenated"].step("concatenated", axes, joined)
        mix = projections.w_o
        if mix is None:
            self.steps["output"] = unmixed(self.steps["concatenated"])
            return
        if mix.ndim != 2 or len(mix) != joined.shape[1]:
            raise ValueError(
                f"trace(): W_O must have {joined.shape[1]} rows, one for each column of the "
                f"concatenated heads; got shape {mix.shape}."
            )
        self.matrices["W_O"] = mix
        output = joined @ mix
        _refuse_overflow("output", output)
        axes = (self.tokens, dimensions("o", output.shape[1]))
        self.steps["output"] = STEPS["output"].step("output", axes, output)


def joined_columns(head_output: Step) -> Axis:
    """The columns of heads side by side: "head 1 z1"."""
    heads, _, columns = (axis.labels for axis in head_output.axes)
    return Axis(
        "dimension",
        tuple(f"{head.removesuffix(', given')} {column}" for head in heads for column in columns),
    )


def unmixed(joined: Step) -> Step:
    """The output where there is no W_O: the heads side by side."""
    axes = (joined.axes[0], dimensions("o", joined.array.shape[1]))
    return STEPS["output"].step(
        "output",
        axes,
        joined.array,
        rule=Copied("concatenated", words="there is no W_O here"),
        formula="O = C (no W_O: handed on as it is)",
        meaning="Each token's vector as it leaves attention: the word in its context.",
    )


def as_matrix(array: ArrayLike, name: str) -> Array:
    matrix = np.array(array, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"trace(): {name} must be a matrix with rows; got shape {matrix.shape}.")
    for i, j in np.argwhere(~np.isfinite(matrix))[:1]:
        raise ValueError(
            f"trace(): {name} must be finite; row {i + 1}, column {j + 1} is "
            f"{figure(float(matrix[i, j]))}."
        )
    return matrix


def _refuse_overflow(name: str, array: Array) -> None:
    if not np.isfinite(array).all():
        raise ValueError(f"trace(): {name} overflows: the numbers given are too large to multiply.")
