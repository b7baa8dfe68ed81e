"""The libraries that come with `regard[runs]`, imported when they are needed."""

from __future__ import annotations

from typing import Any

from regard import _extras

__all__ = ["need"]


def need(call: str, name: str) -> Any:
    """The module of that name; ImportError in words where it is not installed.

    >>> need("save()", "json").dumps([1])
    '[1]'
    """
    return _extras.need(call, name, "runs")
