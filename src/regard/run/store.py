"""The edges that `sql` asks and `save` keeps: made once for a run, or read from its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.run.edges import MIN_WEIGHT, edges
from regard.run.errors import RunError
from regard.run.extras import need

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run.run import Run

__all__ = ["LEAST", "Edges", "stored_edges"]

LEAST = 0.05  # the weight from which on an edge is in the tables of `sql` and in edges.parquet


@dataclass
class Edges:
    """The edges of a run as it was then, in a table, or in a file until they are asked for."""

    of: tuple[Any, ...]
    least: float
    table: pa.Table | None = None
    file: Path | None = None


def state(run: Run) -> tuple[Any, ...]:
    """What the edges of a run depend on. Layers never change, so that they are compared as such.

    >>> from regard.run import Run
    >>> run = Run()
    >>> state(run) == state(run)
    True
    """
    return tuple(run.layers.items()), run.tokens and [list(tokens) for tokens in run.tokens]


def stored_edges(run: Run, least: float = LEAST, *, call: str = "sql()") -> pa.Table:
    """The edges of a run from `least` on.

    >>> from regard.run import Run
    >>> stored_edges(Run()).num_rows
    0
    """
    now, kept = state(run), run._edges
    if kept is None or kept.least != least or kept.of != now:
        kept = run._edges = Edges(now, least, edges(run, least, call=call))
    if kept.table is None:
        assert kept.file is not None
        kept.table = _read(kept.file, least, call)
    return kept.table


def _read(file: Path, least: float, call: str) -> pa.Table:
    arrow, parquet = need(call, "pyarrow"), need(call, "pyarrow.parquet")
    try:
        table = parquet.read_table(file, page_checksum_verification=True)
        found = json.loads((table.schema.metadata or {}).get(MIN_WEIGHT, b"null"))
        names = table.column_names
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise RunError(
            f"{call}: {file} must be a whole Parquet file; {' '.join(str(error).split())}. "
            "Delete it, and load the run again: its edges are then made anew."
        ) from None
    expected = ["sequence", "layer", "head", "query", "key", "query_token", "key_token", "weight"]
    if names != expected or found != least:
        raise RunError(
            f"{call}: {file} must hold {', '.join(expected)} from a weight of {least} on; "
            f"got {', '.join(names)} from {found} on. "
            "Delete it, and load the run again: its edges are then made anew."
        )
    return table
