"""The packages that loading a model needs."""

from __future__ import annotations

import importlib

__all__ = ["require"]


def require(*packages: str) -> None:
    """Import the packages that loading a model needs. Raises ImportError that says how to get them.

    >>> require("json")
    >>> require("no_such_package")
    Traceback (most recent call last):
    ImportError: load() needs the package no_such_package, which is not installed here.
    Install it: pip install "regard[models]"
    """
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != package:
                raise
            raise ImportError(
                f"load() needs the package {package}, which is not installed here. "
                'Install it: pip install "regard[models]"',
                name=package,
            ) from None
