"""Shards: the folder of a unit's tables, which is whole or not there.

It is written under a name that begins with a dot; each file is on the disk before `unit.json` is,
which has their sizes and SHA-256, and only then does the folder get its own name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import CheckpointError
from regard._checkpoint.files import own_file, read_object
from regard._extras import need
from regard._files import naming, sync

if TYPE_CHECKING:
    import pyarrow as pa

UNITS, ABOUT = "units", "unit.json"
TABLES = ("texts", "heads", "edges", "sketches")
_LEFT = re.compile(r"\.unit-\d{6,}-[0-9a-f]{16}")
_LIMIT = 10_000_000


def at_moment(moment: str) -> None:
    """Called with the name of each moment of a write: what tests of crashes put another in for."""


def name_of(unit: int) -> str:
    """The folder of a unit.

    >>> name_of(7)
    'unit-000007'
    """
    return f"unit-{unit:06}"


def packed(table: pa.Table) -> bytes:
    """A table as a Parquet file, the same bytes for the same rows."""
    arrow, parquet = (
        need("corpus()", "pyarrow", "runs"),
        need("corpus()", "pyarrow.parquet", "runs"),
    )
    stream = arrow.BufferOutputStream()
    parquet.write_table(table, stream, compression="zstd", write_page_checksum=True)
    return stream.getvalue().to_pybytes()


def entry_of(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def write_shard(
    out: Path, unit: int, tables: Mapping[str, pa.Table], about: Mapping[str, Any]
) -> None:
    """Write the tables of a unit. OSError, which names the folder, leaves no trace of it."""
    place = out / UNITS
    target, new = place / name_of(unit), place / f".{name_of(unit)}-{secrets.token_hex(8)}"
    with naming(target):
        try:
            new.mkdir()
            files: dict[str, Any] = {}
            for name in TABLES:
                content = packed(tables[name])
                _write(new / f"{name}.parquet", content)
                files[f"{name}.parquet"] = entry_of(content)
                at_moment(name)
            _write(new / ABOUT, json.dumps({**about, "files": files}, indent=1).encode() + b"\n")
            at_moment("about")
            sync(new)
            at_moment("synced")
            try:
                new.rename(target)
            except OSError:
                if read_about(target) is None:
                    raise
                shutil.rmtree(new, ignore_errors=True)  # another process was faster
            at_moment("renamed")
            sync(place)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
    sync(path)


def read_about(folder: Path) -> dict[str, Any] | None:
    """What the shard of a unit says of itself, if it is there and all of its files have the sizes
    that it says; None if not.
    """
    try:
        file = own_file(folder, ABOUT, links=False)
        about = {} if file is None else read_object(file, _LIMIT)
        files = about.get("files")
        if not isinstance(files, dict) or set(files) != {f"{name}.parquet" for name in TABLES}:
            return None
        for name, entry in files.items():
            path = own_file(folder, name, links=False)
            if path is None or path.stat().st_size != entry["bytes"]:
                return None
    except (CheckpointError, OSError, KeyError, TypeError):
        return None
    return about


def sweep(out: Path) -> None:
    """Remove what writers that live no more have left."""
    for path in (out / UNITS).iterdir():
        if _LEFT.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def remove_damaged(out: Path, units: int) -> list[int]:
    """Remove shards that are not as they were written; which those were."""
    damaged: list[int] = []
    for unit in range(units):
        folder = out / UNITS / name_of(unit)
        if folder.exists() and read_about(folder) is None:
            trash = folder.with_name(f".{name_of(unit)}-{secrets.token_hex(8)}")
            with contextlib.suppress(FileNotFoundError):
                folder.rename(trash)
                shutil.rmtree(trash, ignore_errors=True)
            damaged.append(unit)
    return damaged
