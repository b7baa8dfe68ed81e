"""What a reader changes of a pass: given numbers, scores, links, heads, √d_k, the mask, a word."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["number", "score", "cut", "head", "scale", "causal", "word"]
MOST = 1_000  # changes of one pass


@dataclass(frozen=True)
class Change:
    """One change, as docs/flow.md has it; what its kind has not is None."""

    kind: Kind
    stage: str | None = None
    attention: str | None = None
    head: int | None = None
    row: int | None = None
    column: int | None = None
    value: float | None = None
    on: bool | None = None
    position: int | None = None
    text: str | None = None


# What each kind must say; of a cut the head may be left out, which is all heads.
_FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "number": ("stage", "head", "row", "column", "value"),
    "score": ("stage", "head", "row", "column", "value"),
    "cut": ("attention", "row", "column"),
    "head": ("attention", "head"),
    "scale": ("on",),
    "causal": ("on",),
    "word": ("position", "text"),
}
_MOST_LETTERS = 200  # of a word


def read_changes(given: Any) -> list[Change]:
    """Changes as plain data, checked one by one. Raises ValueError.

    >>> read_changes([{"kind": "scale", "on": False}])[0].on
    False
    >>> read_changes([{"kind": "cut", "row": 1}])
    Traceback (most recent call last):
    ValueError: changed(): a change of kind 'cut' must say its attention; got None.
    """
    if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
        raise ValueError("changed(): changes must be a list of changes.")
    found = [_read(each) for each in given]
    if len(found) > MOST:
        raise ValueError(f"changed(): there may be {MOST:,} changes; got {len(found):,}.")
    return found


def _read(given: Any) -> Change:
    if isinstance(given, Change):
        return given
    kind: Any = given.get("kind") if isinstance(given, Mapping) else None
    if kind not in get_args(Kind):
        raise ValueError(
            f"changed(): the kind of a change must be one of {', '.join(get_args(Kind))}; "
            f"got {kind!r}."
        )
    said: dict[str, Any] = {name: given.get(name) for name in _FIELDS[kind]}
    if kind == "cut" and given.get("head") is not None:
        said["head"] = given["head"]
    for name, value in said.items():
        if not _fits(name, value):
            what = f"a change of kind {kind!r} must say its {name}"
            raise ValueError(f"changed(): {what}; got {str(value)[:40]}.")
    return Change(kind, **said)


def _fits(name: str, value: Any) -> bool:
    if name in ("stage", "attention", "text"):
        return isinstance(value, str) and 0 < len(value) <= _MOST_LETTERS
    if name == "on":
        return isinstance(value, bool)
    if name == "value":
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is int and 0 <= value < 2**31


def within(change: Change, what: str, value: int | None, size: int) -> int:
    """A place that a change names, if it is there. Raises ValueError."""
    if value is None or value >= size:
        raise ValueError(
            f"changed(): the {what} of a change of kind {change.kind!r} must be from 0 to "
            f"{size - 1}; got {value}."
        )
    return value
