"""The log of a run: a line of JSON for each step and each evaluation; what comes after a stop
follows on what was saved, as if there had been none.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from regard._files import naming
from regard._followed import LOG

__all__ = ["LOG", "Log", "NoLog", "read_log"]


class Log:
    """A file of JSON lines that can be taken back to where it was."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        with naming(path):
            self._file = path.open("r+b" if path.exists() else "w+b")
            found = os.fstat(self._file.fileno()).st_size
            self.is_short = found < size  # somebody cut it: the weights do not depend on it
            self._file.truncate(min(size, found))
            self._file.seek(0, os.SEEK_END)

    def write(self, line: dict[str, Any]) -> None:
        with naming(self._path):
            self._file.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")

    def flush(self) -> None:
        with naming(self._path):
            self._file.flush()

    def sync(self) -> int:
        """Wait until all of it is on the disk; how many bytes that are."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        with naming(self._path):
            self._file.close()


class NoLog:
    """The same, of a process that writes none."""

    is_short = False

    def write(self, line: dict[str, Any]) -> None: ...

    def flush(self) -> None: ...

    def sync(self) -> int:
        return 0

    def close(self) -> None: ...


def read_log(path: Path) -> list[dict[str, Any]]:
    """All whole lines."""
    found: list[dict[str, Any]] = []
    if path.is_file():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                found.append(json.loads(line))
    return found
