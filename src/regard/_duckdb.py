"""DuckDB in memory, with nothing in reach but the tables it is given, and within limits."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# By the name of the table and that of the run. A run without a name is alone.
Tables = Mapping[str, Mapping[str | None, "pa.Table"]]

_CALL = "sql()"
_GRACE = 0.5  # seconds for a query to end by itself, once it was told to
_ROWS = 100_000  # that are fetched at a time
# What no query needs, and some would misuse. The last one makes the others final.
_LOCKS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_PLAIN = {
    "boolean",
    *(f"{sign}{size}" for sign in ("", "u") for size in ("tinyint", "smallint", "integer")),
    *("bigint", "ubigint", "float", "double", "varchar"),
}
# Arrow, as DuckDB 2 writes it, makes -1 of the largest UHUGEINT, and leaves out the zone.
_NOT_IN_ARROW = re.compile(r"\bUHUGEINT\b|\bTIME WITH TIME ZONE\b")


def check_query(duckdb: Any, query: str) -> None:
    """Raise ValueError in words if it is not one SELECT."""
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
            parts.append(f"SELECT {_quoted(str(run))} AS run, * FROM _{name}_{number}")
        connection.execute(f"CREATE TEMP VIEW {name} AS {' UNION ALL '.join(parts)}")
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def _quoted(text: str) -> str:
    return "'" + text.replace("\0", "").replace("'", "''") + "'"


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


def plain(relation: Any) -> Any:
    """The same with every value as JSON has it: what is no number, text or flag, nor made of these,
    is the text that DuckDB writes for it.

    Python has no date after 9999, no 24 o'clock and no infinite day, for instance.

    >>> import duckdb
    >>> plain(duckdb.sql("select 7, [1.5::float], date '290000-01-01'")).fetchall()
    [(7, [1.5], '290000-01-01')]
    """
    return _with_texts(relation, [not _is_plain(kind) for kind in relation.types])


def _is_plain(kind: Any) -> bool:
    if kind.id in ("list", "array"):
        return _is_plain(dict(kind.children)["child"])
    if kind.id == "struct":
        return all(_is_plain(child) for _, child in kind.children)
    return kind.id in _PLAIN


def _exact(relation: Any) -> Any:
    """The same with a text for what would come out of Arrow as another value."""
    return _with_texts(relation, [bool(_NOT_IN_ARROW.search(str(x))) for x in relation.types])


def _with_texts(relation: Any, as_text: list[bool]) -> Any:
    if not any(as_text):
        return relation
    columns = (f"CAST(#{n} AS VARCHAR)" if text else f"#{n}" for n, text in enumerate(as_text, 1))
    return relation.project(", ".join(columns))


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

    Another thread waits for DuckDB, so that this one hears of Ctrl-C, and of the time. A query that
    does not end when it is told to, as one call of a function may take minutes, is left to itself.

    >>> import duckdb, pyarrow
    >>> limits = {"seconds": None, "memory": 10**8}
    >>> answer(duckdb, pyarrow, {}, "select 1 as one", **limits).to_pylist()
    [{'one': 1}]
    """
    connection = connect(duckdb, tables, memory)
    found: list[Any] = []
    # Thread.join of Python 3.11 takes a thread for ended if Ctrl-C came while it waited.
    done = threading.Event()

    def work() -> None:
        try:
            with connection:
                relation = connection.sql(query)
                names = relation.columns
                relation = plain(relation) if as_plain else _exact(relation)
                reader = relation.to_arrow_reader(_ROWS)
                found.append(_read(arrow, reader, memory).rename_columns(names))
        except BaseException as error:  # noqa: BLE001, as it is raised where it is waited for
            found.append(error)
        done.set()

    threading.Thread(target=work, daemon=True, name="regard-sql").start()
    late = True
    try:
        late = not done.wait(seconds)
    finally:
        if late:
            _interrupt(duckdb, connection, done)
    if late:
        raise TimeoutError(
            f"{_CALL}: the query must be answered in {seconds:g} seconds; it was not. "
            "Ask for less, or give it more time with seconds=…."
        )
    if isinstance(found[0], BaseException):
        raise words(duckdb, found[0], memory) from None
    return found[0]


def _read(arrow: Any, reader: Any, memory: int) -> pa.Table:
    """All there is, if it fits."""
    batches, size = list[Any](), 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > memory:
            raise MemoryError
    return arrow.Table.from_batches(batches, reader.schema)


def _interrupt(duckdb: Any, connection: Any, done: threading.Event) -> None:
    """Tell it until it hears, as a query that is just about to start does not."""
    pause = 0.02
    for _ in range(int(_GRACE / pause)):
        with contextlib.suppress(duckdb.Error):  # closed in between
            connection.interrupt()
        if done.wait(pause):
            break


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
