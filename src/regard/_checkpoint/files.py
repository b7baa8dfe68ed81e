"""Files of a folder that came from elsewhere: its own, of a sane size, JSON with no key twice."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from regard._checkpoint.errors import CheckpointError, plain

_OWN = "be a file of the folder itself"
_COPY = "Copy the folder again, whole."


def own_file(folder: Path, name: str, *, links: bool = True) -> Path | None:
    """The file of that name in a folder, its links followed; None if there is none.

    Raises CheckpointError if it is no regular file, or stands outside of the folder. The links of
    a Hugging Face cache, from `snapshots/<revision>/` into its own `blobs/`, are allowed; without
    `links` it may be none itself.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "config.json").symlink_to("..")
    ...     own_file(Path(folder), "config.json")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ...config.json must be a file of the folder
    itself; got a link that leads out of it. Put the file itself into the folder.
    """
    path = folder / name
    try:
        is_link = stat.S_ISLNK(path.lstat().st_mode)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    home = folder.resolve()
    roots = [home]
    blobs = home.parent.parent / "blobs"
    if home.parent.name == "snapshots" and blobs.is_dir():
        roots.append(blobs)
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        raise CheckpointError(path, _OWN, "a link that leads nowhere", _COPY) from None
    if (is_link and not links) or not any(target.is_relative_to(root) for root in roots):
        found = "a link that leads out of it" if links else "a link"
        raise CheckpointError(path, _OWN, found, "Put the file itself into the folder.")
    if not target.is_file():
        raise CheckpointError(path, _OWN, "no regular file", _COPY)
    return target


def open_own(path: Path) -> int:
    """A handle to read what `own_file` found. As that may be another file by now, no link is
    followed, and no pipe is waited for.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise CheckpointError(path, _OWN, "no regular file", _COPY)
    return handle


def read_bytes(path: Path, limit: int) -> bytes:
    """What is in a file of at most `limit` bytes."""
    with os.fdopen(open_own(path), "rb") as file:
        try:
            fits = os.fstat(file.fileno()).st_size <= limit
            content = file.read(limit + 1) if fits else b""
        except OSError as error:
            raise unreadable(path, error) from error
    if not fits or len(content) > limit:
        raise CheckpointError(
            path, f"have at most {limit:,} bytes", "more", "Is it the file that it says it is?"
        )
    return content


def read_object(path: Path, limit: int) -> dict[str, Any]:
    """The JSON object in a file of at most `limit` bytes."""
    return parse_object(read_bytes(path, limit), path)


def parse_object(content: bytes, file: str | Path, what: str = "be") -> dict[str, Any]:
    """The JSON object in `content`; `file` is its name in an error.

    >>> parse_object(b'{"a": 1, "a": 2}', "config.json")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): config.json must be a JSON object with each
    key once; got 'a' twice. Remove one of the two.
    """
    again = "Copy the file again from where it came from."
    try:
        found = json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except _Twice as error:
        raise CheckpointError(
            file,
            f"{what} a JSON object with each key once",
            f"'{plain(error)}' twice",
            "Remove one of the two.",
        ) from None
    except RecursionError:
        raise CheckpointError(
            file, f"{what} a JSON object", "one nested too deeply", again
        ) from None
    except ValueError as error:  # of JSON, UTF-8, or a number with thousands of digits
        raise CheckpointError(
            file, f"{what} a JSON object in UTF-8", f"something else ({plain(error)})", again
        ) from None
    if not isinstance(found, dict):
        kind = {"list": "an array", "str": "a string", "NoneType": "null", "bool": "true or false"}
        name = kind.get(type(found).__name__, "a number")
        raise CheckpointError(file, f"{what} a JSON object", name, again)
    return found


class _Twice(ValueError):
    """A key that stands twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found


def unreadable(path: Path, error: OSError) -> CheckpointError:
    """The error for what the system does not let us read."""
    found = str(error.strerror or error)
    return CheckpointError(path, "be readable", found, "Check its permissions, and the disk.")
