"""A trace of attention as JSON, without loss, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from regard._steps import STEPS, Axis, AxisName, Step
from regard.reference import Array

if TYPE_CHECKING:
    from regard._trace.attention import Trace

Made = TypeVar("Made")

_FORMAT, _VERSION = "regard.trace", 1
_FLAT = ("W_O", "b_O", "Y")  # matrices that are not one a head


def write_json(trace: Trace) -> str:
    """What `Trace.to_json` gives."""
    steps = {
        name: {
            "symbol": step.symbol,
            "formula": step.formula,
            "meaning": step.meaning,
            "axes": [{"name": axis.name, "labels": list(axis.labels)} for axis in step.axes],
            "array": as_plain(step.array),
            "parts": {part: as_plain(array) for part, array in step.parts.items()},
        }
        for name, step in trace.steps.items()
    }
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "title": trace.title,
        "note": trace.note,
        "tokens": list(trace.tokens),
        "causal": trace.causal,
        "divisor": trace.divisor,
        "matrices": {name: as_plain(array) for name, array in trace.matrices.items()},
        "steps": steps,
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)


def read_json(text: str, kind: type[Trace]) -> Trace:
    """What `Trace.from_json` gives."""
    return read_content(
        "Trace", text, _FORMAT, _VERSION, lambda content: _from_content(content, kind)
    )


def read_content(
    name: str, text: str, form: str, version: int, make: Callable[[dict[str, Any]], Made]
) -> Made:
    """What `make` makes of a JSON object of this format. Raises ValueError on anything else."""
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{name}.from_json(): not JSON: {error}.") from error
    if not isinstance(content, dict) or content.get("format") != form:
        raise ValueError(f"{name}.from_json(): expected a JSON object of format {form!r}.")
    if content.get("version") != version:
        raise ValueError(
            f"{name}.from_json(): this is version {content.get('version')!r} of the format; "
            f"only version {version} is known here."
        )
    try:
        return make(content)
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(
            f"{name}.from_json(): damaged: {type(error).__name__}: {error}."
        ) from error


def _from_content(content: dict[str, Any], kind: type[Trace]) -> Trace:
    steps: dict[str, Step] = {}
    for name, entry in expect(dict, content["steps"]).items():
        if name not in STEPS:
            raise ValueError(f"unknown step {name!r}")
        axes = tuple(as_axis(axis) for axis in expect(list, entry["axes"]))
        array, parts = as_array(entry["array"]), _arrays(entry["parts"])
        shape = tuple(len(axis.labels) for axis in axes)
        if any(numbers.shape != shape for numbers in (array, *parts.values())):
            raise ValueError(f"the array of {name!r} does not fit its labels")
        by_head = name not in ("input", "concatenated", "output")
        if [axis.name == "head" for axis in axes] != [True] * by_head + [False, False]:
            raise ValueError(f"{name!r} does not have the axes that it should have")
        steps[name] = Step(name, axes, array, expect(str, entry["formula"]), parts)
    divisor, matrices = content["divisor"], _arrays(content["matrices"])
    if divisor is not None and not 0 < expect(float, divisor) < math.inf:
        raise ValueError(f"the divisor is {divisor}")
    if any(m.ndim != (2 if name in _FLAT else 3) for name, m in matrices.items()):
        raise ValueError("a matrix does not have the axes that it should have")
    loaded = kind(
        title=expect(str, content["title"]),
        tokens=as_strings(content["tokens"]),
        steps=steps,
        matrices=matrices,
        divisor=divisor,
        causal=expect(bool, content["causal"]),
        note=expect(str, content["note"]),
    )
    # Steps that do not fit together cannot explain their last cells.
    for name, step in steps.items():
        for head in range(len(step.axes[0].labels) if step.has_heads else 1):
            loaded.explain(name, -1, -1, head)
    return loaded


def as_plain(array: Array) -> Any:
    """Nested lists; JSON has no infinities and no NaN, so they are written as words."""
    if np.isfinite(array).all():
        return array.tolist()
    if array.ndim:
        return [as_plain(part) for part in array]
    return float(array) if np.isfinite(array) else str(float(array))


def as_array(nested: Any) -> Array:
    """What `as_plain` wrote: numbers, and words for what is no finite number."""

    def number(x: Any) -> Any:
        if isinstance(x, list):
            return [number(item) for item in x]
        return float(x) if x in ("nan", "inf", "-inf") else expect(float, x)

    array = np.array(nested)
    if array.dtype.kind not in "fi":
        return np.array(number(nested), dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a number is too large, or not written as JSON has it")
    return array.astype(np.float64)


def _arrays(named: Any) -> dict[str, Array]:
    return {name: as_array(nested) for name, nested in expect(dict, named).items()}


def as_axis(axis: Any) -> Axis:
    if axis["name"] not in get_args(AxisName):
        raise ValueError(f"unknown axis {axis['name']!r}")
    return Axis(axis["name"], as_strings(axis["labels"]))


def as_strings(labels: Any) -> tuple[str, ...]:
    return tuple(expect(str, label) for label in expect(list, labels))


def expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}; got {type(value).__name__}")
    return value
