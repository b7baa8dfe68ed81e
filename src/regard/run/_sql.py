"""SQL on runs: their tables, and one SELECT on them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from regard._arguments import number, shown, whole
from regard._duckdb import Tables, answer, bind, check_query
from regard._extras import need
from regard.run.edges import check, warn
from regard.run.store import LEAST, stored_edges
from regard.run.table import Table
from regard.text import readable

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run.run import Run

_CALL = "sql()"
# The columns of each table but edges, with their types as Arrow calls them.
_COLUMNS: dict[str, dict[str, str]] = {
    "heads": {
        **{"layer": "int32", "name": "string", "head": "int32"},
        **dict.fromkeys(("entropy", "spread", "distance", "first", "self"), "float64"),
        **{"previous": "float64", "induction": "float64", "kind": "string", "score": "float64"},
    },
    "layers": {
        **{"layer": "int32", "name": "string"},
        **dict.fromkeys(("sequences", "heads", "kv_heads", "queries", "keys"), "int32"),
        **{"is_causal": "bool", "is_cross": "bool"},
        **{"window_left": "int64", "window_right": "int64"},
    },
    "tokens": {
        **{"sequence": "int32", "position": "int32", "token": "string"},
        **{"start": "int64", "stop": "int64", "id": "int64"},
    },
}


def sql(
    query: str,
    runs: Mapping[str, Run],
    *,
    min_weight: float | None = None,
    seconds: float | None = None,
    memory: int | None = None,
) -> pa.Table:
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
    return ask(dict(runs), query, min_weight, seconds=seconds, memory=memory, stacklevel=3)


def ask(
    runs: Mapping[str | None, Run] | Mapping[str, Run],
    query: str,
    min_weight: float | None,
    *,
    stacklevel: int,
    seconds: float | None = None,
    memory: int | None = None,
    as_plain: bool = False,
) -> pa.Table:
    """The answer. A run without a name is alone, and its tables have no column `run`.

    `as_plain` has every value as JSON has it.

    >>> from regard.run import Run
    >>> ask({None: Run()}, "select 1 + 1 as two", None, stacklevel=2)
    two
      2
    1 row
    """
    least = LEAST if min_weight is None else check(_CALL, min_weight, None)[0]
    if seconds is not None:
        remedy = "It is how long DuckDB may take; None waits for it, until Ctrl-C."
        seconds = number(_CALL, "seconds", seconds, 0.0, threading.TIMEOUT_MAX, remedy)
        if not seconds:
            raise ValueError(f"{_CALL}: seconds must be a number above 0, or None; got 0. {remedy}")
    if memory is not None:
        remedy = "It is how many bytes the query and its answer may take; "
        remedy += "None is half of what is here."
        memory = whole(_CALL, "memory", memory, 1, 2**63 - 1, remedy)
    duckdb, arrow = need(_CALL, "duckdb", "runs"), need(_CALL, "pyarrow", "runs")
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{_CALL}: query must be a text; got {shown(query)}. Write it in quotes.")
    check_query(duckdb, query)
    tables = tables_for(query, runs, least)
    for table in tables.get("edges", {}).values():
        warn(table, stacklevel)
    room = _half() if memory is None else memory
    found = answer(duckdb, arrow, tables, query, seconds=seconds, memory=room, as_plain=as_plain)
    return Table(found)


def _half() -> int:
    """Half of the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def check_names(query: str) -> None:
    """Raise what `ask` does for a query that no run can answer; nothing is computed."""
    from regard.run.run import Run

    duckdb = need(_CALL, "duckdb", "runs")
    check_query(duckdb, query)
    bind(duckdb, tables_for(query, {None: Run()}), query, _half())


def tables_for(
    query: str, runs: Mapping[str | None, Run] | Mapping[str, Run], least: float = LEAST
) -> Tables:
    """The tables that a query may mean, of all runs."""
    arrow = need(_CALL, "pyarrow", "runs")
    tables = ("edges", *_COLUMNS)
    # A word that is not in the query names no table of it, and edges take time to make.
    asked = [name for name in tables if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
    return {
        name: {key and readable(key): _table(arrow, name, run, least) for key, run in runs.items()}
        for name in asked or tables
    }


def _table(arrow: Any, name: str, run: Run, least: float) -> pa.Table:
    if name == "edges":
        return stored_edges(run, least)
    rows = {"heads": _heads, "layers": _layers, "tokens": _tokens}[name](run)
    kinds = _COLUMNS[name]
    columns = [*zip(*rows, strict=True)] or [()] * len(kinds)
    arrays = [
        arrow.array([readable(x) if isinstance(x, str) else x for x in column], kind)
        for column, kind in zip(columns, map(arrow.type_for_alias, kinds.values()), strict=True)
    ]
    return arrow.table(arrays, list(kinds))


# The rows of each table, in the order of its columns.


def _heads(run: Run) -> Iterator[tuple[Any, ...]]:
    return (tuple(row.values()) for row in run.heads())


def _layers(run: Run) -> Iterator[tuple[Any, ...]]:
    for index, (name, layer) in enumerate(run.layers.items()):
        batch, heads, queries, keys = layer.shape
        kind = layer.options.causal, layer.cross, *(layer.options.window or (None, None))
        yield index, name, batch, heads, layer.kv_heads, queries, keys, *kind


def _tokens(run: Run) -> Iterator[tuple[Any, ...]]:
    ids = run.token_ids.tolist() if run.token_ids is not None and run.token_ids.dim() == 2 else []
    for sequence, (tokens, numbers) in enumerate(zip_longest(run.tokens or [], ids, fillvalue=[])):
        # Where padding has no token, which number is whose cannot be told from here.
        fit = not tokens or len(tokens) == len(numbers)
        for position in range(len(tokens) or len(numbers)):
            token = vars(tokens[position]).values() if tokens else (None, None, None)
            yield sequence, position, *token, numbers[position] if fit else None
