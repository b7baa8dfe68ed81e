"""SQL for the studio: each query in a process of its own, with so much time and memory."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard._duckdb import NUMBERS, check_query, connect, words
from regard.studio.places import Settings
from regard.studio.process import Teller, Worker, shared_file

if TYPE_CHECKING:
    from regard._duckdb import Tables
    from regard.run import Run

_MOST_ROWS = 1_000
_LONGEST = 10_000  # characters of a cell
_MOST = 2_000_000  # characters of an answer
_MORE_MEMORY = "ask for less, or start the studio with regard studio --sql-memory GB."


class Queries(Worker):
    """Once there was a query, a process is ready for the next, which need not wait for it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(__name__, once=True)
        self._seconds, self._memory = settings.sql_seconds, settings.sql_memory

    def ask(self, query: str, runs: Mapping[str, Run]) -> dict[str, Any]:
        """Columns, their first values, and whether there are more. Raises ValueError in words."""
        from regard.run._sql import tables_for

        tables = tables_for(query, runs)
        late = (
            f"The query takes longer than the {self._seconds:g} "
            f"second{'s' if self._seconds != 1 else ''} that it may. Ask for less, or start the "
            "studio with regard studio --sql-seconds S."
        )
        ended = f"DuckDB came to an end over that ({{}}): {_MORE_MEMORY}"
        with contextlib.ExitStack() as files, self.lend() as process:
            shared = _share(files, tables)
            asked = {"query": query, "tables": shared, "memory": int(self._memory * 1e9)}
            found = process.ask(asked, self._seconds, late=late, ended=ended)
        if "memory" in found:
            raise ValueError(
                f"The query needs more than the {self._memory:g} GB that it may have: "
                f"{_MORE_MEMORY}"
            )
        if "error" in found:
            raise ValueError(str(found["error"]).partition("\nThe tables are")[0])
        return found


def _share(files: contextlib.ExitStack, tables: Tables) -> dict[str, dict[str | None, str]]:
    """The tables as files that another process can open, by name and run."""
    import pyarrow as pa

    paths: dict[str, dict[str | None, str]] = {name: {} for name in tables}
    for name, runs in tables.items():
        for run, table in runs.items():
            file, paths[name][run] = files.enter_context(shared_file())
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
    return paths


# ── in the process ────────────────────────────────────────────────────────────────────────────


def main(handle: int) -> None:
    """Answer what is asked first, and end."""
    teller = Teller(handle)
    import duckdb
    import pyarrow

    os.nice(5)  # pages come first
    asked = teller.begin()
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
    except Exception as error:  # noqa: BLE001, as without memory every library has its own
        found = words(duckdb, error, memory)
        teller.tell({"memory": True} if isinstance(found, MemoryError) else {"error": str(found)})


def _answer(connection: Any, query: str) -> dict[str, Any]:
    """Columns, the first rows as far as they fit, and whether there are more."""
    relation = connection.sql(query)
    cells = [
        f"#{n}" if kind.id in NUMBERS else f"left(CAST(#{n} AS VARCHAR), {_LONGEST + 1})"
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
    names = list(map(_cell, relation.columns))
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
