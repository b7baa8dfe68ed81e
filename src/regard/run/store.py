"""The edges that `sql` asks and `save` keeps: made once for a run, or read from its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._arguments import shown
from regard.run.edges import MIN_WEIGHT, NOT_FINITE, TRUNCATED, edges
from regard.run.errors import RunError
from regard.run.extras import need
from regard.run.files import own_file

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run.run import Run

__all__ = ["ID", "LEAST", "Edges", "stored_edges"]

LEAST = 0.05  # the weight from which on an edge is in the tables of `sql` and in edges.parquet
ID = "regard.run"  # in the metadata of a file: the folder that it was written for
_OLD_TRUNCATED = b"regard.cut"  # as 0.1.0 called it
_ROOM, _ROW = 2**26, 64  # bytes of edges.parquet unpacked: in all, and for each edge
_AGAIN = "Delete it, and load the run again: its edges are then made anew."
_NUMBERS = ("sequence", "layer", "head", "query", "key")
_TOKENS = ("query_token", "key_token")


@dataclass
class Edges:
    """The edges of a run as it was then, in a table, or in a file until they are asked for.

    `id` is that of the folder when the run was loaded: another run may have been saved there since.
    """

    of: tuple[Any, ...]
    least: float
    table: pa.Table | None = None
    file: Path | None = None
    id: str | None = None


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
        kept.table = _read(kept, _most(run, least), call)
    if kept.table is None:  # there is none any more, or it is another run's
        kept.table = edges(run, least, call=call)
    return kept.table


def _most(run: Run, least: float) -> int:
    """How many edges there can be: the weights of a query add up to 1, and to no more."""
    rows = sum(layer.lse.numel() for layer in run.layers.values())
    return rows * (int(1 / least) + 1)


def _read(kept: Edges, most: int, call: str) -> pa.Table | None:
    """The table of a file, which may be anybody's; None if it is not there, or of another run."""
    file = kept.file
    assert file is not None
    if not own_file(file, call):
        return None
    arrow, parquet = need(call, "pyarrow"), need(call, "pyarrow.parquet")
    try:
        with parquet.ParquetFile(file, page_checksum_verification=True) as opened:
            told = dict(opened.schema_arrow.metadata or {})
            if _OLD_TRUNCATED in told:
                told[TRUNCATED] = told.pop(_OLD_TRUNCATED)
            found = json.loads(told.get(MIN_WEIGHT, b"null"))
            _check_schema(arrow, opened.schema_arrow, found, kept, call)
            if told.get(ID.encode()) != (kept.id and kept.id.encode()):
                return None
            _check_told(told, file, call)
            if opened.metadata.num_rows > most:
                raise RunError(
                    f"{call}: {file} must have at most {most:,} edges, as the run has no more; "
                    f"got {opened.metadata.num_rows:,}. {_AGAIN}"
                )
            _check_room(opened.metadata, file, call)
            return opened.read().replace_schema_metadata(told)
    except RunError:
        raise
    except (OSError, ValueError, RecursionError, arrow.ArrowException) as error:
        raise RunError(
            f"{call}: {file} must be a whole Parquet file; {' '.join(str(error).split())}. {_AGAIN}"
        ) from None


def _check_room(told: Any, file: Path, call: str) -> None:
    """A text of a gigabyte that is one letter again and again is packed into a few bytes."""
    most = _ROOM + _ROW * told.num_rows
    parts = [told.row_group(n) for n in range(told.num_row_groups)]
    room = sum(part.column(n).total_uncompressed_size for part in parts for n in range(8))
    if not 0 <= room <= most:
        raise RunError(
            f"{call}: {file} must unpack to at most {most:,} bytes; got {room:,}. {_AGAIN}"
        )


def _check_schema(arrow: Any, schema: pa.Schema, found: object, kept: Edges, call: str) -> None:
    token = arrow.dictionary(arrow.int32(), arrow.string())
    kinds = {**dict.fromkeys(_NUMBERS, arrow.int32()), **dict.fromkeys(_TOKENS, token)}
    expected = [
        arrow.schema({**kinds, "weight": weight}) for weight in (arrow.float32(), arrow.float64())
    ]
    if schema not in expected or found != kept.least:
        columns = ", ".join(f"{each.name} ({each.type})" for each in schema)
        raise RunError(
            f"{call}: {kept.file} must hold {', '.join(expected[0].names)} from a weight of "
            f"{kept.least} on; got {columns} from {shown(found)} on. {_AGAIN}"
        )


def _check_told(told: dict[bytes, bytes], file: Path, call: str) -> None:
    """What the metadata say of rows that are not whole, as `edges` says it."""
    truncated, rows = json.loads(told.get(TRUNCATED, b"[]")), json.loads(told.get(NOT_FINITE, b"0"))
    if not isinstance(truncated, list) or not all(
        type(number) is int
        for number in (rows, *(x.get("rows") if isinstance(x, dict) else None for x in truncated))
    ):
        raise RunError(
            f"{call}: {file} must say in whole numbers how many of its rows are not whole; "
            f"it does not. {_AGAIN}"
        )
