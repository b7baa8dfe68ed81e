"""The flow of attention alone: a trace that is whole, and what is changed of it, computed anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from regard._flow.changes import Change, within
from regard._flow.flow import Flow
from regard._flow.outline import ALONE
from regard._rules.attention import Scaled
from regard._rules.general import Given, Product
from regard._rules.rule import Step
from regard._trace import Projections, Trace
from regard._trace.build import attended
from regard.reference import Array

_MATRICES = ("W_Q", "W_K", "W_V", "W_O")


class TraceFlow(Flow):
    """The flow of a trace. Attention alone can be changed; of a model, only what was traced is
    known, and its own flow (`regard.flow`) can be changed.
    """

    def __init__(
        self, trace: Trace, origin: Trace | None = None, changes: tuple[Change, ...] = ()
    ) -> None:
        self.trace, self.changes = trace, changes
        self._origin = trace if origin is None else origin
        self.title, self.note, self.model = trace.title, trace.note, trace.model
        if not trace.model:
            self.kind = "attention"
            self.possible = _possible(self._origin)

    @property
    def steps(self) -> Mapping[str, Step]:
        return self.trace.steps

    @property
    def matrices(self) -> Mapping[str, Array]:
        return self.trace.matrices

    @property
    def sketch(self) -> Mapping[str, Step]:
        return self.trace.steps

    @property
    def sequences(self) -> Mapping[str, tuple[str, ...]]:
        return self.trace.sequences

    def _outlined(self) -> dict[str, Any]:
        """Given matrices are stages, too, which stand beside what they make."""
        found = super()._outlined()
        if self.trace.model:
            return found
        if "word" in self.possible:
            found["vocabulary"] = vocabulary(self._origin)
            found["words"] = {"input": list(range(len(self.trace.tokens)))}
        stages = found["stages"]
        for name, stage in list(stages.items()):
            rule = self.steps[name].rule
            stage["editable"] = isinstance(rule, Given)
            if isinstance(rule, Product):
                for matrix in filter(None, (rule.weight, rule.bias)):
                    stages[matrix] = self._matrix_stage(matrix, name)
                    stage["from"].append(matrix)
        return found

    def _matrix_stage(self, name: str, of: str) -> dict[str, Any]:
        array, step = self.matrices[name], self.steps[of]
        left = self.steps[of].rule
        assert isinstance(left, Product)
        before = self.steps.get(left.left)
        rows = [f"{n + 1}" for n in range(array.shape[-2])]
        if before is not None and array.shape[-2] == len(before.axes[-1].labels):
            rows = list(before.axes[-1].labels)
        return {
            "title": name,
            "symbol": name,
            "formula": f"{name}, given",
            "meaning": f"What makes {step.symbol} of what stands before it.",
            "part": "matrix",
            "attention": ALONE,
            "heads": len(array) if array.ndim == 3 else 1,
            "rows": array.shape[-2],
            "columns": array.shape[-1],
            "row_labels": rows,
            "column_labels": list(step.axes[-1].labels),
            "from": [],
            "held": "whole",
            "editable": True,
        }

    def _with(self, changes: list[Change]) -> TraceFlow:
        origin = self._origin
        if not changes:
            return TraceFlow(origin)
        return TraceFlow(_changed(origin, changes), origin, tuple(changes))


def _possible(trace: Trace) -> tuple[str, ...]:
    """What of attention alone can be changed, by where it starts."""
    found = ["number"] if any(isinstance(step.rule, Given) for step in trace.steps.values()) else []
    if len(vocabulary(trace)) > 1:
        found.append("word")
    if "scores" in trace.steps:
        found += ["score", "cut", "scale", "causal"]
    if "weights" in trace.steps and "concatenated" in trace.steps:
        found.append("head")
    return tuple(found)


def vocabulary(trace: Trace) -> list[str]:
    """The words that a trace has a row of X for; none if it does not start from one X."""
    starts = "W_Q" in trace.matrices and list(trace.sequences) == ["input"]
    return list(dict.fromkeys(trace.tokens)) if starts else []


def _changed(trace: Trace, changes: list[Change]) -> Trace:
    """The steps once more, from the given numbers on, as the changes have them."""
    given = _Given(trace)
    for change in changes:
        if change.kind == "word":
            given.swap(change)
    for change in changes:
        if change.kind == "number":
            given.put(change)
    scaled = trace.steps["scaled"].rule if "scaled" in trace.steps else None
    scale: bool | float = True
    causal = trace.causal
    if isinstance(scaled, Scaled):
        usual = np.isclose(scaled.divisor, np.sqrt(trace.steps["key"].array.shape[-1]))
        scale = False if scaled.plain else True if usual else 1.0 / scaled.divisor
    for change in changes:
        if change.kind == "scale":
            scale = bool(change.on)
        elif change.kind == "causal":
            causal = bool(change.on)
    new = Trace.build(**given.arguments(), causal=causal, scale=scale)
    new = replace(new, title=trace.title, note=trace.note)
    later = [change for change in changes if change.kind in ("score", "cut", "head")]
    return _from_scores(new, later) if later else new


class _Given:
    """The numbers that a trace starts from, which may be changed; those of others follow."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._arrays = {
            name: step.array.copy()
            for name, step in trace.steps.items()
            if isinstance(step.rule, Given)
        }
        self._arrays |= {
            name: x.copy() for name, x in trace.matrices.items() if name != "positions"
        }
        if "embeddings" not in self._arrays and "input" in self._arrays:
            self._arrays["embeddings"] = self._arrays["input"]  # the same, without positions
        self._tokens = list(trace.tokens)

    def swap(self, change: Change) -> None:
        """Put another word of the example into a place: its row of X is the other's."""
        position = within(change, "position", change.position, len(self._tokens))
        known, name = vocabulary(self._trace), str(change.text)
        if name not in known:
            raise ValueError(
                f"changed(): another word must be one that this example has numbers for: "
                f"{', '.join(known)}; got {name!r}."
            )
        first = "embeddings" if "embeddings" in self._trace.matrices else "input"
        numbers = self._trace.matrices.get(first)
        numbers = self._trace.steps[first].array if numbers is None else numbers
        self._arrays["embeddings"][position] = numbers[self._trace.tokens.index(name)]
        self._tokens[position] = name

    def put(self, change: Change) -> None:
        name = "embeddings" if change.stage == "input" else str(change.stage)
        array = self._arrays.get(name)
        if array is None or (change.stage == "input" and "positions" in self._trace.matrices):
            raise ValueError(
                f"changed(): the stage of a change of kind 'number' must be given, as X or W_Q "
                f"are; got {change.stage!r}, which is computed."
            )
        matrices = array if array.ndim == 3 else array[None]
        h = within(change, "head", change.head, len(matrices))
        i = within(change, "row", change.row, matrices.shape[1])
        j = within(change, "column", change.column, matrices.shape[2])
        matrices[h, i, j] = change.value

    def arguments(self) -> dict[str, Any]:
        trace, arrays = self._trace, self._arrays
        found: dict[str, Any] = {"tokens": self._tokens}
        found["key_tokens"] = trace.sequences.get("context")
        if "W_Q" not in arrays:
            for name in ("query", "key", "value", "weights"):
                found[name] = arrays[name][0] if name in arrays else None
            return found
        further = None
        if "head_output" in trace.steps:
            own, all_heads = len(arrays["W_Q"]), trace.steps["head_output"].array
            further = all_heads[own:] if len(all_heads) > own else None
        matrices = [arrays.get(name) for name in _MATRICES]
        w_q, w_k, w_v, w_o = matrices
        assert w_q is not None
        assert w_k is not None
        assert w_v is not None
        found["embeddings"] = arrays["embeddings"]
        found["projections"] = Projections(w_q, w_k, w_v, w_o, further)
        found["positions"] = "sinusoidal" if "positions" in trace.matrices else "none"
        return found


def _from_scores(trace: Trace, changes: list[Change]) -> Trace:
    """A trace whose scaled scores, links or heads are changed; what follows is computed anew."""
    steps = dict(trace.steps)
    scores, scaled = (steps[name].array.copy() for name in ("scores", "scaled"))
    cut: set[int] = set()
    # A score before its scaling first: one after it is set whatever came before.
    for change in sorted(changes, key=lambda each: each.stage != "scores"):
        if change.kind == "head":
            heads = len(steps["head_output"].array)
            cut.add(within(change, "head", change.head, heads))
            continue
        if change.kind == "score" and change.stage not in ("scores", "scaled"):
            raise ValueError(
                f"changed(): the stage of a change of kind 'score' must be 'scores' or 'scaled'; "
                f"got {change.stage!r}."
            )
        i = within(change, "row", change.row, scaled.shape[1])
        j = within(change, "column", change.column, scaled.shape[2])
        every = change.kind == "cut" and change.head is None
        h = slice(None) if every else within(change, "head", change.head, len(scaled))
        if change.stage == "scores":
            scores[h, i, j] = change.value
            masked = np.isneginf(scaled[h, i, j])
            scaled[h, i, j] = -np.inf if masked else scores[h, i, j] / (trace.divisor or 1.0)
        else:
            scaled[h, i, j] = -np.inf if change.kind == "cut" else change.value
    q, k = (steps[name].array for name in ("query", "key"))
    v = steps["value"].array if "value" in steps else np.zeros((*k.shape[:-1], 0))
    allowed = ~np.isneginf(scaled)
    before = np.where(allowed, trace.steps["scaled"].array, 0.0)
    # A score that was masked before and is set now is as far from what it would be without a mask.
    plain = steps["scores"].array / (trace.divisor or 1.0)
    added = np.where(allowed, scaled - np.where(np.isneginf(before), plain, before), 0.0)
    made = attended(q, k, v, trace.divisor or 1.0, added, mask=allowed)
    steps["scores"] = replace(steps["scores"], array=scores)
    steps["scaled"] = replace(steps["scaled"], array=scaled)
    steps["weights"] = replace(steps["weights"], array=made.weights)
    if "head_output" in steps:
        outputs = steps["head_output"].array.copy()
        outputs[: len(made.output)] = made.output
        outputs[sorted(cut)] = 0.0
        steps["head_output"] = replace(steps["head_output"], array=outputs)
        if "concatenated" in steps:
            joined = np.concatenate(list(outputs), axis=-1)
            steps["concatenated"] = replace(steps["concatenated"], array=joined)
            mixed = joined @ trace.matrices["W_O"] if "W_O" in trace.matrices else joined
            steps["output"] = replace(steps["output"], array=mixed)
    return replace(trace, steps=steps)
