"""ModelTrace: every step of one pass of a Transformer, named, and how each cell came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regard._arithmetic import Explanation
from regard._files import write_text
from regard._steps import Step, find_label
from regard._trace.attention import Trace
from regard._trace.kinds import KINDS
from regard._trace.rule import Cell, Rule
from regard.reference import Array


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelStep(Step):
    """One named step of a model: `kind` says what it is, `rule` how it was made."""

    kind: str
    rule: Rule

    @property
    def title(self) -> str:
        return KINDS[self.kind].title

    @property
    def symbol(self) -> str:
        return KINDS[self.kind].symbol

    @property
    def meaning(self) -> str:
        return KINDS[self.kind].meaning


@dataclass(frozen=True, eq=False, repr=False)
class ModelTrace:
    """The named steps of one pass of a model of `regard.nn`, in the order in which they came.

    A step's name is that of its module in the model, and its own: `layers.0.attention.weights` is
    (H, N, N), a row for each query. `print(trace)` lists them all. `matrices` are the parameters
    by their names in the model; `sequences` the tokens of each sequence.

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
      scaled        2 × 2  S′ = S / √d_k
      weights       2 × 2  A = softmax(S′), row by row
      head_output   2 × 2  Z = A V
      concatenated  2 × 2  C = [Z₁ … Z_h]
    """

    title: str
    model: str
    sequences: Mapping[str, tuple[str, ...]]
    steps: Mapping[str, ModelStep]
    matrices: Mapping[str, Array]
    note: str = ""

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

    def step(self, name: str) -> ModelStep:
        """The step of that name. Raises KeyError, with names that are like it, if there is none."""
        if name in self.steps:
            return self.steps[name]
        last = name.rpartition(".")[2]
        alike = [other for other in self.steps if last in other.split(".")] or list(self.steps)
        more = ", …" if len(alike) > 6 else ""
        raise KeyError(
            f"explain(): this trace has no step {name!r}. It has: {', '.join(alike[:6])}{more}."
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
        from regard._trace.ten import ten_steps

        found = self.attentions
        if isinstance(name, str):
            if name not in found:
                raise KeyError(
                    f"attention(): there is no attention {name!r}. "
                    f"There are: {', '.join(map(repr, found)) or 'none'}."
                )
            return ten_steps(self, name)
        if not -len(found) <= name < len(found):
            raise IndexError(f"attention(): there are {len(found)} attentions, from 0; got {name}.")
        return ten_steps(self, found[name])

    def html(self, path: str | Path, attention: str | int = 0) -> None:
        """Write one HTML file that shows every step of one attention."""
        self.attention(attention).html(path)

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
        """Write a figure of one attention for print, as `Trace.figure` does."""
        self.attention(attention).figure(path, view, width=width, dpi=dpi, dark=dark)

    # ── JSON, without loss ───────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """The whole trace as JSON; `ModelTrace.from_json` gives it back, number by number."""
        from regard._trace.model_json import write_model_json

        return write_model_json(self)

    @classmethod
    def from_json(cls, text: str) -> ModelTrace:
        """The trace that `to_json` wrote. Raises ValueError on anything else."""
        from regard._trace.model_json import read_model_json

        return read_model_json(text)

    def save(self, path: str | Path) -> None:
        """Write `to_json()` to a file."""
        write_text(path, self.to_json() + "\n")

    # ── what there is ────────────────────────────────────────────────────────────────────────

    def __str__(self) -> str:
        shapes = {name: " × ".join(map(str, _shape(step))) for name, step in self.steps.items()}
        wide, long = (max(map(len, each), default=0) for each in (shapes, shapes.values()))
        lines = [
            f"  {name:{wide}}  {shapes[name]:>{long}}  {step.formula}"
            for name, step in self.steps.items()
        ]
        return "\n".join([self._headline(), *lines])

    def __repr__(self) -> str:
        return f"<ModelTrace of {self._headline()}>"

    def _headline(self) -> str:
        counts = [
            f"{len(tokens):,} {'' if len(self.sequences) == 1 else f'{name} '}"
            f"token{'' if len(tokens) == 1 else 's'}"
            for name, tokens in self.sequences.items()
        ]
        return f"{self.model}: {', '.join([*counts, f'{len(self.steps):,} steps'])}"


def _shape(step: Step) -> tuple[int, ...]:
    """Of its array, without the axis of a single head."""
    return step.array.shape[1:] if step.has_heads and len(step.array) == 1 else step.array.shape
