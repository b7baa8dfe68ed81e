"""A training that may be going on: what its folder says of it meanwhile, read without torch."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._checkpoint.errors import CheckpointError, reading
from regard._checkpoint.files import open_own, own_file, read_object
from regard._checkpoint.safetensors_file import open_tensors

RECIPE, LOG, PICTURES = "recipe.toml", "log.jsonl", "pictures"
_PICTURE = re.compile(r"step-(\d{9})\.safetensors")
_MOST_WEIGHTS = 50_000_000  # of one layer in a picture: what is larger, no training wrote
_MOST_STATE = 10_000_000  # bytes of what a checkpoint says of itself
_MOST_WORDS = 300  # letters of where a loss was no number first
_LATELY = 60.0  # seconds; on a disk without locks, who wrote to the log since then still trains


# ── the log ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Lines:
    """Some lines of a log, and where the next one begins."""

    lines: list[dict[str, Any]]
    end: int
    broken: int  # lines that say nothing
    more: bool


def lines_after(path: Path, after: int = 0, most: int | None = None) -> Lines:
    """The whole lines of a log from a byte on, of at most so many bytes; none if there is no log.

    A line that is only half written is left for the next time. Where the log is shorter than
    `after`, as it was cut to go on from a checkpoint, `end` is 0: it is to be read anew.
    """
    try:
        handle = open_own(path)
    except CheckpointError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return Lines([], 0, 0, False)
        raise
    with reading(path), os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        if after > size:
            return Lines([], 0, 0, False)
        file.seek(after)
        content = file.read(size - after if most is None else min(most, size - after))
    more = after + len(content) < size
    used = content.rfind(b"\n") + 1
    if used == 0 and more:  # no line is as long as that
        used = len(content)
    found = [read_line(line) for line in content[:used].splitlines()]
    lines = [line for line in found if line is not None]
    return Lines(lines, after + used, len(found) - len(lines), more)


def read_line(line: bytes) -> dict[str, Any] | None:
    """What a line of a log says: of a step, an evaluation, a look at the heads, or a loss that was
    no number. None: nothing.

    What is no finite number is None.

    >>> read_line(b'{"step": 3, "loss": 0.5, "learning_rate": NaN, "gradient": 1}')
    {'step': 3, 'loss': 0.5, 'learning_rate': None}
    >>> read_line(b'{"step": 3, "lo')
    """
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    step = content.get("step") if isinstance(content, dict) else None
    if type(step) is not int or not 0 <= step < 2**53:
        return None
    if "loss" in content:
        rate = _finite(content.get("learning_rate"))
        return {"step": step, "loss": _finite(content["loss"]), "learning_rate": rate}
    if isinstance(scores := content.get("validation"), dict):
        return {"step": step, "validation": {name: _finite(x) for name, x in scores.items()}}
    if isinstance(heads := content.get("entropy"), dict):
        known = {name: each for name, each in heads.items() if isinstance(each, list)}
        return {
            "step": step,
            "entropy": {name: [_finite(x) for x in each] for name, each in known.items()},
        }
    if isinstance(where := content.get("diverged"), str):
        return {"step": step, "diverged": where[:_MOST_WORDS]}
    return None


def _finite(x: Any) -> float | None:
    is_number = isinstance(x, int | float) and not isinstance(x, bool)
    return float(x) if is_number and abs(x) < 1e300 and math.isfinite(x) else None


def last_step(path: Path) -> int:
    """The newest step of a log, by its last lines; 0 if it has none yet."""
    return max((line["step"] for line in _last_lines(path)), default=0)


def diverged_where(path: Path) -> str:
    """Where the loss was no number first, if that is what a log ends with; else nothing."""
    lines = _last_lines(path)
    return lines[-1].get("diverged", "") if lines else ""


def _last_lines(path: Path) -> list[dict[str, Any]]:
    with contextlib.suppress(OSError):
        start = max(0, path.stat().st_size - 200_000)
        # The first line of these may be the end of one.
        return lines_after(path, start).lines
    return []


# ── how far it is ─────────────────────────────────────────────────────────────────────────────


def is_held(folder: Path) -> bool:
    """Does a process train in this folder now? It holds the folder as long as it does."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:  # a disk without locks
        with contextlib.suppress(OSError):
            return time.time() - (folder / LOG).stat().st_mtime < _LATELY
        return False
    finally:
        os.close(handle)


def status_of(folder: Path, training: Mapping[str, Any], step: int) -> str:
    """Whether it "trains", has "ended", "stopped" or "diverged": by who holds the folder, how its
    log ends, how many steps its recipe asks for in `training`, and whether its patience is over.
    """
    if is_held(folder):
        return "trains"
    if diverged_where(folder / LOG):
        return "diverged"
    steps, patience = training.get("steps", 0), training.get("patience", 0)
    return "ended" if step >= steps or 0 < patience <= _worse(folder) else "stopped"


def _worse(folder: Path) -> int:
    """How many evaluations in a row were not better than the best one, says the newest
    checkpoint.
    """
    with contextlib.suppress(CheckpointError, OSError, ValueError):
        found = [path for path in (folder / "checkpoints").iterdir() if path.name[0] != "."]
        state = own_file(max(found), "state.json", links=False)
        worse = 0 if state is None else read_object(state, _MOST_STATE).get("worse")
        return worse if isinstance(worse, int) else 0
    return 0


# ── pictures ──────────────────────────────────────────────────────────────────────────────────


def pictures_of(folder: Path) -> dict[int, Path]:
    """The pictures of a run that are whole, by their steps."""
    try:
        names = sorted(path for path in (folder / PICTURES).iterdir() if path.name[0] != ".")
    except OSError:
        return {}
    found = ((_PICTURE.fullmatch(path.name), path) for path in names)
    return {int(name[1]): path for name, path in found if name is not None}


def read_picture(path: Path, layers: Sequence[str] | None = None) -> dict[str, NDArray[np.float16]]:
    """The weights (H, Nq, Nk) of each layer of a picture, or of some; in the order of a pass.

    Raises CheckpointError if it is none.
    """
    with contextlib.closing(open_tensors(path)) as opened:
        found: dict[str, NDArray[np.float16]] = {}
        for name in sorted(opened.entries, key=in_order) if layers is None else layers:
            entry = opened.entries.get(name)
            if entry is None or entry.dtype != "F16" or len(entry.shape) != 3:
                expected = f"hold weights of {name}, a half (H, Nq, Nk)"
                raise CheckpointError(path, expected, "something else", "", call="train()")
            if entry.count > _MOST_WEIGHTS:
                expected = f"hold at most {_MOST_WEIGHTS:,} weights a layer"
                raise CheckpointError(path, expected, f"{entry.count:,}", "", call="train()")
            found[name] = np.empty(entry.shape, dtype="<f2")
            if entry.count:
                opened.read(entry.start, found[name].reshape(-1).view(np.uint8).data)
        return found


def in_order(name: str) -> tuple[bool, list[tuple[int, str]]]:
    """A key that sorts layers as a pass meets them: an encoder first, then by numbers.

    >>> names = ["decoder.layers.0.cross", "decoder.layers.10.attention", "encoder.layers.0"]
    >>> sorted([*names, "decoder.layers.2.cross"], key=in_order)[:3]
    ['encoder.layers.0', 'decoder.layers.0.cross', 'decoder.layers.2.cross']
    """
    parts = [(int(part), "") if part.isdecimal() else (-1, part) for part in name.split(".")]
    return not name.startswith("encoder"), parts
