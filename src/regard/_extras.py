"""The libraries that come with an extra of the package, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any


def need(call: str, name: str, extra: str) -> Any:
    """The module of that name; ImportError that says how to get it, where it is not installed.

    >>> need("save()", "json", "runs").dumps([1])
    '[1]'
    >>> need("save()", "no_such_library", "runs")
    Traceback (most recent call last):
    ImportError: save(): no_such_library must be installed; it is not. pip install "regard[runs]".
    """
    library = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # the library is there, and lacks something itself
        raise ImportError(
            f'{call}: {library} must be installed; it is not. pip install "regard[{extra}]".',
            name=library,
        ) from None
