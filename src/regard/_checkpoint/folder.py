"""A model folder: which of its files are read, and what they hold.

Only what has a known name is ever opened. Weights are safetensors files and nothing else: a pickle
is a program, and loading one runs it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from regard._checkpoint.errors import CheckpointError, listed, plain
from regard._checkpoint.header import Entry, read_header
from regard._checkpoint.strict_json import read_object

__all__ = ["Checkpoint", "own_file", "read_checkpoint"]

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_INDEX_LIMIT = 100_000_000
_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz"}


@dataclass(frozen=True)
class Checkpoint:
    """The weights of a folder: each file with its tensors. All headers have been checked."""

    folder: Path
    files: dict[Path, dict[str, Entry]]

    @property
    def names(self) -> set[str]:
        """The names of all tensors."""
        return {name for entries in self.files.values() for name in entries}

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return sum(entry.count for entries in self.files.values() for entry in entries.values())


def own_file(folder: Path, name: str) -> Path | None:
    """The file of that name in a folder, its links followed; None if there is none.

    Raises CheckpointError if it is no regular file, or stands outside of the folder. The links of
    a Hugging Face cache, from `snapshots/<revision>/` into its own `blobs/`, are allowed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "config.json").symlink_to("..")
    ...     own_file(Path(folder), "config.json")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ...config.json must be a file of the folder
    itself; got a link that leads out of it. Put the file itself into the folder.
    """
    path = folder / name
    if not os.path.lexists(path):
        return None
    home = folder.resolve()
    roots = [home]
    blobs = home.parent.parent / "blobs"
    if home.parent.name == "snapshots" and blobs.is_dir():
        roots.append(blobs)
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        raise CheckpointError(
            path, "be a file", "a link that leads nowhere", "Copy the folder again, whole."
        ) from None
    if not any(target.is_relative_to(root) for root in roots):
        raise CheckpointError(
            path,
            "be a file of the folder itself",
            "a link that leads out of it",
            "Put the file itself into the folder.",
        )
    if not target.is_file():
        raise CheckpointError(
            path, "be a regular file", "something else", "Copy the folder again, whole."
        )
    return target


def read_checkpoint(folder: Path, saver: str = "model.save_pretrained(folder)") -> Checkpoint:
    """The weights of a folder: `model.safetensors`, or the shards that its index names.

    `saver` is the call that writes such a folder, for what an error says to do.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "pytorch_model.bin").write_bytes(b"")
    ...     read_checkpoint(Path(folder))
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ... must hold model.safetensors; got only
    pytorch_model.bin. These are pickles: programs, which are never run here. Save the model once
    more where you trust it, with model.save_pretrained(folder), which writes safetensors.
    """
    single = own_file(folder, SINGLE)
    if single is not None:
        return Checkpoint(folder, {single: read_header(single)})
    if own_file(folder, INDEX) is not None:
        return _sharded(folder)
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError as error:
        raise CheckpointError(
            folder, "be readable", str(error.strerror or error), "Check its permissions."
        ) from error
    pickles = [name for name in names if Path(name).suffix.lower() in _PICKLES]
    if pickles:
        raise CheckpointError(
            folder,
            f"hold {SINGLE}",
            f"only {listed(pickles)}",
            "These are pickles: programs, which are never run here. Save the model once more where "
            f"you trust it, with {saver}, which writes safetensors.",
        )
    raise CheckpointError(
        folder,
        f"hold {SINGLE} or {INDEX}",
        listed(names) or "an empty folder",
        f"Is it a model folder? {saver} writes one.",
    )


def _sharded(folder: Path) -> Checkpoint:
    """The shards of an index, each with exactly the tensors that the index says it has."""
    index = folder / INDEX
    file = own_file(folder, INDEX)
    places = read_object(file, _INDEX_LIMIT).get("weight_map") if file is not None else None
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise CheckpointError(
            index,
            "have a weight_map from each tensor to the name of its file",
            "something else",
            "Copy the file again from where it came from.",
        )
    shards: set[str] = set(places.values())
    bad = [shard for shard in shards if not _is_bare(shard)]
    if bad:
        raise CheckpointError(
            index,
            "name its shards by bare names of .safetensors files in the same folder",
            listed(bad),
            "Do not use this folder: an honest one never looks like this.",
        )
    found: dict[str, Path] = {}
    for shard in sorted(shards):
        path = own_file(folder, shard)
        if path is not None:
            found[shard] = path
    if len(found) < len(shards):
        raise CheckpointError(
            folder,
            "hold every shard that its index names",
            f"none of the name {listed(shards - set(found))}",
            "Copy the missing files into it.",
        )
    files = {path: read_header(path) for path in found.values()}
    wrong = [
        f"{plain(name)} is not in {shard}"
        for name, shard in places.items()
        if name not in files[found[shard]]
    ] + [
        f"{plain(name)} is in {shard}, but not by the index"
        for shard, path in found.items()
        for name in files[path]
        if places.get(name) != shard
    ]
    if wrong:
        raise CheckpointError(
            index, "say which tensor is where", listed(wrong), "Copy the folder again, whole."
        )
    return Checkpoint(folder, files)


def _is_bare(name: str) -> bool:
    return (
        name.endswith(".safetensors")
        and name.isprintable()
        and not name.startswith(".")
        and not set(name) & set("/\\:")
    )
