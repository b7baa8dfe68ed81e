"""The process that answers one query in SQL: the first rows, in text that fits a page."""

from __future__ import annotations

import os
import resource
from typing import Any

from regard._duckdb import check_query, connect, words
from regard.studio.process import Teller

_LONGEST = 10_000  # characters of a cell
_MOST = 2_000_000  # characters of an answer
# Whatever else there is, a list or a day, is the text that DuckDB writes for it.
_NUMBERS = {
    *("boolean", "tinyint", "smallint", "integer", "bigint", "float", "double"),
    *("utinyint", "usmallint", "uinteger", "ubigint"),
}


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
    resource.setrlimit(resource.RLIMIT_DATA, (_data() + memory, most))
    try:
        check_query(duckdb, asked["query"])
        tables = {
            name: {
                run: pyarrow.ipc.open_file(pyarrow.memory_map(file)).read_all()
                for run, file in runs.items()
            }
            for name, runs in asked["tables"].items()
        }
        teller.tell(_answer(connect(duckdb, tables, memory), asked["query"], asked["rows"]))
    except Exception as error:  # noqa: BLE001, as it is told to the reader
        found = words(duckdb, error, memory)
        teller.tell({"memory": True} if isinstance(found, MemoryError) else {"error": str(found)})


def _data() -> int:
    """How many bytes of data this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[5]) * resource.getpagesize()


def _answer(connection: Any, query: str, most_rows: int) -> dict[str, Any]:
    """Columns, the first rows as far as they fit, and whether there are more."""
    relation = connection.sql(query)
    cells = [
        f"#{n}" if kind.id in _NUMBERS else f"left(CAST(#{n} AS VARCHAR), {_LONGEST + 1})"
        for n, kind in enumerate(relation.types, 1)
    ]
    rows = relation.project(", ".join(cells)).limit(most_rows + 1).fetchall()
    shown: list[tuple[Any, ...]] = []
    room = _MOST
    for row in rows[:most_rows]:
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
