"""SQL on runs: their tables, and one SELECT on them."""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard._arguments import number, shown, whole
from regard._duckdb import Tables, answer, bind, check_query
from regard._extras import need
from regard.run.edges import check, warn
from regard.run.heads import Head
from regard.run.store import LEAST, stored_edges
from regard.run.tokens import readable

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run.run import Run

_CALL = "sql()"
_TABLES = ("edges", "heads", "layers", "tokens")


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
    >>> ask({None: Run()}, "select 1 + 1 as two", None, stacklevel=2).to_pylist()
    [{'two': 2}]
    """
    least = LEAST if min_weight is None else check(_CALL, min_weight, None)[0]
    seconds, memory = _seconds(seconds), _memory(memory)
    duckdb, arrow = need(_CALL, "duckdb", "runs"), need(_CALL, "pyarrow", "runs")
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{_CALL}: query must be a text; got {shown(query)}. Write it in quotes.")
    check_query(duckdb, query)
    tables = tables_for(query, runs, least, stacklevel=stacklevel + 1)
    return answer(duckdb, arrow, tables, query, seconds=seconds, memory=memory, as_plain=as_plain)


def check_names(query: str) -> None:
    """Raise what `ask` does for a query that no run can answer; nothing is computed.

    >>> check_names("select weight from edges")
    """
    from regard.run.run import Run

    duckdb = need(_CALL, "duckdb", "runs")
    check_query(duckdb, query)
    bind(duckdb, tables_for(query, {None: Run()}, stacklevel=3), query, _memory(None))


def tables_for(
    query: str,
    runs: Mapping[str | None, Run] | Mapping[str, Run],
    least: float = LEAST,
    *,
    stacklevel: int,
) -> Tables:
    """The tables that a query may mean, of all runs.

    >>> from regard.run import Run
    >>> list(tables_for("select * from Heads", {None: Run()}, stacklevel=2))
    ['heads']
    """
    arrow = need(_CALL, "pyarrow", "runs")
    # A word that is not in the query names no table of it, and edges take time to make.
    asked = [name for name in _TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
    found: dict[str, dict[str | None, pa.Table]] = {}
    for name in asked or _TABLES:
        found[name] = {
            key and readable(key): _table(arrow, name, run, least) for key, run in runs.items()
        }
    for table in found.get("edges", {}).values():
        warn(table, stacklevel)
    return found


def _seconds(given: object) -> float | None:
    if given is None:
        return None
    remedy = "It is how long DuckDB may take; None waits for it, until Ctrl-C."
    return number(_CALL, "seconds", given, math.ulp(0.0), threading.TIMEOUT_MAX, remedy)


def _memory(given: object) -> int:
    if given is None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    remedy = "It is how many bytes the query and its answer may take; None is half of what is here."
    return whole(_CALL, "memory", given, 1, 2**63 - 1, remedy)


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
