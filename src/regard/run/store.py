"""The edges that `sql` asks and `save` keeps: made once for a run, or read from its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._arguments import shown
from regard._checkpoint.files import own_file
from regard._extras import need
from regard.run.edges import MIN_WEIGHT, NOT_FINITE, TRUNCATED, edge_table, schema
from regard.run.errors import RunError, refusing
from regard.run.old_names import current

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run.run import Run

LEAST = 0.05  # the weight from which on an edge is in the tables of `sql` and in edges.parquet
ID = "regard.run"  # in the metadata of a file: the folder that it was written for
_ROOM, _ROW = 2**26, 64  # bytes of edges.parquet unpacked: in all, and for each edge


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
    """What the edges of a run depend on. Layers never change, so that they are compared as such."""
    return tuple(run.layers.items()), run.tokens and [list(tokens) for tokens in run.tokens]


def stored_edges(run: Run, least: float = LEAST, *, call: str = "sql()") -> pa.Table:
    """The edges of a run from `least` on."""
    now, kept = state(run), run._edges
    if kept is None or kept.least != least or kept.of != now:
        kept = run._edges = Edges(now, least)
    if kept.table is None and kept.file is not None:
        # The weights of a query add up to 1, and to no more.
        rows = sum(layer.lse.numel() for layer in run.layers.values())
        kept.table = _read(kept, kept.file, rows * (int(1 / least) + 1), call)
    if kept.table is None:  # there is no file, or not any more, or it is another run's
        kept.table = edge_table(run, least, call=call)
    return kept.table


def _read(kept: Edges, file: Path, most: int, call: str) -> pa.Table | None:
    """The table of a file, which may be anybody's; None if it is not there, or of another run."""
    with refusing(call):
        if own_file(file.parent, file.name, links=False) is None:
            return None
    arrow, parquet = need(call, "pyarrow", "runs"), need(call, "pyarrow.parquet", "runs")
    try:
        with parquet.ParquetFile(file, page_checksum_verification=True) as opened:
            told = current(dict(opened.schema_arrow.metadata or {}))
            good = [schema(arrow, precise) for precise in (False, True)]
            found, from_weight = opened.schema_arrow, json.loads(told.get(MIN_WEIGHT, b"null"))
            if found not in good or from_weight != kept.least:
                columns = ", ".join(f"{each.name} ({each.type})" for each in found)
                wrong = (
                    f"hold {', '.join(good[0].names)} from a weight of {kept.least} on; got "
                    f"{columns} from {shown(from_weight)} on"
                )
            elif told.get(ID.encode()) != (kept.id and kept.id.encode()):
                return None
            elif (wrong := _wrong(opened.metadata, told, most)) is None:
                return opened.read().replace_schema_metadata(told)
    except (OSError, ValueError, RecursionError, arrow.ArrowException) as error:
        wrong = f"be a whole Parquet file; {' '.join(str(error).split())}"
    raise RunError(
        f"{call}: {file} must {wrong}. Delete it, and load the run again: its edges are then made "
        "anew."
    )


def _wrong(about: Any, told: dict[bytes, bytes], most: int) -> str | None:
    """What is wrong with how much there is, or with what is said about rows that are not whole."""
    truncated, rows = json.loads(told.get(TRUNCATED, b"[]")), json.loads(told.get(NOT_FINITE, b"0"))
    if not isinstance(truncated, list) or not all(
        type(number) is int
        for number in (rows, *(x.get("rows") if isinstance(x, dict) else None for x in truncated))
    ):
        return "say in whole numbers how many of its rows are not whole; it does not"
    if about.num_rows > most:
        return f"have at most {most:,} edges, as the run has no more; got {about.num_rows:,}"
    # A text of a gigabyte that is one letter again and again is packed into a few bytes.
    parts = [about.row_group(n) for n in range(about.num_row_groups)]
    room = sum(part.column(n).total_uncompressed_size for part in parts for n in range(8))
    if not 0 <= room <= _ROOM + _ROW * about.num_rows:
        return f"unpack to at most {_ROOM + _ROW * about.num_rows:,} bytes; got {room:,}"
    return None
