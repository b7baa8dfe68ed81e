"""Runs on disk: `save` writes a folder whole or not at all, `load` reads it and trusts nothing."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from regard._arguments import shown
from regard._checkpoint.errors import CheckpointError
from regard._checkpoint.files import is_replaced, own_file, read_object
from regard._checkpoint.safetensors_file import Opened, open_tensors, write_tensors
from regard._extras import need
from regard._files import DOCUMENT, EDGES, RUN_FILES, TENSORS, left_over, replacing
from regard.run.errors import AGAIN, RunError, refusing
from regard.run.old_names import current
from regard.run.on_disk import DTYPES, OnDisk
from regard.run.pack import FORMAT, pack, unpack
from regard.run.run import Run
from regard.run.store import ID, LEAST, Edges, state, stored_edges

_LONGEST = 2**28  # bytes of run.json: the names of five million tokens


# ── save ──────────────────────────────────────────────────────────────────────────────────────


def save(run: Run, folder: str | Path) -> None:
    """Keep a run in a folder; what `Run.save` does.

    The new folder is complete, and on the disk, before it takes the place of the old: see
    `regard._files.replacing`. A disk that is full, or may not be written to, raises OSError, and
    leaves the old run as it was.
    """
    with replacing(check_target(folder)) as new:
        document, tensors = pack(run)
        number = secrets.token_hex(16)  # in each of the files, which belong together
        library = need("save()", "safetensors.torch", "runs")
        write_tensors(library, tensors, new / TENSORS, {ID: number})
        edges = stored_edges(run, LEAST, call="save()")
        need("save()", "pyarrow.parquet", "runs").write_table(
            edges.replace_schema_metadata({**(edges.schema.metadata or {}), ID.encode(): number}),
            new / EDGES,
            compression="zstd",
            write_page_checksum=True,
        )
        sizes = {name: (new / name).stat().st_size for name in (TENSORS, EDGES)}
        text = json.dumps({**document, "id": number, "files": sizes}, allow_nan=False, indent=1)
        if len(text) > _LONGEST:
            raise RunError(
                f"save(): {DOCUMENT} must have at most {_LONGEST:,} bytes; it would have "
                f"{len(text):,}. Save fewer sequences at a time, or without tokens."
            )
        (new / DOCUMENT).write_text(text, encoding="utf-8")


def check_target(folder: str | Path) -> Path:
    """Where a run would be kept, if it can be: nothing but a run is ever overwritten."""
    target = Path(folder).resolve()
    with refusing("save()"):
        is_there = is_replaced(target, RUN_FILES, "run")
    if is_there and _document(target, "save()") is None:
        raise RunError(
            f"save(): {target} must hold a run, or be empty; it has no {DOCUMENT}. "
            "Name another folder."
        )
    for library in ("pyarrow.parquet", "safetensors.torch"):
        need("save()", library, "runs")
    return target


# ── load ──────────────────────────────────────────────────────────────────────────────────────


def load(folder: str | Path) -> Run:
    """A run that was saved. Its tensors are in the file, and read when they are looked at.

    RunError, a ValueError, says what is wrong with a folder that is no run, or damaged. Where there
    is only the run before the last save, which was interrupted, a note says so.

    >>> load("no such folder")
    Traceback (most recent call last):
    regard.run.errors.RunError: load(): no such folder must be a folder that run.save(…) made; ...
    """
    given = Path(folder)
    target = given.resolve()
    notes: list[str] = []
    old = left_over(target)
    if old is not None:
        notes = [
            f"{given}: not there. This is the run that an interrupted save left in {old.name} "
            "beside it; delete that if it is not wanted."
        ]
        target = old
    found = "it is a file" if target.exists() else "there is none"
    document = None
    if target.is_dir():
        found, document = f"it has no {DOCUMENT}", _document(target, "load()")
    if document is None:
        raise RunError(
            f"load(): {given} must be a folder that run.save(…) made; {found}. Check the path."
        )
    number = document.get("id")  # which is of this save alone; older runs have none
    if number is not None and not isinstance(number, str):
        raise RunError(
            f"load(): {target / DOCUMENT} must have a text as its id; got {shown(number)}. {AGAIN}"
        )
    has_edges = _check_sizes(target, document)
    opened = _open(target / TENSORS, number)
    tensors = {name: OnDisk.of(opened, x) for name, x in current(opened.entries).items()}
    document = current(document) | {"tensors": current(document.get("tensors"))}
    run = unpack(document, tensors, str(target / DOCUMENT))
    run.notes += notes
    if has_edges:
        run._edges = Edges(state(run), LEAST, file=target / EDGES, id=number)
    return run


def _document(target: Path, call: str) -> dict[str, Any] | None:
    """What run.json says, of a format that can be read here; None if there is no such file."""
    with refusing(call):
        file = own_file(target, DOCUMENT, links=False)
    if file is None:
        return None
    with refusing(call, AGAIN):
        document = read_object(file, _LONGEST)
    form = document.get("format")
    if not isinstance(form, int) or isinstance(form, bool):
        raise RunError(
            f"{call}: {file} must say the format of the run; it does not. "
            "It may be another program's."
        )
    if form != FORMAT and call == "load()":
        raise RunError(
            f"{call}: {file} must be of format {FORMAT}; it is of {form}. "
            "A newer Regard may read it: pip install --upgrade regard."
        )
    return document


def _check_sizes(target: Path, document: dict[str, Any]) -> bool:
    """Are all files there, and as long as they were written? Edges, which are made from the rest,
    may be missing: whether they are there.
    """
    sizes, file = document.get("files"), None
    for name in (TENSORS, EDGES):
        size = sizes.get(name) if isinstance(sizes, dict) else None
        if not isinstance(size, int):
            raise RunError(
                f"load(): {target / DOCUMENT} must say how long {name} is; it does not. {AGAIN}"
            )
        with refusing("load()"):
            file = own_file(target, name, links=False)
        found = "no file" if file is None else f"{file.stat().st_size:,}"
        if found != f"{size:,}" and (file is not None or name != EDGES):
            raise RunError(
                f"load(): {target / name} must be {size:,} bytes long; got {found}. {AGAIN}"
            )
    return file is not None


def _open(file: Path, number: str | None) -> Opened:
    """The tensors of the run with that number."""
    try:
        opened = open_tensors(file)
    except CheckpointError as error:
        raise RunError(
            f"load(): {file} must be a whole safetensors file; it must {error.expected}, and has "
            f"{error.found}. {AGAIN}"
        ) from None
    if opened.about.get(ID, number) != number:
        raise RunError(
            f"load(): {file} must be of the same run as {DOCUMENT}; it is of another. "
            "Load it again if it was being saved, or restore the folder."
        )
    if odd := [name for name, entry in opened.entries.items() if entry.dtype not in DTYPES]:
        raise RunError(
            f"load(): {file} must have tensors of the types {', '.join(DTYPES)}; {shown(odd[0])} "
            f"has another. {AGAIN}"
        )
    return opened
