"""Checkpoints: folders that are whole or not there, each with a manifest that was written last.

A checkpoint is written under a name that begins with a dot, every file of it is on the disk before
its manifest is, and only then does it get its own name. What is read must have the sizes and the
SHA-256 of its manifest. So whenever the machine stops, the newest whole one is found again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard._checkpoint.errors import CheckpointError, plain
from regard._checkpoint.files import read_object
from regard._checkpoint.safetensors_file import open_tensors, write_tensors
from regard._extras import need
from regard._files import naming, sync
from regard.nn import Model

MANIFEST, STATE, OPTIMIZER = "manifest.json", "state.json", "optimizer.safetensors"
_NAME = re.compile(r"step-(\d{9})")
_LEFT = re.compile(r"\.+step-\d{9}(\.old|\.regard-.*)?")
_LIMIT = 10_000_000
_FILES = (MANIFEST, STATE, OPTIMIZER, "config.json", "model.safetensors")


def at_moment(moment: str) -> None:
    """Called with the name of each moment of a save: what tests of crashes put another in for."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was found whole: its folder, its step, and what it says of itself."""

    folder: Path
    step: int
    state: dict[str, Any]

    def tensors(self) -> dict[str, Tensor]:
        """Of the optimiser, and the random states."""
        with contextlib.closing(open_tensors(self.folder / OPTIMIZER)) as opened:
            return {name: opened.tensor(entry) for name, entry in opened.entries.items()}

    def model(self) -> Model:
        from regard.nn import load

        return load(self.folder)


def save(
    place: Path, step: int, model: Model, tensors: Mapping[str, Tensor], state: Mapping[str, Any]
) -> Path:
    """Write a checkpoint of a step to the folder of checkpoints. OSError leaves no trace of it."""
    library = need("train()", "safetensors.torch", "models")
    target, new = place / f"step-{step:09}", place / f".step-{step:09}"
    with naming(target):
        shutil.rmtree(new, ignore_errors=True)
        try:
            model.save(new)
            at_moment("model")
            write_tensors(library, dict(tensors), new / OPTIMIZER, {"format": "pt"})
            _write(new / STATE, state)
            at_moment("state")
            for file in new.iterdir():
                sync(file)
            at_moment("synced")
            files = {path.name: _entry(path) for path in sorted(new.iterdir())}
            _write(new / MANIFEST, {"step": step, "files": files})
            sync(new / MANIFEST)
            sync(new)
            at_moment("manifest")
            old = place / f".step-{step:09}.old"
            if target.exists():  # one of the same step, which this one equals, or which is broken
                shutil.rmtree(old, ignore_errors=True)
                target.rename(old)
                at_moment("moved")
            new.rename(target)
            at_moment("renamed")
            sync(place)
            shutil.rmtree(old, ignore_errors=True)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    at_moment("saved")
    return target


def newest(place: Path, tell: Callable[[str], None] | None = None) -> Saved | None:
    """The newest checkpoint that is whole; broken ones are told of, and passed over."""
    if not place.is_dir():
        return None
    found = _folders(place)
    for folder in found:
        try:
            return check(folder)
        except (CheckpointError, OSError) as error:
            message = f"train(): passing over {folder.name}, which is broken: {error}"
            if tell is None:
                warnings.warn(message, stacklevel=2)
            else:
                tell(message.removeprefix("train(): "))
    if found:
        expected = "hold a whole checkpoint"
        remedy = "Put one back, or name another folder to begin anew."
        raise CheckpointError(place, expected, "broken ones alone", remedy, call="train()")
    return None


def at_step(place: Path, step: int) -> Saved | None:
    """The checkpoint of a step, if it is there and whole."""
    with contextlib.suppress(CheckpointError, OSError):
        return check(place / f"step-{step:09}")
    return None


def check(folder: Path) -> Saved:
    """A checkpoint whose files are what its manifest says. Raises CheckpointError otherwise."""
    if not (folder / MANIFEST).is_file():
        raise _broken(folder, f"hold {MANIFEST}, which is written last", "none")
    manifest = read_object(folder / MANIFEST, _LIMIT)
    files, step = manifest.get("files"), manifest.get("step")
    if not isinstance(files, dict) or not isinstance(step, int) or STATE not in files:
        raise _broken(folder / MANIFEST, "name the step and the files", "something else")
    if folder.name != f"step-{step:09}":
        raise _broken(folder, f"be called step-{step:09}, as it is of that step", folder.name)
    for name, entry in files.items():
        path = folder / name
        if name not in _FILES or not isinstance(entry, dict):
            raise _broken(folder / MANIFEST, "name files of a checkpoint", plain(name))
        if not path.is_file() or path.is_symlink():
            raise _broken(folder, f"hold {name}", "none")
        if path.stat().st_size != entry.get("bytes"):
            raise _broken(path, f"have {entry.get('bytes')} bytes", f"{path.stat().st_size}")
        if _entry(path) != entry:
            raise _broken(path, "have the content that was written", "another one")
    return Saved(folder, step, read_object(folder / STATE, _LIMIT))


def sweep(place: Path, keep: int, newest: int, best: int | None) -> None:
    """Remove all but so many up to the `newest` step, and that of the `best` one; what a crash
    left; and those of later steps, which were broken and passed over.
    """
    name = f"step-{newest:09}"
    found = _folders(place)
    later = [folder for folder in found if folder.name > name]
    for folder in [*later, *found[len(later) :][keep:]]:
        if best is None or folder.name != f"step-{best:09}":
            # Its name goes first: half of it is never taken for a checkpoint.
            trash = folder.with_name(f".{folder.name}.old")
            shutil.rmtree(trash, ignore_errors=True)
            folder.rename(trash)
            shutil.rmtree(trash, ignore_errors=True)
    for left in place.iterdir():
        if _LEFT.fullmatch(left.name):
            shutil.rmtree(left, ignore_errors=True)


def _folders(place: Path) -> list[Path]:
    """Newest first."""
    found = [path for path in place.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, reverse=True)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, allow_nan=True) + "\n", encoding="utf-8")


def _entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": digest}


def _broken(path: Path, expected: str, found: str) -> CheckpointError:
    return CheckpointError(path, expected, found, "", call="train()")
