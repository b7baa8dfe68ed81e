"""Runs on disk: `save` writes a folder whole or not at all, `load` reads it and trusts nothing."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

from regard.run.errors import RunError
from regard.run.extras import need
from regard.run.pack import FORMAT, pack, unpack
from regard.run.run import Run
from regard.run.store import LEAST, Edges, state, stored_edges

__all__ = ["RunError", "load", "save"]

_DOCUMENT, _TENSORS, _EDGES = "run.json", "tensors.safetensors", "edges.parquet"


# ── save ──────────────────────────────────────────────────────────────────────────────────────


def save(run: Run, folder: str | Path) -> None:
    """Keep a run in a folder; what `Run.save` does.

    The new folder is complete, and on the disk, before it takes the place of the old. A crash
    leaves the one or the other; between the two renames the old one has a name beside the folder,
    where `load` finds it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save(Run(), Path(place, "one"))
    ...     sorted(file.name for file in Path(place, "one").iterdir())
    ['edges.parquet', 'run.json', 'tensors.safetensors']
    """
    target = Path(folder).resolve()
    _check_target(target)
    for library in ("pyarrow.parquet", "safetensors.torch"):
        need("save()", library)
    target.parent.mkdir(parents=True, exist_ok=True)
    new = _beside(target, f"{secrets.token_hex(8)}.tmp")
    try:
        new.mkdir()
        _write(run, new)
        _replace(target, new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _check_target(target: Path) -> None:
    """Refuse to overwrite anything but a run."""
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir():
        raise RunError(
            f"save(): {target} must be a folder, or not be there; it is a file. Name another."
        )
    others = sorted({each.name for each in target.iterdir()} - {_DOCUMENT, _TENSORS, _EDGES})
    if others:
        raise RunError(
            f"save(): {target} must hold a run and nothing else, or be empty, as it is replaced; "
            f"it holds {', '.join(others[:3])}. Name another folder, or move that away."
        )
    if (target / _DOCUMENT).exists():
        _document(target, "save()")
    elif any(target.iterdir()):
        raise RunError(
            f"save(): {target} must hold a run, or be empty; it has no {_DOCUMENT}. "
            "Name another folder."
        )


def _write(run: Run, new: Path) -> None:
    """All files of a run, down to the disk."""
    document, tensors = pack(run)
    need("save()", "safetensors.torch").save_file(tensors, new / _TENSORS)
    need("save()", "pyarrow.parquet").write_table(
        stored_edges(run, LEAST, call="save()"),
        new / _EDGES,
        compression="zstd",
        write_page_checksum=True,
    )
    sizes = {name: (new / name).stat().st_size for name in (_TENSORS, _EDGES)}
    text = json.dumps({**document, "files": sizes}, allow_nan=False, indent=1)
    (new / _DOCUMENT).write_text(text, encoding="utf-8")
    for name in (_TENSORS, _EDGES, _DOCUMENT):
        _sync(new / name)
    _sync(new)


def _replace(target: Path, new: Path) -> None:
    old, trash = _old(target), _beside(target, f"{secrets.token_hex(8)}.trash")
    if target.exists():
        if old.exists():  # from a crash, after which the folder was whole again
            old.rename(trash)
            shutil.rmtree(trash)
        target.rename(old)
        try:
            new.rename(target)
        except BaseException:
            old.rename(target)
            raise
    else:
        new.rename(target)
    _sync(target.parent)
    if old.exists():
        # What stays there under its name could be taken for the run one day.
        with contextlib.suppress(OSError):  # the new run is in its place; this is only room
            old.rename(trash)
            shutil.rmtree(trash)


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.regard-{ending}")


def _old(target: Path) -> Path:
    """Where the old run is between the two renames."""
    return _beside(target, "old")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ── load ──────────────────────────────────────────────────────────────────────────────────────


def load(folder: str | Path) -> Run:
    """A run that was saved. Tensors are mapped from the file, and read when they are looked at.

    RunError, a ValueError, says in words what is wrong with a folder that is no run, or damaged.

    >>> load("no such folder")
    Traceback (most recent call last):
    regard.run.errors.RunError: load(): no such folder must be a folder that run.save(…) made; ...
    """
    given = Path(folder)
    target = given.resolve()
    if not target.exists() and _old(target).is_dir():
        target = _old(target)  # a crash came while the run was replaced
    if not target.is_dir():
        found = "it is a file" if target.exists() else "there is none"
        raise RunError(
            f"load(): {given} must be a folder that run.save(…) made; {found}. Check the path."
        )
    document = _document(target, "load()")
    _check_sizes(target, document)
    safetensors = need("load()", "safetensors")
    file = target / _TENSORS
    try:
        with safetensors.safe_open(file, framework="pt", device="cpu") as opened:
            run = unpack(document, set(opened.keys()), opened.get_tensor, str(target / _DOCUMENT))
    except (OSError, safetensors.SafetensorError) as error:
        raise RunError(
            f"load(): {file} must be a whole safetensors file; {error}. "
            "Save the run again, or restore the folder."
        ) from None
    if (target / _EDGES).exists():
        run._edges = Edges(state(run), LEAST, file=target / _EDGES)
    return run


def _document(target: Path, call: str) -> dict[str, Any]:
    """What run.json says, of a format that can be read here."""
    file = target / _DOCUMENT
    try:
        document = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise RunError(
            f"{call}: {target} must be a folder that run.save(…) made; it has no {_DOCUMENT}. "
            "Check the path."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(
            f"{call}: {file} must be JSON; {error}. Save the run again, or restore the folder."
        ) from None
    form = document.get("format") if isinstance(document, dict) else None
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


def _check_sizes(target: Path, document: dict[str, Any]) -> None:
    """Are all files there, and as long as they were written?"""
    sizes = document.get("files")
    for name in (_TENSORS, _EDGES):
        size = sizes.get(name) if isinstance(sizes, dict) else None
        file = target / name
        if not isinstance(size, int):
            raise RunError(
                f"load(): {target / _DOCUMENT} must say how long {name} is; it does not. "
                "Save the run again, or restore the folder."
            )
        if not file.exists() and name == _EDGES:
            continue  # they are made from the rest
        found = f"{file.stat().st_size:,}" if file.exists() else "no file"
        if found != f"{size:,}":
            raise RunError(
                f"load(): {file} must be {size:,} bytes long; got {found}. "
                "Save the run again, or restore the folder."
            )
