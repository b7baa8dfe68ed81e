"""SQL for the studio: each query in a process of its own, with so much time and memory."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import warnings
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from regard._duckdb import check_query, connect, words
from regard.studio.process import Ended, Process, Teller

if TYPE_CHECKING:
    from regard._duckdb import Tables
    from regard.run import Run

# Of a query, and gigabytes; `regard studio --help` says how to have more.
SECONDS, MEMORY = 30.0, 2.0
_MOST_ROWS = 1_000
_LONGEST = 10_000  # characters of a cell
_MOST = 2_000_000  # characters of an answer
# Whatever else there is, a list or a day, is the text that DuckDB writes for it.
_NUMBERS = {
    *("boolean", "tinyint", "smallint", "integer", "bigint", "float", "double"),
    *("utinyint", "usmallint", "uinteger", "ubigint"),
}
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
        with self._lock:
            process, self._ready = self._ready or Process(__name__), None
        try:
            with _in_files(tables) as files:
                asked = {"query": query, "tables": files, "memory": int(self._memory * 1e9)}
                found = process.ask(asked, self._seconds)
        except Ended as error:
            raise ValueError(f"DuckDB came to an end over that ({error}): {_MORE_MEMORY}") from None
        except TimeoutError:
            seconds = f"{self._seconds:g} second{'s' if self._seconds != 1 else ''}"
            raise ValueError(
                f"The query takes longer than the {seconds} that it may. Ask for less, or start "
                "the studio with regard studio --sql-seconds S."
            ) from None
        finally:
            process.end()
        with self._lock:
            self._ready = self._ready or Process(__name__)
        if "memory" in found:
            raise ValueError(
                f"The query needs more than the {self._memory:g} GB that it may have: "
                f"{_MORE_MEMORY}"
            )
        if "error" in found:
            raise ValueError(str(found["error"]).partition("\nThe tables are")[0])
        return found


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


# ── in the process ────────────────────────────────────────────────────────────────────────────


def main(handle: int) -> None:
    """Answer what is asked first, and end."""
    teller = Teller(handle)
    import duckdb
    import pyarrow

    os.nice(5)  # pages come first
    asked = teller.hear()
    memory: int = asked["memory"]
    # What DuckDB counts as its memory are not the texts and lists that it is working on.
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        data = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (data + memory, most))
    try:
        check_query(duckdb, asked["query"])
        tables = {
            name: {
                run: pyarrow.ipc.open_file(pyarrow.memory_map(file)).read_all()
                for run, file in runs.items()
            }
            for name, runs in asked["tables"].items()
        }
        teller.tell(_answer(connect(duckdb, tables, memory), asked["query"]))
    except Exception as error:  # noqa: BLE001, as it is told to the reader
        found = words(duckdb, error, memory)
        teller.tell({"memory": True} if isinstance(found, MemoryError) else {"error": str(found)})


def _answer(connection: Any, query: str) -> dict[str, Any]:
    """Columns, the first rows as far as they fit, and whether there are more."""
    relation = connection.sql(query)
    cells = [
        f"#{n}" if kind.id in _NUMBERS else f"left(CAST(#{n} AS VARCHAR), {_LONGEST + 1})"
        for n, kind in enumerate(relation.types, 1)
    ]
    rows = relation.project(", ".join(cells)).limit(_MOST_ROWS + 1).fetchall()
    shown: list[tuple[Any, ...]] = []
    room = _MOST
    for row in rows[:_MOST_ROWS]:
        shown.append(tuple(_cell(value) for value in row))
        room -= sum(len(cell) if isinstance(cell, str) else 8 for cell in shown[-1])
        if room < 0:
            shown.pop()
            break
    names = [name if len(name) <= _LONGEST else name[:_LONGEST] + " …" for name in relation.columns]
    values = [[row[n] for row in shown] for n in range(len(names))]
    return {"columns": names, "values": values, "more": len(shown) < len(rows)}


def _cell(value: Any) -> Any:
    """What a page can show: a number that it does not round, or a text."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else value[:_LONGEST] + " …"
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)
    return value
