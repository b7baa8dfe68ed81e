"""Which files the studio may open: those in the folders that it was started with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


class Forbidden(ValueError):
    """A file outside the studio's folders was asked for."""


def store() -> Path:
    """Where runs are saved: REGARD_RUNS, or the place for a user's data.

    >>> store().name
    'runs'
    """
    own = os.environ.get("REGARD_RUNS")
    if own:
        return Path(own)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "regard" / "runs"


class Places:
    """The folders that were named at the start, and what is in them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Places([folder]).find(f"{folder}/../../etc")
    Traceback (most recent call last):
    regard.studio.places.Forbidden: The studio opens only what is in the folders it was started
    with.
    """

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self.folders = [Path(folder).resolve() for folder in folders]

    def find(self, path: str | Path) -> Path:
        """The real place of a path, all links followed. Raises Forbidden if it is elsewhere."""
        try:
            found = Path(path).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise Forbidden("This is no path.") from error
        if not any(found.is_relative_to(folder) for folder in self.folders):
            raise Forbidden("The studio opens only what is in the folders it was started with.")
        return found
