"""DuckDB in memory, with nothing in reach but the tables it is given, and within limits."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# By the name of the table and that of the run. A run without a name is alone.
Tables = Mapping[str, Mapping[str | None, "pa.Table"]]

_CALL = "sql()"
_TIMES, _PAUSE = 25, 0.02  # how often, and after how many seconds again, a query is told to end
_ROWS = 100_000  # that are fetched at a time
# What no query needs, and some would misuse. The last one makes the others final.
_LOCKS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
NUMBERS = {  # and flags: the types of which JSON has every value
    *(f"{sign}{size}int" for sign in ("", "u") for size in ("tiny", "small", "big")),
    *("integer", "uinteger", "float", "double", "boolean"),
}


def check_query(duckdb: Any, query: str) -> None:
    """Raise ValueError with a message if it is not one SELECT."""
    try:
        query.encode("utf-8")
        statements = duckdb.extract_statements(query)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{_CALL}: query must be Unicode; got half of a surrogate pair at {error.start}. "
            "Read the text with the encoding that it was written in."
        ) from None
    except duckdb.Error as error:
        raise ValueError(
            f"{_CALL}: query must be SQL as DuckDB has it; {str(error).strip()}\n"
            'run.sql("select * from heads order by entropy limit 5") is.'
        ) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        shown = query if len(query) <= 80 else query[:80] + "…"
        raise ValueError(
            f"{_CALL}: query must be one SELECT; got {shown!r}. Runs are read, not changed."
        )


def connect(duckdb: Any, tables: Tables, memory: int) -> Any:
    """A connection that has these tables, may use so many bytes, and can be told nothing else.

    >>> import duckdb
    >>> connect(duckdb, {}, 10**8).sql("select 1 + 1").fetchall()
    [(2,)]
    """
    connection = duckdb.connect(":memory:", config={"memory_limit": f"{memory}B"})
    for name, runs in tables.items():
        if list(runs) == [None]:
            connection.register(name, runs[None])
            continue
        parts: list[str] = []
        for number, (run, table) in enumerate(runs.items()):
            connection.register(f"_{name}_{number}", table)
            quoted = str(run).replace("\0", "").replace("'", "''")
            parts.append(f"SELECT '{quoted}' AS run, * FROM _{name}_{number}")
        connection.execute(f"CREATE TEMP VIEW {name} AS {' UNION ALL '.join(parts)}")
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def bind(duckdb: Any, tables: Tables, query: str, memory: int) -> None:
    """Raise what `answer` would for a query that names what is not there; nothing is computed.

    >>> import duckdb
    >>> bind(duckdb, {}, "select count(*) from range(1000000000000)", 10**8)
    """
    try:
        with connect(duckdb, tables, memory) as connection:
            connection.sql(query)
    except duckdb.Error as error:
        raise words(duckdb, error, memory) from None


def _is_plain(kind: Any) -> bool:
    """Is it a number, a text or a flag, or made of these?"""
    if kind.id in ("list", "array"):
        return _is_plain(dict(kind.children)["child"])
    if kind.id == "struct":
        return all(_is_plain(child) for _, child in kind.children)
    return kind.id in NUMBERS or kind.id == "varchar"


def _is_in_arrow(kind: Any) -> bool:
    """Arrow, as DuckDB 2 writes it, makes -1 of the largest UHUGEINT, and leaves out the zone."""
    return not re.search(r"\bUHUGEINT\b|\bTIME WITH TIME ZONE\b", str(kind))


def answer(
    duckdb: Any,
    arrow: Any,
    tables: Tables,
    query: str,
    *,
    seconds: float | None,
    memory: int,
    as_plain: bool = False,
) -> pa.Table:
    """The whole answer to a query that was checked.

    A value that would come out of Arrow as another one is the text that DuckDB writes for it; with
    `as_plain` so is all that JSON has not. Python has no date after 9999, no 24 o'clock and no
    infinite day, for instance.

    Another thread waits for DuckDB, so that this one hears of Ctrl-C, and of the time. A query that
    does not end when it is told to, as one call of a function may take minutes, is left to itself.

    >>> import duckdb, pyarrow
    >>> limits = {"seconds": None, "memory": 10**8}
    >>> days = "select 7 as n, [1.5::float] as x, date '290000-01-01' as day"
    >>> answer(duckdb, pyarrow, {}, days, **limits, as_plain=True).to_pylist()
    [{'n': 7, 'x': [1.5], 'day': '290000-01-01'}]
    """
    connection = connect(duckdb, tables, memory)
    # Not Thread.join: in Python 3.11 it takes a thread for ended if Ctrl-C came while it waited.
    found: Future[pa.Table] = Future()

    def work() -> None:
        try:
            with connection:
                table = _fetch(arrow, connection.sql(query), memory, as_plain)
            found.set_result(table)
        except BaseException as error:  # noqa: BLE001, as it is raised where it is waited for
            found.set_exception(error)

    thread = threading.Thread(target=work, daemon=True, name="regard-sql")
    thread.start()
    late = True
    try:
        late = not wait([found], seconds).done
    finally:
        # Told until it hears, as a query that is just about to start does not.
        for _ in range(_TIMES if late else 0):
            with contextlib.suppress(duckdb.Error):  # closed in between
                connection.interrupt()
            if wait([found], _PAUSE).done:
                break
    if late:
        raise TimeoutError(
            f"{_CALL}: the query must be answered in {seconds:g} seconds; it was not. "
            "Ask for less, or give it more time with seconds=…."
        )
    thread.join()  # or the end of the process could come while it lets go of what DuckDB holds
    try:
        return found.result()
    except (MemoryError, duckdb.Error) as error:
        raise words(duckdb, error, memory) from None


def _fetch(arrow: Any, relation: Any, memory: int, as_plain: bool) -> pa.Table:
    """All rows, if they have so many bytes at most; MemoryError if they have more."""
    names = relation.columns
    keeps = [(_is_plain if as_plain else _is_in_arrow)(kind) for kind in relation.types]
    if not all(keeps):
        columns = (f"#{n}" if kept else f"CAST(#{n} AS VARCHAR)" for n, kept in enumerate(keeps, 1))
        relation = relation.project(", ".join(columns))
    reader = relation.to_arrow_reader(_ROWS)
    batches, size = list[Any](), 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > memory:
            raise MemoryError
    return arrow.Table.from_batches(batches, reader.schema).rename_columns(names)


def words(duckdb: Any, error: BaseException, memory: int) -> BaseException:
    """What to raise for an error of DuckDB's.

    >>> import duckdb
    >>> words(duckdb, duckdb.BinderException("no such column"), 10**8)
    ValueError('sql(): the query must be one that DuckDB can answer; no such column\\nThe ...
    """
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
        return MemoryError(
            f"{_CALL}: the query and its answer must fit into {memory:,} bytes; they do not. "
            "Ask for less (limit 1000), or give it more with memory=…."
        )
    if not isinstance(error, duckdb.Error):
        return error
    found = ValueError(
        f"{_CALL}: the query must be one that DuckDB can answer; {str(error).strip()}\n"
        "The tables are edges, heads, layers, tokens; help(regard.run.Run.sql) has their columns."
    )
    found.__context__ = error
    return found
