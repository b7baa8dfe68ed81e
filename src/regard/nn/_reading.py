"""What a folder must hold to be a model of `regard.nn`, checked before any number is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard._checkpoint import (
    Checkpoint,
    CheckpointError,
    Entry,
    listed,
    own_file,
    plain,
    read_object,
    within,
)
from regard._files import left_over
from regard.nn.config import StackConfig

__all__ = [
    "CONFIG",
    "DTYPES",
    "FORMAT",
    "LIMIT",
    "SAVER",
    "VERSION",
    "WEIGHTS",
    "check_fit",
    "check_folder",
    "check_still_there",
    "differences",
    "fill",
    "outlined",
    "read_config",
    "refuse_absurd",
]

FORMAT, VERSION = "regard.nn", 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
SAVER = "model.save(folder)"
LIMIT = 1_000_000  # bytes of config.json; an honest one has about a thousand
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
}
_AGAIN = "Copy the folder again, whole, and see that its config.json belongs to it."
_LARGEST = 2**31 - 1  # of any whole number in a config
_MOST: dict[str, int] = {
    **dict.fromkeys(("heads", "kv_heads", "layers", "decoder_layers"), 2**16),
    **dict.fromkeys(("window", "distance"), 2**1000),  # which cost no memory
}
# What a model may have beside its weights while it is built: tied tables count several times, and
# a config that is a little wrong is better told which tensors are missing.
_TENSORS, _ROOM = 512, 2**26

M = TypeVar("M", bound=nn.Module)


def check_folder(target: Path) -> None:
    """Raise CheckpointError if there is no such folder."""
    if target.is_dir():
        return
    old = left_over(target)
    if old is not None:
        raise CheckpointError(
            target,
            "be a folder",
            "nothing there",
            f"An interrupted save left the model before it in {plain(old)}: rename that.",
        )
    found = "a file" if target.exists() else "nothing there"
    raise CheckpointError(target, "be a folder", found, f"{SAVER} writes one.")


def read_config(target: Path) -> tuple[StackConfig, Path]:
    """What config.json describes, and the file itself."""
    path = target / CONFIG
    file = own_file(target, CONFIG)
    if file is None:
        raise CheckpointError(
            target, f"hold {CONFIG}", "none", f"Is it a model folder? {SAVER} writes one."
        )
    content = read_object(file, LIMIT)
    if content.get("format") != FORMAT:
        foreign = "model_type" in content
        raise CheckpointError(
            path,
            f"say that its format is {FORMAT}",
            "a model of transformers" if foreign else plain(content.get("format")),
            "regard.models.load(folder) reads it." if foreign else f"{SAVER} writes one.",
        )
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise CheckpointError(
            path,
            f"be of version {VERSION}",
            plain(version),
            "A newer Regard may read it: pip install --upgrade regard.",
        )
    unknown = set(content) - {"format", "version", "config"}
    if unknown:
        raise CheckpointError(
            path, "have format, version and config alone", listed(unknown), "Remove the others."
        )
    described = content.get("config")
    refuse_absurd(described, path)
    try:
        return StackConfig.from_dict(described), file
    except (ValueError, TypeError) as error:
        raise CheckpointError(path, "describe a model", _in_words(error), _AGAIN) from None


def refuse_absurd(described: object, path: Path | str, call: str = "load()") -> None:
    """Raise CheckpointError for whole numbers that no model has."""
    waiting: list[tuple[str, Any]] = [("config", described)]
    while waiting:
        key, value = waiting.pop()
        most = _MOST.get(key, _LARGEST)
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, int) and abs(value) > most:
            expected = f"have whole numbers of at most {most:,} as {plain(key)}"
            raise CheckpointError(path, expected, plain(value), _AGAIN, call=call)


def outlined(
    kind: Callable[[Any], M], config: StackConfig, path: Path, checkpoint: Checkpoint
) -> M:
    """The model without any numbers; refused as soon as it has far more of them than the file."""
    most = 2 * len(checkpoint.names) + _TENSORS
    room = 5 * checkpoint.count + _ROOM
    try:
        with torch.device("meta"), within(path, checkpoint, tensors=most, numbers=room):
            return kind(config)
    except CheckpointError:
        raise
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        expected = "describe a model that can be built"
        raise CheckpointError(path, expected, _in_words(error), _AGAIN) from None


def check_fit(model: nn.Module, target: Path, checkpoint: Checkpoint) -> None:
    """Raise CheckpointError that lists all tensors that are missing, left over or not as wanted."""
    entries: dict[str, Entry] = {}
    for found in checkpoint.files.values():
        entries |= found
    wanted = {name: tuple(part.shape) for name, part in model.named_parameters()}
    problems = differences(wanted, {name: entry.shape for name, entry in entries.items()})
    odd = [
        f"{plain(name)} {entry.dtype}"
        for name, entry in entries.items()
        if name in wanted and entry.dtype not in DTYPES.values()
    ]
    if odd:
        problems.append(f"not one of {', '.join(DTYPES.values())}: {listed(odd)}")
    if problems:
        raise CheckpointError(
            target,
            f"hold exactly the tensors of {type(model).__name__}",
            "; ".join(problems),
            _AGAIN,
        )


def differences(
    wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]
) -> list[str]:
    """What is wrong with the tensors that were found, by name and shape.

    >>> differences({"a": (2,), "b": (3,)}, {"b": (5,), "c": (7,)})
    ['missing: a', 'left over: c', 'of another shape: b [5] instead of [3]']
    """
    shapes = [
        f"{plain(name)} {list(found[name])} instead of {list(shape)}"
        for name, shape in wanted.items()
        if name in found and found[name] != shape
    ]
    all_of_them = {
        "missing": set(wanted) - set(found),
        "left over": set(found) - set(wanted),
        "of another shape": shapes,
    }
    return [f"{what}: {listed(names)}" for what, names in all_of_them.items() if names]


def check_still_there(target: Path, before: os.stat_result) -> None:
    """Raise CheckpointError if another model was saved here since the config was read."""
    file = own_file(target, CONFIG)
    now = None if file is None else file.stat()
    if now is None or (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
        raise CheckpointError(
            target, "stay as it is while it is read", "another model", "Load it again."
        )


def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put the numbers into an outline; what is tied in it stays tied."""
    new = {id(part): nn.Parameter(tensors[name]) for name, part in model.named_parameters()}
    for module in model.modules():
        for name, part in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            setattr(module, name, new[id(part)])


def _in_words(error: Exception) -> str:
    text = str(error).partition("\n")[0].removesuffix(".")
    return f"an error: {plain(text, longest=500)}"
