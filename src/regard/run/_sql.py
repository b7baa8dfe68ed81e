"""SQL on runs: DuckDB, in memory, with nothing in reach but the tables of the runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard.observation import shown
from regard.run.edges import check, warn
from regard.run.extras import need
from regard.run.heads import Head
from regard.run.store import LEAST, stored_edges
from regard.run.tokens import readable

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run.run import Run

__all__ = ["ask", "sql"]

_CALL = "sql()"
_TABLES = ("edges", "heads", "layers", "tokens")
# What no query needs, and some would misuse. The last one makes the others final.
_LOCKS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def sql(query: str, runs: Mapping[str, Run], *, min_weight: float | None = None) -> pa.Table:
    """One SELECT on several runs. Their tables are those of `Run.sql`, with a column `run` that
    has the name of each, as the first.

    >>> from regard.run import Run
    >>> runs = {"one": Run(unseen=["a"]), "two": Run()}
    >>> sql("select run, count(*) as n from heads group by run", runs).num_rows
    0
    """
    if not isinstance(runs, Mapping) or not all(isinstance(name, str) for name in runs):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"{_CALL}: runs must be a dictionary of names and runs; got {shown(runs)}. "
            'regard.run.sql("select …", {"one": run}) is right.'
        )
    if not runs:
        raise ValueError(f"{_CALL}: runs must have at least one run; got none. Name one.")
    return ask(dict(runs), query, min_weight, stacklevel=3)


def ask(
    runs: Mapping[str | None, Run] | Mapping[str, Run],
    query: str,
    min_weight: float | None,
    stacklevel: int,
) -> pa.Table:
    """The answer. A run without a name is alone, and its tables have no column `run`.

    >>> from regard.run import Run
    >>> ask({None: Run()}, "select 1 + 1 as two", None, stacklevel=2).to_pylist()
    [{'two': 2}]
    """
    least = LEAST if min_weight is None else check(_CALL, min_weight, None)[0]
    duckdb, arrow = need(_CALL, "duckdb"), need(_CALL, "pyarrow")
    _check_query(duckdb, query)
    # A word that is not in the query names no table of it, and edges take time to make.
    asked = [name for name in _TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
    with duckdb.connect(":memory:") as connection:
        for name in asked or _TABLES:
            tables = {key: _table(arrow, name, run, least) for key, run in runs.items()}
            if name == "edges":
                for table in tables.values():
                    warn(table, stacklevel)
            _register(connection, name, tables)
        for lock in _LOCKS:
            connection.execute(lock)
        try:
            return connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise ValueError(
                f"{_CALL}: the query must be one that DuckDB can answer; {str(error).strip()}\n"
                f"The tables are {', '.join(_TABLES)}; help(regard.run.Run.sql) has their columns."
            ) from None


def _check_query(duckdb: Any, query: object) -> None:
    """Is it one SELECT?"""
    if not isinstance(query, str):
        raise TypeError(f"{_CALL}: query must be a text; got {shown(query)}. Write it in quotes.")
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise ValueError(
            f"{_CALL}: query must be SQL as DuckDB has it; {str(error).strip()}\n"
            'run.sql("select * from heads order by entropy limit 5") is.'
        ) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ValueError(
            f"{_CALL}: query must be one SELECT; got {shown(query)}. Runs are read, not changed."
        )


def _register(connection: Any, name: str, tables: Mapping[Any, pa.Table]) -> None:
    """Make the tables of all runs one, without copying them."""
    if list(tables) == [None]:
        connection.register(name, tables[None])
        return
    parts: list[str] = []
    for number, (run, table) in enumerate(tables.items()):
        connection.register(f"_{name}_{number}", table)
        parts.append(f"SELECT {_quoted(run)} AS run, * FROM _{name}_{number}")
    connection.execute(f"CREATE TEMP VIEW {name} AS {' UNION ALL '.join(parts)}")


def _quoted(text: str) -> str:
    return "'" + readable(text).replace("\0", "").replace("'", "''") + "'"


# ── the tables ────────────────────────────────────────────────────────────────────────────────


def _table(arrow: Any, name: str, run: Run, least: float) -> pa.Table:
    if name == "edges":
        return stored_edges(run, least)
    rows, schema = {"heads": _heads, "layers": _layers, "tokens": _tokens}[name](arrow, run)
    return arrow.Table.from_pylist(rows, arrow.schema(schema))


def _heads(arrow: Any, run: Run) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    numbers = {name.rstrip("_"): arrow.float64() for name in Head.__dataclass_fields__}
    whole = {"layer": arrow.int32(), "name": arrow.string(), "head": arrow.int32()}
    rows = [{**row, "name": readable(row["name"])} for row in run.heads()]
    return rows, {**whole, **numbers, "head": arrow.int32(), "kind": arrow.string()}


def _layers(arrow: Any, run: Run) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for index, (name, layer) in enumerate(run.layers.items()):
        batch, heads, queries, keys = layer.shape
        left, right = layer.options.window or (None, None)
        rows.append(
            {
                "layer": index,
                "name": readable(name),
                "sequences": batch,
                "heads": heads,
                "kv_heads": layer.kv_heads,
                "queries": queries,
                "keys": keys,
                "is_causal": layer.options.causal,
                "is_cross": layer.cross,
                "window_left": left,
                "window_right": right,
            }
        )
    numbers = dict.fromkeys(("sequences", "heads", "kv_heads", "queries", "keys"), arrow.int32())
    flags = dict.fromkeys(("is_causal", "is_cross"), arrow.bool_())
    window = dict.fromkeys(("window_left", "window_right"), arrow.int64())
    names = {"layer": arrow.int32(), "name": arrow.string()}
    return rows, {**names, **numbers, **flags, **window}


def _tokens(arrow: Any, run: Run) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    ids = run.token_ids.tolist() if run.token_ids is not None and run.token_ids.dim() == 2 else []
    tokens = run.tokens or []
    rows: list[dict[str, Any]] = []
    for sequence in range(max(len(ids), len(tokens))):
        numbers = ids[sequence] if sequence < len(ids) else []
        texts = tokens[sequence] if sequence < len(tokens) else []
        # Where padding has no token, which number is whose cannot be told from here.
        fit = not texts or not numbers or len(texts) == len(numbers)
        for position in range(len(texts) or len(numbers)):
            row: dict[str, Any] = {"sequence": sequence, "position": position}
            if texts:
                token = texts[position]
                row |= {"token": readable(token.text), "start": token.start, "stop": token.end}
            if numbers and fit:
                row["id"] = numbers[position]
            rows.append(row)
    kinds = (arrow.int32(), arrow.int32(), arrow.string(), arrow.int64(), arrow.int64())
    names = ("sequence", "position", "token", "start", "stop")
    return rows, {**dict(zip(names, kinds, strict=True)), "id": arrow.int64()}
