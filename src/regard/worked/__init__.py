"""Worked examples: five of them as data, and `check`, which tells whether one is right."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.worked._check import Report, check, check_text, fix_text
    from regard.worked._example import EXAMPLES, Example, example
    from regard.written.source import Unreadable

__all__ = [
    "EXAMPLES",
    "Example",
    "Report",
    "Unreadable",
    "check",
    "check_text",
    "example",
    "fix_text",
]

_HOME = {
    **dict.fromkeys(("Report", "check", "check_text", "fix_text"), "regard.worked._check"),
    **dict.fromkeys(("EXAMPLES", "Example", "example"), "regard.worked._example"),
    "Unreadable": "regard.written.source",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'regard.worked' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
