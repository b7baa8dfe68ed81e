"""One head of an attention of a flow as a trace of its steps, which every view can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from regard._flow.outline import ALONE, sizes
from regard._rules.attention import OneJoined
from regard._rules.general import Given
from regard._rules.rule import Axis, Rule, Step
from regard._trace import Trace
from regard._trace.attention_view import attention_view
from regard.reference import Array
from regard.run.choose import index_of

if TYPE_CHECKING:
    from regard._flow.flow import Flow

_MOST_NUMBERS = 2_000_000  # of all steps and matrices together: more is no page to look at


class TooMany(ValueError):
    """The steps of a head have more numbers than can be looked at."""


def attentions_of(flow: Flow) -> dict[str, str]:
    """The attentions of a flow in their order, and how the names of their steps begin."""
    begins = [name.removesuffix("weights") for name in flow.sketch if _part(name) == "weights"]
    return {begin.removesuffix(".") or ALONE: begin for begin in begins}


def head_steps(flow: Flow, attention: str | int, head: int) -> Trace:
    """What `Flow.steps_of` gives."""
    if flow.kind == "attention":
        raise ValueError("steps_of(): a flow of attention alone has its steps in its trace.")
    begins = attentions_of(flow)
    known = list(begins)
    if isinstance(attention, int):
        said = f"There are {len(known)}."
        attention = known[index_of("steps_of()", "attention", attention, len(known), said)]
    if attention not in begins:
        few = ", ".join(known[:7]) + (", …" if len(known) > 7 else "")
        raise ValueError(
            f"steps_of(): attention must be one of this flow's, {few}; got {attention[:80]!r}."
        )
    begin = begins[attention]
    heads = sizes(flow.sketch[f"{begin}weights"])[0]
    head = index_of("steps_of()", "head", head, heads, f"{attention} has {heads} heads.")
    steps = {name: flow.steps[name] for name in flow.sketch if name.startswith(begin)}
    if f"{begin}input" in steps:
        found = Trace(flow.title, flow.sequences, steps, flow.matrices, model=flow.model)
        whole = attention_view(found, begin.removesuffix("."))
    else:
        own = {name.removeprefix(begin): _renamed(step, begin) for name, step in steps.items()}
        rows, keys = (axis.labels for axis in own["weights"].axes[-2:])
        sequences = {"input": rows} if rows == keys else {"input": rows, "context": keys}
        whole = Trace(flow.title, sequences, own, {})
    trace = _with_origin(flow, begin, one_head(whole, head, heads))
    arrays = [*trace.matrices.values(), *(step.array for step in trace.steps.values())]
    count = sum(array.size for array in arrays)
    if count > _MOST_NUMBERS:
        raise TooMany(
            f"steps_of(): the steps of a head must have at most {_MOST_NUMBERS:,} numbers, its "
            f"matrices included; got {count:,}. The flow itself shows any part of them."
        )
    lacks = "" if "output" in trace.steps else " What it is made from was not seen."
    note = f"Head {head} of {_place(flow, begin)}, counted from 0.{lacks} {flow.note}"
    return replace(trace, note=note.strip())


def _place(flow: Flow, begin: str) -> str:
    """Where an attention stands, in words: its band, and the model."""
    bands = flow.outline["bands"]
    title = next(band["title"] for band in bands if f"{begin}weights" in band["stages"])
    cross = "the cross-attention of " if f"{begin}context" in flow.sketch else ""
    return f"{cross}{_lower(title)} of {flow.model or 'the model'}"


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def _with_origin(flow: Flow, begin: str, trace: Trace) -> Trace:
    """The same, where what comes in is said to come from a layer, rather than from a module."""
    step = trace.steps.get("input")
    if step is None or not isinstance(step.rule, Given) or not step.rule.words:
        return trace
    name = step.rule.words
    layers = [band for band in flow.outline["bands"] if band["layer"] is not None]
    found = next((band for band in layers if name.startswith(f"{band['id']}.")), None)
    if found is not None:
        place = _lower(found["title"])
        own = begin.startswith(f"{found['id']}.") and ".norms." in name
        place = f"the norm of {place}" if own else place
    else:
        place = "the embeddings" if "embedding" in name else name
    words = f"it comes from {place}"
    own_step = replace(step, formula=f"X, from {place}", rule=Given(words))
    return replace(trace, steps={**trace.steps, "input": own_step})


def one_head(trace: Trace, head: int, heads: int) -> Trace:
    """An attention of so many heads, with one of them; where they are put together, all are."""
    steps: dict[str, Step] = {}
    for name, step in trace.steps.items():
        if step.has_heads:
            h = head * len(step.array) // heads if len(step.array) else 0  # a key head serves many
            axes = (Axis("head", (f"head {head}",)), *step.axes[1:])
            steps[name] = replace(step, axes=axes, array=step.array[h : h + 1])
        elif name == "concatenated" and heads > 1:
            width = len(step.axes[-1].labels) // heads
            labels = [f"head {h} z{j + 1}" for h in range(heads) for j in range(width)]
            axes = (step.axes[0], Axis("dimension", tuple(labels)))
            steps[name] = replace(step, axes=axes, rule=OneJoined("head_output", head))
        else:
            steps[name] = step
    matrices = {name: _of_head(matrix, head, heads) for name, matrix in trace.matrices.items()}
    return replace(trace, steps=steps, matrices=matrices)


def _of_head(matrix: Array, head: int, heads: int) -> Array:
    if matrix.ndim != 3:
        return matrix
    h = head * len(matrix) // heads
    return matrix[h : h + 1]


def _renamed(step: Step, begin: str) -> Step:
    """A step of a model by its own name, and what it names likewise."""
    rule: Rule = step.rule
    if not isinstance(rule, Given):
        names: Mapping[str, str] = {
            field.name: value.removeprefix(begin)
            for field in fields(rule)
            if isinstance(value := getattr(rule, field.name), str)
        }
        rule = replace(rule, **names)
    return replace(step, name=_part(step.name), rule=rule)


def _part(name: str) -> str:
    return name.rpartition(".")[2]
