"""SQL for the studio: each query in a process of its own, with so much time and memory."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from regard._wanted import still_wanted
from regard.studio.process import Ended, Process

if TYPE_CHECKING:
    from regard._duckdb import Tables
    from regard.run import Run

SECONDS, MEMORY = (
    30.0,
    2.0,
)  # of a query, and gigabytes; `regard studio --help` says how to have more
_MOST_ROWS = 1_000
_MORE_MEMORY = "ask for less, or start the studio with regard studio --sql-memory GB."


class Queries:
    """Once there was a query, a process is ready for the next, which need not wait for it."""

    def __init__(self, seconds: float = SECONDS, memory: float = MEMORY) -> None:
        self._seconds = seconds
        self._memory = memory
        self._ready: Process | None = None
        self._lock = threading.Lock()

    def ask(self, query: str, runs: Mapping[str, Run]) -> dict[str, Any]:
        """Columns, their first values, and whether there are more. Raises ValueError in words."""
        from regard.run._sql import tables_for

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a page has no place for them
            tables = tables_for(query, runs, stacklevel=2)
        process = self._take()
        try:
            with _in_files(tables) as files:
                asked = {"query": query, "tables": files, "rows": _MOST_ROWS}
                process.tell({**asked, "memory": int(self._memory * 1e9)})
                found = self._wait(process)
        except Ended as error:
            raise ValueError(f"DuckDB came to an end over that ({error}): {_MORE_MEMORY}") from None
        finally:
            process.end()
        self._prepare()
        if "memory" in found:
            raise ValueError(
                f"The query needs more than the {self._memory:g} GB that it may have: "
                f"{_MORE_MEMORY}"
            )
        if "error" in found:
            raise ValueError(str(found["error"]).partition("\nThe tables are")[0])
        return found

    def _wait(self, process: Process) -> dict[str, Any]:
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            still_wanted()
            found = process.hear(0.1)
            if found is not None:
                return found
        seconds = f"{self._seconds:g} second{'s' if self._seconds != 1 else ''}"
        raise ValueError(
            f"The query takes longer than the {seconds} that it may. Ask for less, or start the "
            "studio with regard studio --sql-seconds S."
        )

    def _take(self) -> Process:
        with self._lock:
            process, self._ready = self._ready, None
        return process or Process("regard.studio.query")

    def _prepare(self) -> None:
        with self._lock:
            if self._ready is None:
                self._ready = Process("regard.studio.query")


@contextlib.contextmanager
def _in_files(tables: Tables) -> Generator[dict[str, dict[str | None, str]]]:
    """The tables as files in memory that another process can open, by name and run."""
    import pyarrow as pa

    handles: list[int] = []
    try:
        files: dict[str, dict[str | None, str]] = {}
        for name, runs in tables.items():
            for run, table in runs.items():
                handles.append(os.memfd_create(f"regard-{name}"))
                with (
                    os.fdopen(handles[-1], "wb", closefd=False) as file,
                    pa.ipc.new_file(file, table.schema) as writer,
                ):
                    writer.write_table(table)
                files.setdefault(name, {})[run] = f"/proc/{os.getpid()}/fd/{handles[-1]}"
        yield files
    finally:
        for handle in handles:
            os.close(handle)
