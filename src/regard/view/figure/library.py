"""matplotlib, which comes with `regard[figures]`, imported when it is needed."""

from __future__ import annotations

from typing import Any

from regard import _extras


def need(name: str) -> Any:
    """The module of that name; ImportError in words where it is not installed.

    >>> need("json").dumps([1])
    '[1]'
    """
    return _extras.need("figure()", name, "figures")
