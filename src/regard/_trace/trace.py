"""Trace: every step of one pass, of attention or of a whole model, and how each cell came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from regard._arithmetic import Explanation
from regard._files import write_text
from regard._rules.attention import Scaled
from regard._rules.rule import Cell
from regard._steps import Step, find_label
from regard._trace.inputs import Positions, Projections
from regard.reference import Array
from regard.text import counted

if TYPE_CHECKING:
    from regard._flow import Flow

_MOST_NAMES = 12  # that an error lists


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The named steps of one pass, in the order in which they came, each with its rule.

    Of attention alone (a sentence, matrices) there are ten steps; `steps["weights"].array` is
    (H, N, N), and all up to the head output have the head axis first. A trace that starts later
    (from a query and a key, or from given weights) has fewer.

    Of a model of `regard.nn` (`model` says which) a step's name is that of its module in the model,
    and its own: `layers.0.attention.weights`. `attention` gives one attention of it as ten steps.

    `matrices` are what steps were made with, of a model the parameters by their names in it;
    `sequences` the tokens of each sequence. `print(trace)` lists the steps.

    >>> import torch
    >>> from regard import trace
    >>> from regard.nn import SelfAttention
    >>> layer = SelfAttention(2)
    >>> for matrix in (layer.w_q, layer.w_k, layer.w_v):
    ...     _ = torch.nn.init.eye_(matrix.weight)
    >>> example = trace([[1.0, 0.5], [0.0, 1.0]], model=layer, tokens=["a", "b"])
    >>> example.explain("scores", "a", "b")
    '0.5 = 1.0·0.0 + 0.5·1.0'
    >>> print(example)
    SelfAttention: 2 tokens, 9 steps
      input         2 × 2  X, given
      query         2 × 2  Q = X W_Q
      key           2 × 2  K = X W_K
      value         2 × 2  V = X W_V
      scores        2 × 2  S = Q Kᵀ
      scaled        2 × 2  S′ = S / √dₖ
      weights       2 × 2  A = softmax(S′), row by row
      head_output   2 × 2  Z = A V
      concatenated  2 × 2  C = [Z₁ … Zₕ]
    Numbers: .steps["input"].array; how one came about: .explain("input", row, column)
    """

    title: str
    sequences: Mapping[str, tuple[str, ...]]
    steps: Mapping[str, Step]
    matrices: Mapping[str, Array]
    note: str = ""
    model: str = ""

    @property
    def tokens(self) -> tuple[str, ...]:
        """Those of the first sequence."""
        return next(iter(self.sequences.values()))

    @property
    def divisor(self) -> float | None:
        """What the scores of the first attention were divided by; None where there are none."""
        return None if (rule := self._scaled) is None else rule.divisor

    @property
    def causal(self) -> bool:
        """Does no query of the first attention see a key that comes later?"""
        return (rule := self._scaled) is not None and rule.causal

    @property
    def _scaled(self) -> Scaled | None:
        rules = (step.rule for step in self.steps.values())
        return next((rule for rule in rules if isinstance(rule, Scaled)), None)

    # ── how a cell came about ────────────────────────────────────────────────────────────────

    def explain(
        self, step: str, row: str | int, column: str | int, head: str | int = 0
    ) -> Explanation:
        """The calculation behind one cell, such as `1.65 = 1.0·1.2 + 1.1·0.5 + (−0.1) (bias)`.

        `row` and `column` are labels ("love", "q2"), counted from 1 if they are digits in a string,
        or indices as in Python. A token that occurs more than once is named "the#2".
        `≈` stands in place of `=` where the figures shown are rounded.
        """
        this = self.step(step)
        i, j = (
            find_label(label, axis)
            for label, axis in zip((row, column), this.axes[-2:], strict=True)
        )
        h = find_label(head, this.axes[0]) if this.has_heads else 0
        value = float(this.array[h, i, j] if this.has_heads else this.array[i, j])
        return this.rule.explain(self, this, Cell(value, h, i, j))

    def step(self, name: str) -> Step:
        """The step of that name. Raises KeyError, with names that are like it, if there is none."""
        if name in self.steps:
            return self.steps[name]
        last = name.rpartition(".")[2]
        alike = [other for other in self.steps if last in other.split(".")] or list(self.steps)
        more = ", …" if len(alike) > _MOST_NAMES else ""
        raise KeyError(
            f"explain(): this trace has no step {name!r}. It has: "
            f"{', '.join(alike[:_MOST_NAMES])}{more}."
        )

    # ── its attentions ───────────────────────────────────────────────────────────────────────

    @property
    def attentions(self) -> tuple[str, ...]:
        """The names of the attentions, in order; "" is a model that is itself one."""
        ends = [name for name in self.steps if name.rpartition(".")[2] == "weights"]
        return tuple(name.rpartition(".")[0] for name in ends)

    def attention(self, name: str | int = 0) -> Trace:
        """One attention as a trace of ten steps, by its name or its number among `attentions`.

        Its query and key are what the scores were made from: turned, if the model turns them. Key
        heads that serve several query heads stand there once for each.
        """
        found = self.attentions if self.model else ("",)
        if isinstance(name, str):
            if name not in found:
                raise KeyError(
                    f"attention(): there is no attention {name!r}. "
                    f"There are: {', '.join(map(repr, found)) or 'none'}."
                )
        elif not -len(found) <= name < len(found):
            raise IndexError(f"attention(): there are {len(found)} attentions, from 0; got {name}.")
        if not self.model:
            return self
        from regard._trace.attention_view import attention_view

        return attention_view(self, name if isinstance(name, str) else found[name])

    # ── views ────────────────────────────────────────────────────────────────────────────────

    def html(self, path: str | Path, attention: str | int = 0) -> None:
        """Write one HTML file that shows every step, and how each number of it came about.

        It needs no network and holds every number without loss. Of a model it shows one attention.

        >>> import tempfile
        >>> from regard import trace
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace("I love apple phones").html(Path(folder, "steps.html"))
        ...     Path(folder, "steps.html").read_text(encoding="utf-8")[:15]
        '<!doctype html>'
        """
        from regard.view.html.trace import trace_page

        write_text(path, trace_page(self.attention(attention)))

    def figure(
        self,
        path: str | Path,
        view: str = "weights",
        *,
        attention: str | int = 0,
        width: float = 7.0,
        dpi: float = 300,
        dark: bool = False,
    ) -> None:
        """Write a figure for print: SVG, PDF or PNG, by the ending of `path`.

        `view` is a step by its name, symbol or number, or "all". Heads stand side by side, and
        numbers in the cells where they fit. `width` is in inches, 3.3 for a column and 7.0 for a
        page; `dpi` is of a PNG. Of a model it shows one attention.

        >>> import tempfile
        >>> from regard import trace
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace("I love apple phones").figure(Path(folder, "weights.svg"), width=3.3)
        ...     "phones" in Path(folder, "weights.svg").read_text(encoding="utf-8")
        True
        """
        from regard.view.figure import trace_figure

        trace_figure(self.attention(attention), path, view, width, dpi, dark)

    def flow(self) -> Flow:
        """The whole pass in one picture: `.html(path)`, `.figure(path)`, and what they show."""
        from regard._flow.given import TraceFlow

        return TraceFlow(self)

    def _repr_html_(self) -> str | None:
        """What a notebook shows; of a model, which may be large, the line of `repr`."""
        if self.model:
            return None
        from regard.view.html.page import frame
        from regard.view.html.trace import trace_page

        return frame(trace_page(self))

    # ── JSON, without loss ───────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """The whole trace as JSON; `Trace.from_json` gives it back bit for bit."""
        from regard._trace.codec import write_json

        return write_json(self)

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """The trace that `to_json` wrote. Raises ValueError on anything else."""
        from regard._trace.codec import read_json

        return read_json(text)

    def save(self, path: str | Path) -> None:
        """Write `to_json()` to a file."""
        write_text(path, self.to_json() + "\n")

    # ── what there is ────────────────────────────────────────────────────────────────────────

    def __str__(self) -> str:
        shapes = {
            name: " × ".join(map(str, step.array.shape[step.has_heads and len(step.array) == 1 :]))
            for name, step in self.steps.items()
        }
        wide, long = (max(map(len, each), default=0) for each in (shapes, shapes.values()))
        lines = [
            f"  {name:{wide}}  {shapes[name]:>{long}}  {step.formula}"
            for name, step in self.steps.items()
        ]
        first = next(iter(self.steps), "")
        how = f'Numbers: .steps["{first}"].array; how one came about: '
        return "\n".join([self._headline(), *lines, f'{how}.explain("{first}", row, column)'])

    def __repr__(self) -> str:
        return f"<Trace of {self._headline()}>"

    def _headline(self) -> str:
        counts = [
            counted(len(tokens), "token" if len(self.sequences) == 1 else f"{name} token")
            for name, tokens in self.sequences.items()
        ]
        counts.append(f"{len(self.steps):,} steps")
        return f"{self.model or 'attention'}: {', '.join(counts)}"

    # ── making one ───────────────────────────────────────────────────────────────────────────

    @classmethod
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
        """A trace of attention from wherever the example starts.

        From `embeddings` and `projections` there are ten steps; from `query` and `key` those from
        the scores on (and the output, if there is a `value`); from `weights` and `value` the last.
        All given arrays are 2-D, (N, width), and finite. `scale` is a factor of the scores if it is
        a number, as some models have one of their own.
        """
        from regard._trace.build import build_steps

        sequences = {"input": tuple(tokens)}
        if key_tokens is not None:
            sequences["context"] = tuple(key_tokens)
        given = {"query": query, "key": key, "value": value, "weights": weights}
        steps, matrices = build_steps(
            sequences, embeddings, projections, given, positions, causal, scale
        )
        return cls(title, sequences, steps, matrices, note)
