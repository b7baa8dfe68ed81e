"""A function that runs without the collector of circular garbage, which would walk all it makes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["uncollected"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def uncollected(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The same function; the collector is as it was when it ends.

    >>> uncollected(gc.isenabled)()
    False
    """

    @wraps(function)
    def run(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return function(*arguments, **named)
        finally:
            if was_enabled:
                gc.enable()

    return run
