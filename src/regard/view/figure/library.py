"""matplotlib, which comes with `regard[figures]`, imported when it is needed."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["need", "shown"]


def need(name: str) -> Any:
    """The module of that name; ImportError in words where it is not installed.

    >>> need("json").dumps([1])
    '[1]'
    """
    library = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # the library is there, and lacks something itself
        raise ImportError(
            f'figure(): {library} must be installed; it is not. pip install "regard[figures]".'
        ) from None


def shown(value: object) -> str:
    """A value as messages show it. PyTorch, which that brings along, is not needed before.

    >>> shown("head.gif")
    "'head.gif'"
    """
    from regard.observation import shown

    return shown(value)
