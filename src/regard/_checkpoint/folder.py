"""A model folder: which of its files are read, what they hold, and what may be built from it.

Only what has a known name is ever opened. Weights are safetensors files and nothing else: a pickle
is a program, and loading one runs it.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import (
    COPY_FILE,
    COPY_FOLDER,
    COPY_MODEL,
    CheckpointError,
    listed,
    plain,
    reading,
)
from regard._checkpoint.files import own_file, read_object
from regard._checkpoint.safetensors_file import Entry, open_tensors, read_header

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_INDEX_LIMIT = 100_000_000
_BARE = re.compile(r"[^./\\:][^/\\:]*\.safetensors")  # the name of a file in the same folder
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


# ── which files ───────────────────────────────────────────────────────────────────────────────


def read_checkpoint(folder: Path, saver: str = "model.save_pretrained(folder)") -> Checkpoint:
    """The weights of a folder: `model.safetensors`, or the shards that its index names.

    `saver` is the call that writes such a folder, for what an error says to do.
    """
    single = own_file(folder, _SINGLE)
    if single is not None:
        return Checkpoint(folder, {single: read_header(single)})
    index = own_file(folder, _INDEX)
    if index is not None:
        return _sharded(folder, read_object(index, _INDEX_LIMIT).get("weight_map"))
    with reading(folder):
        names = [path.name for path in folder.iterdir()]
    pickles = [name for name in names if Path(name).suffix.lower() in _PICKLES]
    if pickles:
        raise CheckpointError(
            folder,
            f"hold {_SINGLE}",
            f"only {listed(pickles)}",
            "These are pickles: programs, which are never run here. Save the model once more where "
            f"you trust it, with {saver}, which writes safetensors.",
        )
    found, remedy = listed(names) or "an empty folder", f"Is it a model folder? {saver} writes one."
    raise CheckpointError(folder, f"hold {_SINGLE} or {_INDEX}", found, remedy)


def _sharded(folder: Path, places: object) -> Checkpoint:
    """The shards of an index, each with exactly the tensors that the index says it has."""
    index = folder / _INDEX
    if not isinstance(places, dict) or not all(isinstance(x, str) for x in places.values()):
        expected = "have a weight_map from each tensor to the name of its file"
        raise CheckpointError(index, expected, "something else", COPY_FILE)
    shards: set[str] = set(places.values())
    bad = [shard for shard in shards if not (_BARE.fullmatch(shard) and shard.isprintable())]
    if bad:
        raise CheckpointError(
            index,
            "name its shards by bare names of .safetensors files in the same folder",
            listed(bad),
            "Do not use this folder: an honest one never looks like this.",
        )
    found = {shard: path for shard in sorted(shards) if (path := own_file(folder, shard))}
    if len(found) < len(shards):
        missing = f"none of the name {listed(shards - set(found))}"
        expected = "hold every shard that its index names"
        raise CheckpointError(folder, expected, missing, "Copy the missing files into it.")
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
        raise CheckpointError(index, "say which tensor is where", listed(wrong), COPY_FOLDER)
    return Checkpoint(folder, files)


# ── the numbers ───────────────────────────────────────────────────────────────────────────────


def read_tensors(
    checkpoint: Checkpoint, *, dtype: torch.dtype | None = None, allow_not_finite: bool = False
) -> dict[str, Tensor]:
    """All tensors by name; those of floating point as `dtype`, if there is one, else as they are.

    They are in memory: what happens to the files later does not reach them. Raises CheckpointError
    if any is NaN or infinite, unless `allow_not_finite`.
    """
    found: dict[str, Tensor] = {}
    bad: list[tuple[str, str]] = []
    for path, entries in checkpoint.files.items():
        with contextlib.closing(open_tensors(path)) as opened:
            if opened.entries != entries:
                expected = "stay as it is while it is read"
                raise CheckpointError(path, expected, "another header", "Load it again.")
            for name, entry in entries.items():
                tensor = opened.tensor(entry)
                if tensor.is_floating_point():
                    tensor = tensor.to(dtype or tensor.dtype)
                    # The extremes tell whether all are finite, and cost no second tensor.
                    ends = tensor.aminmax() if tensor.numel() and not allow_not_finite else ()
                    if not all(end.isfinite() for end in ends):
                        bad.append((plain(name), path.name))
                found[name] = tensor
    if bad:
        kind = "" if dtype is None else f" in {str(dtype).removeprefix('torch.')}"
        raise CheckpointError(
            checkpoint.folder,
            f"have finite weights{kind}",
            f"NaN or infinity in {listed(f'{name} in {file}' for name, file in bad)}",
            "The model would compute NaN. Load with allow_not_finite=True to look at it all the "
            "same.",
            tensor=bad[0][0] if len(bad) == 1 else None,
        )
    return found


# ── what may be built ─────────────────────────────────────────────────────────────────────────


def each_key(described: object) -> list[tuple[object, str, Any]]:
    """All keys of all objects inside of a JSON value, with the object, and what they lead to: a
    list that a key leads to, and each thing in it.
    """
    found: list[tuple[object, str, Any]] = []
    waiting: list[tuple[object, str, Any]] = [(None, "", described)]
    while waiting:
        _, key, value = waiting.pop()
        inside: list[tuple[object, str, Any]] = []
        if isinstance(value, dict):
            inside = [(value, name, each) for name, each in value.items()]
        elif isinstance(value, list):
            inside = [(value, key, each) for each in value]
        found += inside
        waiting += inside
    return found


def refuse_large(
    described: object, file: str | Path, most: Callable[[str], int], call: str = "load()"
) -> None:
    """Raise CheckpointError for whole numbers that no model has: `most` tells by their keys."""
    for _, key, value in each_key(described):
        if isinstance(value, int) and abs(value) > most(key):
            expected = f"have whole numbers of at most {most(key):,} as {plain(key)}"
            raise CheckpointError(file, expected, plain(value), COPY_MODEL, call=call)


def differences(
    missing: Iterable[str],
    left_over: Iterable[str],
    other_shape: Iterable[tuple[str, Sequence[int], Sequence[int]]],
) -> list[str]:
    """What is wrong with the tensors that were found, all at once; nothing if they are as wanted.

    `other_shape` has the names, the shapes that were found, and those that were wanted.

    >>> differences(["a"], [], [("b", (2, 3), (3, 2))])
    ['missing: a', 'of another shape: b [2, 3] instead of [3, 2]']
    """
    wrong = {
        "missing": missing,
        "left over": left_over,
        "of another shape": [
            f"{plain(name)} {list(came)} instead of {list(wanted)}"
            for name, came, wanted in other_shape
        ],
    }
    return [f"{what}: {names}" for what, each in wrong.items() if (names := listed(each))]


@contextlib.contextmanager
def within(file: Path, checkpoint: Checkpoint, *, tensors: int, numbers: int) -> Generator[None]:
    """Refuse a model that is being built in this thread once it has more parameters than this.

    `file` is the config that describes it. A parameter that is set twice counts twice.
    """
    from torch.nn.modules.module import register_module_parameter_registration_hook

    thread = threading.get_ident()
    counted = [0, 0]

    def count(module: object, name: str, parameter: Tensor | None) -> None:
        if parameter is None or threading.get_ident() != thread:
            return
        counted[0] += 1
        counted[1] += parameter.numel()
        if counted[0] > tensors:
            raise too_large(file, len(checkpoint.names), "tensors", f"more than {tensors:,}")
        if counted[1] > numbers:
            raise too_large(file, checkpoint.count, "numbers", f"more than {numbers:,}")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def too_large(file: Path, held: int, of_what: str, found: str) -> CheckpointError:
    """The error for a config that describes more than the folder holds."""
    expected = f"describe a model of about the {held:,} {of_what} that the folder holds"
    return CheckpointError(file, expected, f"one of {found}", COPY_FOLDER)
