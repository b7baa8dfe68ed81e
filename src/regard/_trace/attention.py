"""Trace: every step of one pass of attention, named, and how each cell of it came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy.typing import ArrayLike

from regard._arithmetic import Explanation
from regard._files import write_text
from regard._steps import Step
from regard._trace.as_json import read_json, write_json
from regard._trace.build import build_steps
from regard._trace.explain import explain_cell
from regard._trace.projections import Positions, Projections
from regard.reference import Array


@dataclass(frozen=True, eq=False)
class Trace:
    """The named steps of one pass of attention, in order.

    `steps["weights"].array` is (H, N, N); all steps up to the head output have the head axis first.
    A trace that starts later (from a query and a key, or from given weights) has fewer steps.

    >>> import numpy as np
    >>> from regard import trace
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
        return explain_cell(self, step, row, column, head)

    # ── JSON, without loss ───────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """The whole trace as JSON; `Trace.from_json` gives it back bit for bit."""
        return write_json(self)

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """The trace that `to_json` wrote. Raises ValueError on anything else."""
        return read_json(text, cls)

    def save(self, path: str | Path) -> None:
        """Write `to_json()` to a file."""
        write_text(path, self.to_json() + "\n")

    def html(self, path: str | Path) -> None:
        """Write one HTML file that shows every step, and how each number of it came about.

        It needs no network and holds every number without loss.

        >>> import tempfile
        >>> from regard import trace
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
        >>> from regard import trace
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
        built = build_steps(
            tokens=tokens,
            key_tokens=key_tokens,
            embeddings=embeddings,
            projections=projections,
            query=query,
            key=key,
            value=value,
            weights=weights,
            positions=positions,
            causal=causal,
            scale=scale,
        )
        return cls(title, *built, causal, note)
