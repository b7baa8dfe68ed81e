"""Trace: every step of one pass of attention, named, and how each cell of it came about."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from regard import reference
from regard._arithmetic import Explanation, dot, elide, equals, factor, figure
from regard._files import write_text
from regard._steps import NO_W_O, STEPS, Axis, AxisName, Step, find_label
from regard.reference import Array
from regard.text import tokenize

__all__ = ["Positions", "Projections", "Trace", "trace"]

Positions = Literal["none", "sinusoidal"]
_FORMAT, _VERSION = "regard.trace", 1


@dataclass(frozen=True, eq=False)
class Projections:
    """The matrices of attention: `w_q`, `w_k` (H, d_model, d_k), `w_v` (H, d_model, d_v), `w_o`.

    Two-dimensional ones are one head. `w_o` (H·d_v, d_out) may be left out: the heads are then
    handed on side by side, unmixed. `given_heads` (G, N, d_v) are the outputs of further heads that
    are known only by their result.
    """

    w_q: Array
    w_k: Array
    w_v: Array
    w_o: Array | None = None
    given_heads: Array | None = None

    def __post_init__(self) -> None:
        for name in ("w_q", "w_k", "w_v", "w_o", "given_heads"):
            if getattr(self, name) is None:
                continue
            array = np.array(getattr(self, name), dtype=np.float64)
            if name != "w_o":
                array = array[None] if array.ndim == 2 else array
                if array.ndim != 3 or 0 in array.shape:
                    raise ValueError(
                        f"Projections(): {name} must have 2 axes, or 3 with the heads first, and "
                        f"none of them empty; got shape {array.shape}."
                    )
            if not np.isfinite(array).all():
                raise ValueError(f"Projections(): {name} must be finite; it has a NaN or an ∞.")
            object.__setattr__(self, name, array)
        q, k, v = self.w_q.shape, self.w_k.shape, self.w_v.shape
        if q != k or q[:2] != v[:2]:
            raise ValueError(
                "Projections(): w_q and w_k must be (H, d_model, d_k) and w_v (H, d_model, d_v); "
                f"got {q}, {k} and {v}."
            )


@dataclass(frozen=True, eq=False)
class Trace:
    """The named steps of one pass of attention, in order.

    `steps["weights"].array` is (H, N, N); all steps up to the head output have the head axis first.
    A trace that starts later (from a query and a key, or from given weights) has fewer steps.

    >>> unchanged = Projections(np.eye(2), np.eye(2), np.eye(2))
    >>> example = trace([[1.0, 0.0], [0.0, 1.0]], model=unchanged, tokens=["a", "b"])
    >>> example.explain("scores", "a", "b")
    '0.0 = 1.0·0.0 + 0.0·1.0'
    """

    title: str
    tokens: tuple[str, ...]
    steps: Mapping[str, Step]
    matrices: Mapping[str, Array]
    divisor: float | None  # the scores were divided by this; None where there are no scores
    causal: bool = False
    note: str = ""

    # ── how a cell came about ────────────────────────────────────────────────────────────────

    def explain(
        self, step: str, row: str | int, column: str | int, head: str | int = 0
    ) -> Explanation:
        """The calculation behind one cell, such as `1.75 = 1.0·1.2 + 1.1·0.5`.

        `row` and `column` are labels ("love", "q2"), counted from 1 if they are digits in a string,
        or indices as in Python. A token that occurs more than once is named "the#2".
        `≈` stands in place of `=` where the figures shown are rounded.
        """
        if step not in self.steps:
            raise KeyError(
                f"explain(): this trace has no step {step!r}. It has: {', '.join(self.steps)}."
            )
        this = self.steps[step]
        i, j = (
            find_label(label, axis)
            for label, axis in zip((row, column), this.axes[-2:], strict=True)
        )
        h = find_label(head, this.axes[0]) if this.has_heads else 0
        value = float(this.array[h, i, j] if this.has_heads else this.array[i, j])
        explainers = {
            "input": self._explain_input,
            "query": self._explain_projection,
            "key": self._explain_projection,
            "value": self._explain_projection,
            "scores": self._explain_score,
            "scaled": self._explain_scaled,
            "weights": self._explain_weight,
            "head_output": self._explain_head_output,
            "concatenated": self._explain_concatenated,
            "output": self._explain_output,
        }
        return explainers[step](step, value, h, i, j)

    def _explain_input(self, step: str, value: float, h: int, i: int, j: int) -> Explanation:
        parts = self.steps[step].parts
        if "positions" not in parts:
            return Explanation(f"{figure(value)} is given: the embedding, with no position", value)
        a, b = float(parts["embeddings"][i, j]), float(parts["positions"][i, j])
        sign = equals(value, [(a,), (b,)])
        line = f"{figure(value)} {sign} {figure(a)} + {factor(b)} (embedding + position)"
        return Explanation(line, value, (a, b))

    def _explain_projection(self, step: str, value: float, h: int, i: int, j: int) -> Explanation:
        matrix = self.matrices.get(f"W_{STEPS[step].symbol}")
        if matrix is None or "input" not in self.steps:
            return Explanation(f"{figure(value)} is given", value)
        return dot(value, self.steps["input"].array[i], matrix[h][:, j])

    def _explain_score(self, step: str, value: float, h: int, i: int, j: int) -> Explanation:
        return dot(value, self.steps["query"].array[h, i], self.steps["key"].array[h, j])

    def _explain_scaled(self, step: str, value: float, h: int, i: int, j: int) -> Explanation:
        if np.isneginf(value):
            rows, columns = (axis.labels for axis in self.steps[step].axes[-2:])
            return Explanation(
                f"−∞: masked, as “{columns[j]}” comes after “{rows[i]}” and may not be seen", value
            )
        score, divisor = float(self.steps["scores"].array[h, i, j]), self.divisor or 1.0
        if self.steps[step].formula.startswith("S′ = S,"):
            return Explanation(f"{figure(value)} = {figure(score)}, not scaled", value, (score,))
        # Only a root that is a whole number gives a score other than 0 an exact quotient.
        exact = divisor.is_integer() or score == 0
        sign = equals(score, [(value, divisor)]) if exact else "≈"
        root = f"√{figure(divisor**2).removesuffix('.0')}"
        return Explanation(f"{figure(value)} {sign} {figure(score)} / {root}", value, (score,))

    def _explain_weight(self, step: str, value: float, h: int, i: int, j: int) -> Explanation:
        if "scaled" not in self.steps:
            return Explanation(f"{figure(value)} is given", value)
        scaled: list[float] = self.steps["scaled"].array[h, i].tolist()
        own, allowed = scaled[j], [s for s in scaled if s != -math.inf]
        if own == -math.inf:
            return Explanation("0.0 = e^−∞ / …: masked, no attention at all", value)
        largest, remark = max(allowed), ""
        if abs(largest) > 100.0:  # e^±100 is past what a reader, and e^±710 what a float, can hold
            own, allowed = own - largest, [s - largest for s in allowed]
            remark = " (largest score taken off first)"
        exponentials = [math.exp(s) for s in allowed]
        powers = elide([f"e^{figure(s)}" for s in allowed], " + ")
        line = (
            f"{figure(value)} ≈ e^{figure(own)} / ({powers}) "
            f"≈ {figure(math.exp(own))} / {figure(sum(exponentials))}{remark}"
        )
        return Explanation(line, value, exponentials)

    def _explain_head_output(self, step: str, value: float, h: int, i: int, j: int) -> Explanation:
        if h >= len(self.steps["weights"].array):
            return Explanation(f"{figure(value)} is given: this head is known by its result", value)
        return dot(value, self.steps["weights"].array[h, i], self.steps["value"].array[h, :, j])

    def _explain_concatenated(self, step: str, value: float, h: int, i: int, j: int) -> Explanation:
        label = self.steps[step].axes[-1].labels[j]
        return Explanation(f"{figure(value)} is carried over: {label}", value)

    def _explain_output(self, step: str, value: float, h: int, i: int, j: int) -> Explanation:
        concatenated = self.steps["concatenated"].array[i]
        if "W_O" not in self.matrices:
            return Explanation(f"{figure(value)} is carried over: there is no W_O here", value)
        return dot(value, concatenated, self.matrices["W_O"][:, j])

    # ── JSON, without loss ───────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """The whole trace as JSON; `Trace.from_json` gives it back bit for bit."""
        steps = {
            name: {
                "symbol": step.symbol,
                "formula": step.formula,
                "meaning": step.meaning,
                "axes": [{"name": axis.name, "labels": list(axis.labels)} for axis in step.axes],
                "array": _plain(step.array),
                "parts": {part: _plain(array) for part, array in step.parts.items()},
            }
            for name, step in self.steps.items()
        }
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "title": self.title,
            "note": self.note,
            "tokens": list(self.tokens),
            "causal": self.causal,
            "divisor": self.divisor,
            "matrices": {name: _plain(array) for name, array in self.matrices.items()},
            "steps": steps,
        }
        return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """The trace that `to_json` wrote. Raises ValueError on anything else."""
        try:
            content = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"Trace.from_json(): not JSON: {error}.") from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ValueError(f"Trace.from_json(): expected a JSON object of format {_FORMAT!r}.")
        if content.get("version") != _VERSION:
            raise ValueError(
                f"Trace.from_json(): this is version {content.get('version')!r} of the format; "
                f"only version {_VERSION} is known here."
            )
        try:
            return cls._from_content(content)
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ValueError(
                f"Trace.from_json(): damaged: {type(error).__name__}: {error}."
            ) from error

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Trace:
        steps: dict[str, Step] = {}
        for name, entry in _expect(dict, content["steps"]).items():
            if name not in STEPS:
                raise ValueError(f"unknown step {name!r}")
            axes = tuple(_axis(axis) for axis in _expect(list, entry["axes"]))
            array, parts = _array(entry["array"]), _arrays(entry["parts"])
            shape = tuple(len(axis.labels) for axis in axes)
            if any(numbers.shape != shape for numbers in (array, *parts.values())):
                raise ValueError(f"the array of {name!r} does not fit its labels")
            by_head = name not in ("input", "concatenated", "output")
            if [axis.name == "head" for axis in axes] != [True] * by_head + [False, False]:
                raise ValueError(f"{name!r} does not have the axes that it should have")
            steps[name] = Step(name, axes, array, _expect(str, entry["formula"]), parts)
        divisor, matrices = content["divisor"], _arrays(content["matrices"])
        if divisor is not None and not 0 < _expect(float, divisor) < math.inf:
            raise ValueError(f"the divisor is {divisor}")
        if any(m.ndim != (2 if name == "W_O" else 3) for name, m in matrices.items()):
            raise ValueError("a matrix does not have the axes that it should have")
        loaded = cls(
            title=_expect(str, content["title"]),
            tokens=_strings(content["tokens"]),
            steps=steps,
            matrices=matrices,
            divisor=divisor,
            causal=_expect(bool, content["causal"]),
            note=_expect(str, content["note"]),
        )
        # Steps that do not fit together cannot explain their last cells.
        for name, step in steps.items():
            for head in range(len(step.axes[0].labels) if step.has_heads else 1):
                loaded.explain(name, -1, -1, head)
        return loaded

    def save(self, path: str | Path) -> None:
        """Write `to_json()` to a file."""
        write_text(path, self.to_json() + "\n")

    def html(self, path: str | Path) -> None:
        """Write one HTML file that shows every step, and how each number of it came about.

        It needs no network and holds every number without loss.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace("I love apple phones").html(Path(folder, "steps.html"))
        ...     Path(folder, "steps.html").read_text(encoding="utf-8")[:15]
        '<!doctype html>'
        """
        from regard.view.html.trace import trace_page

        write_text(path, trace_page(self))

    def figure(
        self,
        path: str | Path,
        view: str = "weights",
        *,
        width: float = 7.0,
        dpi: float = 300,
        dark: bool = False,
    ) -> None:
        """Write a figure for print: SVG, PDF or PNG, by the ending of `path`.

        `view` is a step by its name, symbol or number, or "all". Heads stand side by side, and
        numbers in the cells where they fit. `width` is in inches, 3.3 for a column and 7.0 for a
        page; `dpi` is of a PNG.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace("I love apple phones").figure(Path(folder, "weights.svg"), width=3.3)
        ...     "phones" in Path(folder, "weights.svg").read_text(encoding="utf-8")
        True
        """
        from regard.view.figure import trace_figure

        trace_figure(self, path, view, width=width, dpi=dpi, dark=dark)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from regard.view.html.frame import trace_frame

        return trace_frame(self)

    # ── making one ───────────────────────────────────────────────────────────────────────────

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # what overflows is refused in words
    def build(
        cls,
        *,
        tokens: Sequence[str],
        key_tokens: Sequence[str] | None = None,
        embeddings: ArrayLike | None = None,
        projections: Projections | None = None,
        query: ArrayLike | None = None,
        key: ArrayLike | None = None,
        value: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        positions: Positions = "none",
        causal: bool = False,
        scale: bool | float = True,
        title: str = "",
        note: str = "",
    ) -> Trace:
        """A trace from wherever the example starts.

        From `embeddings` and `projections` there are ten steps; from `query` and `key` those from
        the scores on (and the output, if there is a `value`); from `weights` and `value` the last.
        All given arrays are 2-D, (N, width), and finite. `scale` is a factor of the scores if it is
        a number, as some models have one of their own.
        """
        maker = _Maker(tuple(tokens), tuple(tokens if key_tokens is None else key_tokens))
        divisor = None
        matrices: dict[str, Array] = {}
        n_heads = 1
        if (embeddings is None) != (projections is None):
            raise ValueError("trace(): embeddings and projections need each other.")
        if embeddings is not None and projections is not None:
            x = maker.add_input(_matrix(embeddings, "embeddings"), positions)
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
                None if given is None else _matrix(given, name)[None]
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
        return cls(title, maker.tokens, maker.steps, matrices, divisor, causal, note)


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


def trace(
    text_or_x: str | ArrayLike,
    *,
    model: Projections | None = None,
    tokens: Sequence[str] | None = None,
    positions: Positions = "none",
    causal: bool = False,
    scale: bool = True,
    heads: int = 2,
    width: int = 4,
    seed: int = 0,
) -> Trace:
    """Every step of self-attention on a text, or on given embeddings X (N, d_model).

    `model` holds the matrices. Without it they are small random numbers of two digits, the same
    for the same `seed`; so are the embeddings of a text's words, and a word that occurs twice has
    the same embedding twice. `width` is d_model for a text; `heads` must divide it.
    `scale=False` leaves out the division by √d_k; `causal` masks what comes later.

    Cost: every step is kept, so memory grows with heads · N².

    >>> example = trace("I love apple phones")
    >>> list(example.steps)[:4], example.steps["weights"].array.shape
    (['input', 'query', 'key', 'value'], (2, 4, 4))
    """
    note = ""
    if isinstance(text_or_x, str):
        if tokens is not None:
            raise ValueError("trace(): a text has its own tokens; `tokens` are names for an X.")
        words = [token.text for token in tokenize(text_or_x)]
        if not words:
            raise ValueError("trace(): the text has no word in it.")
        tokens, title = words, text_or_x
        width = model.w_q.shape[1] if model is not None else width
        x = np.stack([_random(seed, word.encode(), (width,)) for word in words])
        note = f"The embeddings are random numbers (seed {seed}): they mean nothing yet."
    else:
        x, title = _matrix(text_or_x, "X"), ""
        tokens = [f"x{i + 1}" for i in range(len(x))] if tokens is None else tokens
    if model is None:
        model = _random_projections(x.shape[1], heads, seed)
        subject = "The embeddings and the matrices" if note else "The matrices"
        note = f"{subject} are random numbers (seed {seed}): nothing has been learned yet."
    return Trace.build(
        tokens=tokens,
        embeddings=x,
        projections=model,
        positions=positions,
        causal=causal,
        scale=scale,
        title=title,
        note=note,
    )


def _random_projections(width: int, heads: int, seed: int) -> Projections:
    if heads < 1 or width % heads:
        raise ValueError(f"trace(): {heads} heads do not divide a width of {width}.")
    shape = (heads, width, width // heads)
    # So that queries, keys and values are about as large as what they are made of.
    size = 1 / np.sqrt(width)
    w_q, w_k, w_v = (_random(seed, name, shape, size) for name in (b"W_Q", b"W_K", b"W_V"))
    return Projections(w_q, w_k, w_v, _random(seed, b"W_O", (width, width), size))


def _random(seed: int, name: bytes, shape: tuple[int, ...], size: float = 1.0) -> Array:
    return np.random.default_rng([seed, *name]).normal(scale=size, size=shape).round(2)


# ── arrays ────────────────────────────────────────────────────────────────────────────────────


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


def _matrix(array: ArrayLike, name: str) -> Array:
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


def _plain(array: Array) -> Any:
    """Nested lists; JSON has no infinities and no NaN, so they are written as words."""
    if np.isfinite(array).all():
        return array.tolist()
    if array.ndim:
        return [_plain(part) for part in array]
    return float(array) if np.isfinite(array) else str(float(array))


def _array(nested: Any) -> Array:
    """What `_plain` wrote: numbers, and words for what is no finite number."""

    def number(x: Any) -> Any:
        if isinstance(x, list):
            return [number(item) for item in x]
        return float(x) if x in ("nan", "inf", "-inf") else _expect(float, x)

    array = np.array(nested)
    if array.dtype.kind not in "fi":
        return np.array(number(nested), dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a number is too large, or not written as JSON has it")
    return array.astype(np.float64)


def _arrays(named: Any) -> dict[str, Array]:
    return {name: _array(nested) for name, nested in _expect(dict, named).items()}


def _axis(axis: Any) -> Axis:
    if axis["name"] not in get_args(AxisName):
        raise ValueError(f"unknown axis {axis['name']!r}")
    return Axis(axis["name"], _strings(axis["labels"]))


def _strings(labels: Any) -> tuple[str, ...]:
    return tuple(_expect(str, label) for label in _expect(list, labels))


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}; got {type(value).__name__}")
    return value
