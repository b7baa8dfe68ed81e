"""`Flow`: a pass from its input to its output, and all that its picture is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._arithmetic import Explanation
from regard._flow.changes import Change, read_changes
from regard._flow.outline import outline_of, sizes
from regard._flow.pictures import Picture, picture_of
from regard._rules.rule import Cell, Step, in_head
from regard.reference import Array

if TYPE_CHECKING:
    from regard._trace import Trace
    from regard.ask import Prediction


class Flow(ABC):
    """One pass as bands of stages: what `<regard-flow>` asks, asked from Python.

    `outline` says which stages there are; each is a step of a trace, by its name there. `cells` are
    its numbers, `picture` the same in at most 64 × 64 blocks, and `explain` how one came about.
    `predictions` are the likeliest tokens, and `changed` is the pass with something changed.

    >>> from regard import trace
    >>> made = trace("I love apple phones").flow()
    >>> made
    <Flow of I love apple phones: 1 band, 14 stages>
    >>> made.cells("weights", 0, (0, 1), (0, 4)).shape
    (1, 4)
    >>> made.changed([{"kind": "causal", "on": True}]).explain("scaled", 0, 0, 1)
    '−∞: masked, as “love” comes after “I” and may not be seen'
    """

    title: str = ""
    note: str = ""
    model: str = ""
    kind = "model"
    possible: tuple[str, ...] = ()  # kinds of changes that it can make
    predicts = False
    lacks = ""
    changes: tuple[Change, ...] = ()

    @property
    @abstractmethod
    def steps(self) -> Mapping[str, Step]:
        """The steps by name; their numbers may be computed when they are looked up."""

    @property
    @abstractmethod
    def matrices(self) -> Mapping[str, Array]:
        """What steps were made with, by name."""

    @property
    @abstractmethod
    def sketch(self) -> Mapping[str, Step]:
        """The steps in the order of the pass, for their names, words, labels and rules."""

    @property
    @abstractmethod
    def sequences(self) -> Mapping[str, tuple[str, ...]]:
        """The tokens of each sequence."""

    @property
    def chosen(self) -> str:
        """The band that a page holds whole; the first, if that is empty."""
        return ""

    # ── what the element asks ─────────────────────────────────────────────────────────────────

    @cached_property
    def outline(self) -> dict[str, Any]:
        """What there is, as docs/flow.md describes it: plain data."""
        return self._outlined()

    def _outlined(self) -> dict[str, Any]:
        found = outline_of(self.sketch, self.sequences)
        for stage in found["stages"].values():
            stage["held"] = "whole"
        about = {"title": self.title, "note": self.note, "model": self.model, "kind": self.kind}
        chosen = self.chosen or found["bands"][0]["id"]
        more = {"changes": list(self.possible), "chosen": chosen, "lacks": self.lacks}
        return {**about, **found, **more, "predictions": self.predicts}

    def picture(self, stage: str, head: int = 0) -> Picture:
        """The whole stage in at most 64 × 64 blocks."""
        array = self._matrix(stage, head)
        return picture_of(array, weights=self.outline["stages"][stage]["part"] == "weights")

    def cells(
        self, stage: str, head: int, rows: tuple[int, int], columns: tuple[int, int]
    ) -> NDArray[np.float64]:
        """A rectangle of exact numbers: rows and columns from the first up to before the last."""
        about = self._stage(stage)
        for what, (first, end) in (("rows", rows), ("columns", columns)):
            if not 0 <= first <= end <= about[what]:
                raise ValueError(
                    f"cells(): {what} of {stage} must be from 0 to {about[what]}; got "
                    f"{first} to {end}."
                )
        return self._span(stage, head, *rows)[:, slice(*columns)]

    def explain(self, stage: str, head: int, row: int, column: int) -> Explanation:
        """How a cell came about, as `Trace.explain` says it."""
        about = self._stage(stage)
        for what, place in (("rows", row), ("columns", column)):
            if not 0 <= place < about[what]:
                last = about[what] - 1
                raise ValueError(f"explain(): {what} of {stage} are from 0 to {last}; got {place}.")
        value = float(self._span(stage, head, row, row + 1)[0, column])
        cell = Cell(value, head, row, column)
        for change in self.changes:
            here = about["attention"] == change.attention and head == change.head
            if change.kind == "head" and here and about["part"] == "head_output":
                return cell.told("is what is left: this head is cut out")
            place = change.stage, change.head, change.row, change.column
            here = place == (stage, head, row, column) and value != -np.inf  # as it is cut since
            if change.kind in ("score", "number") and here:
                return cell.told("is set by hand")
        if stage not in self.sketch:
            return cell.told("is given")
        step = self.steps[stage]
        return step.rule.explain(self, step, cell._replace(h=self._own_head(stage, head)))

    def predictions(self, position: int, top: int = 5) -> list[Prediction] | None:
        """The likeliest tokens after a position; None if the pass predicts none."""
        return None

    def changed(self, changes: Sequence[Any]) -> Flow:
        """The first pass with these changes, and no others; without any it is that pass again."""
        found = read_changes(changes)
        for change in found:
            if change.kind not in self.possible:
                can = ", ".join(self.possible) or "none"
                raise ValueError(
                    f"changed(): the changes that this pass can make are: {can}; got "
                    f"{change.kind!r}."
                )
        return self._with(found)

    @abstractmethod
    def _with(self, changes: list[Change]) -> Flow:
        """The first pass with changes that are of possible kinds."""

    def steps_of(self, attention: str | int = 0, head: int = 0) -> Trace:
        """One head of an attention of a model, step by step, each with the model's own numbers:
        what comes in, Q, K, V, scores, weights, output, all heads joined, and what goes out.

        `attention` is its name in the outline, or counts from 0, as `head` does. Of a model without
        a counterpart in `regard.nn` there are the steps from Q, K and V to the head's output.

        >>> from regard import flow
        >>> from regard.nn import LanguageModel, LanguageModelConfig
        >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3))
        >>> list(flow([1, 10, 2], model=model).steps_of(0, 2).steps)[:4]
        ['input', 'query', 'key', 'value']
        """
        from regard._flow.heads import head_steps

        return head_steps(self, attention, head)

    # ── numbers ───────────────────────────────────────────────────────────────────────────────

    def _stage(self, stage: str) -> dict[str, Any]:
        found = self.outline["stages"].get(stage)
        if found is None:
            raise ValueError(
                f"This flow has no stage {stage[:80]!r}; outline['stages'] names them."
            )
        return found

    def _matrix(self, stage: str, head: int) -> Array:
        """The numbers of one head of a stage; `head` counts the heads of that stage."""
        heads = self._stage(stage)["heads"]
        if not 0 <= head < heads:
            raise ValueError(f"The heads of {stage} are from 0 to {heads - 1}; got {head}.")
        if stage not in self.sketch:
            return in_head(self.matrices[stage], head)
        return in_head(self.steps[stage].array, self._own_head(stage, head))

    def _own_head(self, stage: str, head: int) -> int:
        """The head of a step itself: one of its key heads may serve several."""
        own, heads = sizes(self.sketch[stage])[0], self._stage(stage)["heads"]
        return head * own // heads if own < heads else head

    def _span(self, stage: str, head: int, first: int, end: int) -> Array:
        """The same, some rows of it."""
        return self._matrix(stage, head)[first:end]

    # ── views ─────────────────────────────────────────────────────────────────────────────────

    def html(self, path: str | Path, limit: int | None = None) -> None:
        """Write one HTML file that shows the pass. It needs no network.

        It holds every stage in blocks and one band whole; `limit` is about how many bytes it may
        have, 24,000,000 unless another is given. The page says what it lacks.
        """
        from regard._files import write_text
        from regard.view.html.flow import LIMIT, flow_page

        write_text(path, flow_page(self, limit or LIMIT))

    def figure(
        self, path: str | Path, *, width: float = 7.0, dpi: float = 300, dark: bool = False
    ) -> None:
        """Write a still of the whole pass: SVG, PDF or PNG, by the ending of `path`."""
        from regard.view.figure import flow_figure

        flow_figure(self, path, width, dpi, dark)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from regard.view.html.flow import flow_frame

        return flow_frame(self)

    def __repr__(self) -> str:
        bands, stages = (len(self.outline[name]) for name in ("bands", "stages"))
        what = " ".join((self.title or self.model or self.kind).split())[:60]
        several = "" if bands == 1 else "s"
        return f"<Flow of {what}: {bands} band{several}, {stages} stages>"
