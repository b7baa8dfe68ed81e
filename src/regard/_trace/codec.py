"""A trace as JSON, without loss, and back."""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np

from regard._rules.rule import Axis, AxisName, Rule, Step
from regard._steps import STEPS
from regard._trace.trace import Trace
from regard.reference import Array

_FORMAT, _VERSION = "regard.trace", 2
_MOST_NUMBERS = 20_000_000  # of a model, parameters included
_WORDS = ("title", "symbol", "formula", "meaning")  # of a step


def write_json(trace: Trace) -> str:
    """What `Trace.to_json` gives."""
    arrays = [*trace.matrices.values(), *(step.array for step in trace.steps.values())]
    count = sum(array.size for array in arrays)
    if trace.model and count > _MOST_NUMBERS:
        raise ValueError(
            f"to_json(): a trace must hold at most {_MOST_NUMBERS:,} numbers to be written; this "
            f"one holds {count:,}. trace.attention(name).to_json() writes one attention."
        )
    steps = {
        name: {
            "number": n if trace.model else list(STEPS).index(name) + 1,
            **{word: getattr(step, word) for word in _WORDS},
            "axes": [{"name": axis.name, "labels": list(axis.labels)} for axis in step.axes],
            "array": _plain(step.array),
            "rule": step.rule.to_dict(),
            **({"kind": step.kind} if step.kind else {}),
        }
        for n, (name, step) in enumerate(trace.steps.items(), 1)
    }
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "title": trace.title,
        "note": trace.note,
        "model": trace.model,
        "sequences": {name: list(tokens) for name, tokens in trace.sequences.items()},
        "matrices": {name: _plain(array) for name, array in trace.matrices.items()},
        "steps": steps,
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)


def read_json(text: str) -> Trace:
    """What `Trace.from_json` gives."""
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"Trace.from_json(): not JSON: {error}.") from error
    form = content.get("format") if isinstance(content, dict) else None
    if form not in (_FORMAT, "regard.model-trace"):
        raise ValueError(f"Trace.from_json(): expected a JSON object of format {_FORMAT!r}.")
    if form != _FORMAT or content.get("version") != _VERSION:
        raise ValueError(
            f"Trace.from_json(): this is version {content.get('version')!r} of {form}; only "
            f"version {_VERSION} of {_FORMAT} is read here. Make the trace anew, and save it again."
        )
    try:
        return _from_content(content)
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"Trace.from_json(): damaged: {type(error).__name__}: {error}.") from error


def _from_content(content: dict[str, Any]) -> Trace:
    title, note, model = (_expect(str, content[name]) for name in ("title", "note", "model"))
    matrices = {name: _array(nested) for name, nested in _expect(dict, content["matrices"]).items()}
    if not model and any(matrix.ndim not in (2, 3) for matrix in matrices.values()):
        raise ValueError("a matrix does not have the axes that it should have")
    sequences = {
        name: _strings(tokens) for name, tokens in _expect(dict, content["sequences"]).items()
    }
    steps = {
        name: _step(name, entry, is_ten=not model)
        for name, entry in _expect(dict, content["steps"]).items()
    }
    if not sequences:
        raise ValueError("there is no sequence")
    loaded = Trace(title, sequences, steps, matrices, note, model)
    # Steps that do not fit together cannot explain their last cells.
    for name, step in steps.items():
        for head in range(len(step.axes[0].labels) if step.has_heads else 1):
            loaded.explain(name, -1, -1, head)
    return loaded


def _step(name: str, entry: Any, is_ten: bool) -> Step:
    axes = tuple(
        Axis(axis["name"], _strings(axis["labels"])) for axis in _expect(list, entry["axes"])
    )
    array = _array(entry["array"])
    if array.shape != tuple(len(axis.labels) for axis in axes):
        raise ValueError(f"the array of {name!r} does not fit its labels")
    heads = [axis.name == "head" for axis in axes]
    if is_ten:
        by_head = name not in ("input", "concatenated", "output")
        fits = name in STEPS and heads == [True] * by_head + [False, False]
    else:
        fits = heads in ([True, False, False], [False, False])
    if not fits or not {axis.name for axis in axes} <= set(get_args(AxisName)):
        raise ValueError(f"{name!r} does not have the axes that it should have")
    words = {word: _expect(str, entry[word]) for word in _WORDS}
    rule, kind = Rule.from_dict(entry["rule"]), _expect(str, entry.get("kind", ""))
    return Step(name, **words, axes=axes, array=array, rule=rule, kind=kind)


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


def _strings(labels: Any) -> tuple[str, ...]:
    return tuple(_expect(str, label) for label in _expect(list, labels))


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}; got {type(value).__name__}")
    return value
