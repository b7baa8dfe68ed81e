"""What the studio is started with, and which files it may open: those in the folders named then."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


def _store() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get("REGARD_RUNS") or Path(data) / "regard" / "runs")


@dataclass(frozen=True)
class Settings:
    """What `regard studio` is told.

    - `folders`: runs, or folders of them; `models`: folders that may be chosen
    - `store`: where runs are saved; REGARD_RUNS, or the place for a user's data
    - `sql_seconds`, `sql_memory`: what a query may take, the latter in gigabytes
    - `check_seconds`: what a text may take to check

    >>> Settings().store.name
    'runs'
    """

    folders: Sequence[Path] = ()
    models: Sequence[Path] = ()
    store: Path = field(default_factory=_store)
    sql_seconds: float = 30.0
    sql_memory: float = 2.0
    check_seconds: float = 10.0


class Forbidden(ValueError):
    """A file outside the studio's folders was asked for."""


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
