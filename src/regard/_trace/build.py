"""The steps of a trace, computed from wherever an example starts, with a label for every place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from regard import reference
from regard._arithmetic import figure
from regard._steps import NO_W_O, STEPS, Axis, Step
from regard._trace.projections import Positions, Projections
from regard.reference import Array


class Built(NamedTuple):
    """What a trace holds of its calculation."""

    tokens: tuple[str, ...]
    steps: dict[str, Step]
    matrices: dict[str, Array]
    divisor: float | None


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused in words
def build_steps(
    *,
    tokens: Sequence[str],
    key_tokens: Sequence[str] | None,
    embeddings: ArrayLike | None,
    projections: Projections | None,
    query: ArrayLike | None,
    key: ArrayLike | None,
    value: ArrayLike | None,
    weights: ArrayLike | None,
    positions: Positions,
    causal: bool,
    scale: bool | float,
) -> Built:
    """What `Trace.build` makes a trace of."""
    maker = _Maker(tuple(tokens), tuple(tokens if key_tokens is None else key_tokens))
    divisor = None
    matrices: dict[str, Array] = {}
    n_heads = 1
    if (embeddings is None) != (projections is None):
        raise ValueError("trace(): embeddings and projections need each other.")
    if embeddings is not None and projections is not None:
        x = maker.add_input(as_matrix(embeddings, "embeddings"), positions)
        n_heads = len(projections.w_q)
        if projections.w_q.shape[1] != x.shape[1]:
            raise ValueError(
                f"trace(): X is {x.shape[0]}×{x.shape[1]} and W_Q "
                f"{projections.w_q.shape[1]}×{projections.w_q.shape[2]}: the width of X must "
                "equal the height of W_Q."
            )
        matrices = {"W_Q": projections.w_q, "W_K": projections.w_k, "W_V": projections.w_v}
        q, k, v = (x @ w for w in matrices.values())
        a = None
    else:
        q, k, v, a = (
            None if given is None else as_matrix(given, name)[None]
            for name, given in (
                ("query", query),
                ("key", key),
                ("value", value),
                ("weights", weights),
            )
        )
    maker.name_heads(n_heads, projections)
    given = "" if projections is not None else "{}, given"
    if q is not None:
        maker.add("query", q, "token", formula=given.format("Q"))
    if k is not None:
        maker.add("key", k, "key token", formula=given.format("K"))
    if v is not None:
        maker.add("value", v, "key token", formula=given.format("V"))
    outputs = None
    if q is not None and k is not None:
        divisor = _divisor(scale, k.shape[-1])
        stand_in = np.zeros((*k.shape[:-1], 0))
        step = reference.attention(
            q, k, stand_in if v is None else v, causal=causal, scale=1.0 / divisor
        )
        a, outputs = step.weights, step.output
        maker.add("scores", step.scores, "token", "key token")
        # Divided, not multiplied by a reciprocal: 6 / √4 is 3 to the last bit.
        scaled = np.where(step.allowed, step.scores / divisor, -np.inf)
        formula = "S′ = S / √d_k"
        if scale is False:
            formula = "S′ = S, not scaled"
        elif divisor != math.sqrt(k.shape[-1]):
            formula = f"S′ = S / {figure(divisor)}"
        if causal:
            formula += ", −∞ where the key comes later"
        maker.add("scaled", scaled, "token", "key token", formula=formula)
    elif causal:
        raise ValueError("trace(): there are no scores here that `causal` could mask.")
    if a is not None:
        formula = "A, given" if q is None else STEPS["weights"].formula
        maker.add("weights", a, "token", "key token", formula=formula)
        if v is not None:
            matrices |= maker.add_outputs(a @ v if outputs is None else outputs, projections)
    if not maker.steps:
        raise ValueError(
            "trace(): there is nothing to trace. Give embeddings and projections, or query "
            "and key, or weights and value."
        )
    return Built(maker.tokens, maker.steps, matrices, divisor)


class _Maker:
    """Collects the steps of a trace and labels their axes."""

    def __init__(self, tokens: tuple[str, ...], key_tokens: tuple[str, ...]) -> None:
        self.tokens, self.key_tokens = tokens, key_tokens
        self.steps: dict[str, Step] = {}
        self.heads: tuple[str, ...] = ("head 1",)
        self.all_heads = self.heads

    def name_heads(self, n_heads: int, projections: Projections | None) -> None:
        given = None if projections is None else projections.given_heads
        self.heads = tuple(f"head {h + 1}" for h in range(n_heads))
        further = range(n_heads, n_heads + (0 if given is None else len(given)))
        self.all_heads = self.heads + tuple(f"head {h + 1}, given" for h in further)

    def add_input(self, embeddings: Array, positions: Positions) -> Array:
        parts = {"embeddings": embeddings}
        formula = "X = embeddings (no positions added)"
        x = embeddings
        if positions == "sinusoidal":
            parts["positions"] = reference.sinusoidal(*embeddings.shape)
            x = embeddings + parts["positions"]
            formula = STEPS["input"].formula
        elif positions != "none":
            raise ValueError(
                f"trace(): positions must be 'none' or 'sinusoidal'; got {positions!r}."
            )
        if len(x) != len(self.tokens):
            raise ValueError(f"trace(): {len(x)} rows of X, but {len(self.tokens)} tokens.")
        axes = (Axis("token", self.tokens), Axis("dimension", _dimensions("x", x.shape[1])))
        self.steps["input"] = Step("input", axes, x, formula, parts)
        return x

    def add(self, name: str, array: Array, rows: str, columns: str = "", formula: str = "") -> None:
        labels = {"token": self.tokens, "key token": self.key_tokens}
        row_axis = Axis("token" if rows == "token" else "key token", labels[rows])
        if columns:
            column_axis = Axis("key token", labels[columns])
        else:
            letter = STEPS[name].dimension
            column_axis = Axis("dimension", _dimensions(letter, array.shape[-1]))
        heads = self.all_heads if name == "head_output" else self.heads
        axes = (Axis("head", heads), row_axis, column_axis)
        if array.shape != tuple(len(axis.labels) for axis in axes):
            raise ValueError(
                f"trace(): {name} must be {len(row_axis.labels)}×{len(column_axis.labels)}, a row "
                f"for each of {', '.join(row_axis.labels)}; "
                f"got {array.shape[-2]}×{array.shape[-1]}."
            )
        if name != "scaled":  # −∞ where it is masked
            _refuse_overflow(name, array)
        self.steps[name] = Step(name, axes, array, formula or STEPS[name].formula)

    def add_outputs(self, outputs: Array, projections: Projections | None) -> dict[str, Array]:
        if projections is not None and projections.given_heads is not None:
            (_, n, width), given = outputs.shape, projections.given_heads.shape
            if given[1:] != (n, width):
                raise ValueError(
                    f"trace(): given_heads must be {n}×{width} each, like the computed ones; "
                    f"got {given[1]}×{given[2]}."
                )
            outputs = np.concatenate([outputs, projections.given_heads])
        self.add("head_output", outputs, "token")
        if projections is None:
            return {}
        concatenated = np.concatenate(list(outputs), axis=-1)
        labels = tuple(
            f"{head.removesuffix(', given')} {dimension}"
            for head in self.all_heads
            for dimension in _dimensions("z", outputs.shape[-1])
        )
        token_axis = Axis("token", self.tokens)
        self.steps["concatenated"] = Step(
            "concatenated",
            (token_axis, Axis("dimension", labels)),
            concatenated,
            STEPS["concatenated"].formula,
        )
        mix, formula = projections.w_o, STEPS["output"].formula
        if mix is None:
            output, formula = concatenated, NO_W_O
        elif mix.ndim != 2 or len(mix) != concatenated.shape[1]:
            raise ValueError(
                f"trace(): W_O must have {concatenated.shape[1]} rows, one for each column of the "
                f"concatenated heads; got shape {mix.shape}."
            )
        else:
            output = concatenated @ mix
            _refuse_overflow("output", output)
        self.steps["output"] = Step(
            "output",
            (token_axis, Axis("dimension", _dimensions("o", output.shape[1]))),
            output,
            formula,
        )
        return {} if mix is None else {"W_O": mix}


def _divisor(scale: bool | float, width: int) -> float:
    """What the scores are divided by: √d_k, 1, or what a factor of a model's own comes to."""
    if isinstance(scale, bool):
        return math.sqrt(width) if scale else 1.0
    if not 0 < scale < math.inf:
        raise ValueError(f"trace(): scale must be a number above 0; got {scale!r}.")
    usual = math.sqrt(width)
    return usual if math.isclose(scale * usual, 1.0, rel_tol=1e-12) else 1.0 / scale


def _dimensions(letter: str, width: int) -> tuple[str, ...]:
    return tuple(f"{letter}{i + 1}" for i in range(width))


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
