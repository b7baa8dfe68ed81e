"""Regard: self-attention you can look at.

The rooms, in the order data walks through them:

- `regard.reference`: the truth; every step of attention in NumPy float64, written to be read
- `regard.text`: text to tokens, each with its span
- `regard.trace`, `regard.Trace`: every step of one pass, named, and how each cell came about
- `regard.worked`: worked examples as data, and `check`, which finds the wrong cells of one
- `regard.view`: a trace in the terminal
- `regard.cli`: the commands

Names are resolved when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import reference, text, view, worked
    from regard._arithmetic import Explanation
    from regard._trace import Projections, Trace, trace

    __version__: str

__all__ = [
    "Explanation",
    "Projections",
    "Trace",
    "__version__",
    "reference",
    "text",
    "trace",
    "view",
    "worked",
]

_HOME = {
    "Explanation": "regard._arithmetic",
    **dict.fromkeys(("Projections", "Trace", "trace"), "regard._trace"),
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("regard")
    if name in __all__:
        return importlib.import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
