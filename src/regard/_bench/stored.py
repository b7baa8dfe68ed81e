"""Results as JSON, and back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from regard._bench.results import Cell, Memory, Results
from regard._bench.targets import targets

__all__ = ["from_json", "to_json"]

_FORMAT = 1


def to_json(results: Results) -> str:
    """The results as JSON. Its speeds and targets are for readers; `from_json` makes them again.

    >>> from_json(to_json(Results(date="2026-01-01"))).date
    '2026-01-01'
    """
    content: dict[str, Any] = {"format": _FORMAT, **asdict(results)}
    content["peak"] = {str(threads): peak for threads, peak in results.peak.items()}
    for cell, kept in zip(results.cells, content["cells"], strict=True):
        kept["gflops"] = {name: round(cell.gflops(name), 3) for name in cell.seconds}
    content["targets"] = [asdict(target) | {"met": target.met} for target in targets(results)]
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Results:
    """Read what `to_json` wrote. Raises ValueError if it is something else.

    >>> from_json("{}")
    Traceback (most recent call last):
    ...
    ValueError: not results of `regard bench`, or of another version of it.
    """
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("not results of `regard bench`: nested too deeply.") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("not results of `regard bench`, or of another version of it.")
    try:
        cells = [Cell(**_without(cell, "gflops")) for cell in content["cells"]]
        memory = [Memory(**kept) for kept in content["memory"]]
        peak = {int(threads): float(value) for threads, value in content["peak"].items()}
        kept = _without(content, "format", "targets", "cells", "memory", "peak")
        return Results(cells=cells, memory=memory, peak=peak, **kept)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the results are damaged: {error!r}.") from error


def _without(content: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in names}
