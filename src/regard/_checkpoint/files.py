"""Files of a folder that came from elsewhere: its own, of a sane size, JSON with no key twice."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from regard._checkpoint.errors import (
    COPY_FILE,
    COPY_FOLDER,
    CheckpointError,
    listed,
    plain,
    reading,
)

_OWN = "be a file of the folder itself"


def own_file(folder: Path, name: str, *, links: bool = True) -> Path | None:
    """The file of that name in a folder, its links followed; None if there is none.

    Raises CheckpointError if it is no regular file, or stands outside of the folder. The links of
    a Hugging Face cache, from `snapshots/<revision>/` into its own `blobs/`, are allowed; without
    `links` it may be none itself.
    """
    path = folder / name
    with reading(path):
        try:
            is_link = stat.S_ISLNK(path.lstat().st_mode)
        except FileNotFoundError:
            return None
    home = folder.resolve()
    roots = [home]
    blobs = home.parent.parent / "blobs"
    if home.parent.name == "snapshots" and blobs.is_dir():
        roots.append(blobs)
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        raise CheckpointError(path, _OWN, "a link that leads nowhere", COPY_FOLDER) from None
    if (is_link and not links) or not any(target.is_relative_to(root) for root in roots):
        found = "a link that leads out of it" if links else "a link"
        raise CheckpointError(path, _OWN, found, "Put the file itself into the folder.")
    if not target.is_file():
        raise CheckpointError(path, _OWN, "no regular file", COPY_FOLDER)
    return target


def is_replaced(target: Path, own: Iterable[str], kind: str) -> bool:
    """Whether a folder that `save()` writes to has anything in it, which is to be of its `kind`.

    Raises CheckpointError if it is a file, or holds others than its `own` files.
    """
    refuse = partial(CheckpointError, target, call="save()")
    if target.exists() and not target.is_dir():
        raise refuse("be a folder, or not be there", "a file", "Name another.")
    names = {each.name for each in target.iterdir()} if target.exists() else set[str]()
    if others := names - set(own):
        expected = f"hold a {kind} and nothing else, or be empty, as it is replaced"
        raise refuse(expected, listed(others), "Name another folder, or move that away.")
    return bool(names)


def open_own(path: Path) -> int:
    """A handle to read what `own_file` found. As that may be another file by now, no link is
    followed, and no pipe is waited for.
    """
    with reading(path):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise CheckpointError(path, _OWN, "no regular file", COPY_FOLDER)
    return handle


def read_bytes(path: Path, limit: int) -> bytes:
    """What is in a file of at most `limit` bytes."""
    with os.fdopen(open_own(path), "rb") as file, reading(path):
        fits = os.fstat(file.fileno()).st_size <= limit
        content = file.read(limit + 1) if fits else b""
    if not fits or len(content) > limit:
        remedy = "Is it the file that it says it is?"
        raise CheckpointError(path, f"have at most {limit:,} bytes", "more", remedy)
    return content


def read_object(path: Path, limit: int) -> dict[str, Any]:
    """The JSON object in a file of at most `limit` bytes."""
    return parse_object(read_bytes(path, limit), path)


class _Twice(ValueError):
    """A key that stands twice in one object."""


def parse_object(content: bytes, file: str | Path, what: str = "be") -> dict[str, Any]:
    """The JSON object in `content`; `file` is its name in an error, and `what` its verb."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise _Twice(Counter(key for key, _ in pairs).most_common(1)[0][0])
        return found

    expected = f"{what} a JSON object"
    try:
        found = json.loads(content.decode("utf-8"), object_pairs_hook=once)
    except _Twice as error:
        twice = f"'{plain(error)}' twice"
        remedy = "Remove one of the two."
        raise CheckpointError(file, f"{expected} with each key once", twice, remedy) from None
    except RecursionError:
        raise CheckpointError(file, expected, "one nested too deeply", COPY_FILE) from None
    except ValueError as error:  # of JSON, UTF-8, or a number with thousands of digits
        found = f"something else ({plain(error)})"
        raise CheckpointError(file, f"{expected} in UTF-8", found, COPY_FILE) from None
    if not isinstance(found, dict):
        kind = {"list": "an array", "str": "a string", "NoneType": "null", "bool": "true or false"}
        name = kind.get(type(found).__name__, "a number")
        raise CheckpointError(file, expected, name, COPY_FILE)
    return found
