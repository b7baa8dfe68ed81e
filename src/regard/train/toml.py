"""Recipes as TOML: written here, as Python reads TOML and does not write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def write_toml(content: Mapping[str, Any]) -> str:
    """A document of values and of tables of values; tables inside of these stand on one line.

    >>> print(write_toml({"task": "copy", "model": {"width": 64, "position": {"base": 1.0}}}))
    task = "copy"
    <BLANKLINE>
    [model]
    width = 64
    position = {base = 1.0}
    <BLANKLINE>
    """
    plain = [f"{_key(name)} = {_value(each)}" for name, each in content.items() if not _table(each)]
    parts = ["\n".join(plain)] if plain else []
    for name, each in content.items():
        if _table(each):
            lines = [f"{_key(key)} = {_value(inner)}" for key, inner in each.items()]
            parts.append("\n".join([f"[{_key(name)}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _table(value: object) -> bool:
    return isinstance(value, Mapping)


def _key(name: str) -> str:
    return (
        name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _text(name)
    )


def _text(value: str) -> str:
    # JSON escapes what TOML wants escaped, but for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"write_toml(): a value must be one that TOML has; got {type(value).__name__}.")
