"""A trace of a model as JSON, without loss, and back."""

from __future__ import annotations

import json
from typing import Any

from regard._trace.as_json import (
    as_array,
    as_axis,
    as_plain,
    as_strings,
    expect,
    read_content,
)
from regard._trace.kinds import KINDS
from regard._trace.model import ModelStep, ModelTrace
from regard._trace.rules import RULES
from regard._trace.rules_attention import ATTENTION_RULES

_FORMAT, _VERSION = "regard.model-trace", 1
_MOST_NUMBERS = 20_000_000
_KNOWN = {kind.__name__: kind for kind in (*RULES, *ATTENTION_RULES)}


def write_model_json(trace: ModelTrace) -> str:
    """What `ModelTrace.to_json` gives."""
    arrays = [*trace.matrices.values(), *(step.array for step in trace.steps.values())]
    count = sum(array.size for array in arrays)
    if count > _MOST_NUMBERS:
        raise ValueError(
            f"to_json(): a trace must hold at most {_MOST_NUMBERS:,} numbers to be written; this "
            f"one holds {count:,}. trace.attention(name).to_json() writes one attention."
        )
    steps = {
        name: {
            "kind": step.kind,
            "formula": step.formula,
            "axes": [{"name": axis.name, "labels": list(axis.labels)} for axis in step.axes],
            "array": as_plain(step.array),
            "parts": {part: as_plain(array) for part, array in step.parts.items()},
            "rule": type(step.rule).__name__,
            "made": step.rule.to_dict(),
        }
        for name, step in trace.steps.items()
    }
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "title": trace.title,
        "note": trace.note,
        "model": trace.model,
        "sequences": {name: list(tokens) for name, tokens in trace.sequences.items()},
        "matrices": {name: as_plain(array) for name, array in trace.matrices.items()},
        "steps": steps,
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)


def read_model_json(text: str) -> ModelTrace:
    """What `ModelTrace.from_json` gives."""
    return read_content("ModelTrace", text, _FORMAT, _VERSION, _from_content)


def _from_content(content: dict[str, Any]) -> ModelTrace:
    steps: dict[str, ModelStep] = {}
    for name, entry in expect(dict, content["steps"]).items():
        if entry["kind"] not in KINDS:
            raise ValueError(f"unknown kind of step {entry['kind']!r}")
        axes = tuple(as_axis(axis) for axis in expect(list, entry["axes"]))
        array = as_array(entry["array"])
        parts = {part: as_array(nested) for part, nested in expect(dict, entry["parts"]).items()}
        shape = tuple(len(axis.labels) for axis in axes)
        if any(numbers.shape != shape for numbers in (array, *parts.values())):
            raise ValueError(f"the array of {name!r} does not fit its labels")
        if [axis.name == "head" for axis in axes] not in ([True, False, False], [False, False]):
            raise ValueError(f"{name!r} does not have the axes that it should have")
        steps[name] = ModelStep(
            name,
            axes,
            array,
            expect(str, entry["formula"]),
            parts,
            kind=entry["kind"],
            rule=_KNOWN[entry["rule"]].from_dict(entry["made"]),
        )
    matrices = {
        name: as_array(nested) for name, nested in expect(dict, content["matrices"]).items()
    }
    loaded = ModelTrace(
        title=expect(str, content["title"]),
        model=expect(str, content["model"]),
        sequences={
            name: as_strings(tokens) for name, tokens in expect(dict, content["sequences"]).items()
        },
        steps=steps,
        matrices=matrices,
        note=expect(str, content["note"]),
    )
    # Steps that do not fit together cannot explain their last cells.
    for name, step in steps.items():
        for head in range(len(step.axes[0].labels) if step.has_heads else 1):
            loaded.explain(name, -1, -1, head)
    return loaded
