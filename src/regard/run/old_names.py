"""What earlier versions called by another name in the files of a run."""

from __future__ import annotations

from typing import Any

# In run.json and its tensors (`vectors.3`), and in the metadata of edges.parquet.
_NAMES: dict[Any, Any] = {"vectors": "hidden_states", b"regard.cut": b"regard.truncated"}


def current(named: Any) -> Any:
    """The same by the names of today. Two that would be one keep theirs, and are refused later;
    so is what is no dictionary.

    >>> current({"vectors.3": 1, "output": 2}), current({b"regard.cut": b"[]"})
    ({'hidden_states.3': 1, 'output': 2}, {b'regard.truncated': b'[]'})
    """
    if not isinstance(named, dict):
        return named
    found: dict[Any, Any] = {}
    for name, value in named.items():
        first, dot, rest = name.partition(".") if isinstance(name, str) else (name, b"", b"")
        found[_NAMES.get(first, first) + dot + rest] = value
    return found if len(found) == len(named) else named
