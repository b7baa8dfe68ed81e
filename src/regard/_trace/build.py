"""The steps of attention, computed from wherever an example starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard import reference
from regard._arithmetic import figure
from regard._rules.attention import Scaled
from regard._rules.general import Copied, Given
from regard._steps import STEPS, Axis, Step, StepKind, dimensions
from regard._trace.inputs import Positions, Projections, as_matrix
from regard.reference import Array

PLAIN_INPUT = replace(
    STEPS["input"],
    formula="X = embeddings (no positions added)",
    meaning="Each token is a row of numbers: what the word means.",
    rule=Given("the embedding, with no position"),
    kind="plain_input",
)
# The output where there is no W_O: the heads side by side.
UNMIXED = replace(
    STEPS["output"],
    formula="O = C (no W_O: handed on as it is)",
    meaning="Each token's vector as it leaves attention: the word in its context.",
    rule=Copied("concatenated", words="there is no W_O here"),
    kind="unmixed",
)
PLAIN = "S′ = S, not scaled"
LATER = ", −∞ where the key comes later"


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused with a message
def build_steps(
    sequences: Mapping[str, tuple[str, ...]],
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
    maker = _Maker(sequences)
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
            maker.add(name, array, _given(name) if projections is None else None)
    outputs = None
    if q is not None and k is not None:
        outputs = maker.add_weights(q, k, v, causal, scale)
    elif causal:
        raise ValueError("trace(): there are no scores here that `causal` could mask.")
    elif a is not None:
        maker.add("weights", a, _given("weights"))
        outputs = None if v is None else a @ v
    if v is not None and outputs is not None:
        maker.add_outputs(outputs, projections)
    if not maker.steps:
        raise ValueError(
            "trace(): there is nothing to trace. Give embeddings and projections, or query "
            "and key, or weights and value."
        )
    return maker.steps, maker.matrices


class _Maker:
    """Collects the steps of a trace and labels their axes."""

    def __init__(self, sequences: Mapping[str, tuple[str, ...]]) -> None:
        self.tokens = Axis("token", sequences["input"])
        self.keys = Axis("key token", sequences.get("context", sequences["input"]))
        self.steps: dict[str, Step] = {}
        self.matrices: dict[str, Array] = {}

    def add(
        self, name: str, array: Array, kind: StepKind | None = None, *, further: int = 0
    ) -> None:
        """A step; the last `further` of its heads are known by their result only."""
        kind = kind or STEPS[name]
        rows = self.keys if kind.of_keys else self.tokens
        if name == "concatenated":
            columns = joined_columns(self.steps["head_output"])
        elif kind.columns == "dimension":
            columns = dimensions(kind.symbol, array.shape[-1])
        else:
            columns = self.keys
        if array.shape[-2:] != (len(rows.labels), len(columns.labels)):
            raise ValueError(
                f"trace(): {name} must be {len(rows.labels)}×{len(columns.labels)}, a row "
                f"for each of {', '.join(rows.labels)}; got {array.shape[-2]}×{array.shape[-1]}."
            )
        if name != "scaled" and not np.isfinite(array).all():  # −∞ where it is masked
            raise ValueError(
                f"trace(): {name} overflows: the numbers given are too large to multiply."
            )
        axes = (rows, columns)
        if array.ndim == 3:
            own = len(array) - further
            heads = (f"head {h + 1}{', given' if h >= own else ''}" for h in range(len(array)))
            axes = (Axis("head", tuple(heads)), *axes)
        self.steps[name] = kind.step(name, axes, array)

    def add_input(self, embeddings: Array, positions: Positions) -> Array:
        if len(embeddings) != len(self.tokens.labels):
            raise ValueError(
                f"trace(): {len(embeddings)} rows of X, but {len(self.tokens.labels)} tokens."
            )
        if positions == "none":
            self.add("input", embeddings, PLAIN_INPUT)
        elif positions == "sinusoidal":
            added = reference.sinusoidal(*embeddings.shape)
            self.matrices |= {"embeddings": embeddings, "positions": added}
            self.add("input", embeddings + added)
        else:
            raise ValueError(
                f"trace(): positions must be 'none' or 'sinusoidal'; got {positions!r}."
            )
        return self.steps["input"].array

    def add_weights(
        self, q: Array, k: Array, v: Array | None, causal: bool, scale: bool | float
    ) -> Array:
        """Scores, scaled scores and weights; returns what they make of V."""
        plain = scale is False
        if not plain and not 0 < scale < math.inf:
            raise ValueError(f"trace(): scale must be a number above 0; got {scale!r}.")
        divisor, formula = 1.0, PLAIN
        if not plain:
            divisor, formula = division(None if scale is True else scale, k.shape[-1])
        formula += LATER if causal else ""
        values = np.zeros((*k.shape[:-1], 0)) if v is None else v
        step = attended(q, k, values, divisor, causal=causal)
        rule = Scaled("scores", divisor, causal=causal, plain=plain)
        self.add("scores", step.scores)
        self.add("scaled", step.scaled, replace(STEPS["scaled"], formula=formula, rule=rule))
        self.add("weights", step.weights)
        return step.output

    def add_outputs(self, outputs: Array, projections: Projections | None) -> None:
        further = None if projections is None else projections.given_heads
        if further is None:
            self.add("head_output", outputs)
        else:
            n, width = outputs.shape[1:]
            if further.shape[1:] != (n, width):
                raise ValueError(
                    f"trace(): given_heads must be {n}×{width} each, like the computed ones; "
                    f"got {further.shape[1]}×{further.shape[2]}."
                )
            outputs = np.concatenate([outputs, further])
            self.add("head_output", outputs, further=len(further))
        if projections is None:
            return
        joined, mix = np.concatenate(list(outputs), axis=-1), projections.w_o
        self.add("concatenated", joined)
        if mix is None:
            self.add("output", joined, UNMIXED)
            return
        if mix.ndim != 2 or len(mix) != joined.shape[1]:
            raise ValueError(
                f"trace(): W_O must have {joined.shape[1]} rows, one for each column of the "
                f"concatenated heads; got shape {mix.shape}."
            )
        self.matrices["W_O"] = mix
        self.add("output", joined @ mix)


def division(scale: float | None, width: int) -> tuple[float, str]:
    """What scores are divided by, and the formula: √dₖ, unless the scale is another."""
    usual = math.sqrt(width)
    divisor = usual if scale is None else 1.0 / scale
    if math.isclose(divisor, usual, rel_tol=1e-12):
        return usual, STEPS["scaled"].formula
    if divisor == 1.0:
        return divisor, PLAIN
    return divisor, f"S′ = S / {figure(divisor)}"


def attended(
    q: Array, k: Array, v: Array, divisor: float, bias: Array | None = None, **options: Any
) -> reference.Attention:
    """Attention by the reference, its scores divided: 6 / √4 is 3 to the last bit."""
    step = reference.attention(q, k, v, bias=bias, scale=1.0 / divisor, **options)
    scaled = step.scores / divisor + (0.0 if bias is None else bias)
    return replace(step, scaled=np.where(step.allowed, scaled, -np.inf))


def joined_columns(head_output: Step) -> Axis:
    """The columns of heads side by side: "head 1 z1"."""
    heads, _, columns = (axis.labels for axis in head_output.axes)
    return Axis(
        "dimension",
        tuple(f"{head.removesuffix(', given')} {column}" for head in heads for column in columns),
    )


def _given(name: str) -> StepKind:
    return replace(STEPS[name], formula=f"{STEPS[name].symbol}, given", rule=Given())
