"""The files of a run's folder: regular ones that are its own, and of a sane size."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from regard.run.errors import RunError

__all__ = ["own_file", "read_own"]


def own_file(file: Path, call: str) -> bool:
    """Is it there? RunError if it is anything but a regular file: a link may lead anywhere, and
    to open a pipe may take for ever.

    >>> own_file(Path("no such file"), "load()")
    False
    """
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunError(
            f"{call}: {file} must be readable; {error.strerror}. Check its permissions."
        ) from None
    if not stat.S_ISREG(mode):
        found = "a link" if stat.S_ISLNK(mode) else "something else"
        raise RunError(
            f"{call}: {file} must be a file of the folder itself; it is {found}. "
            "Put the file itself into the folder."
        )
    return True


def read_own(file: Path, longest: int, call: str) -> bytes | None:
    """What is in it, if that has at most `longest` bytes; None if it is not there.

    >>> read_own(Path("no such file"), 7, "load()") is None
    True
    """
    if not own_file(file, call):
        return None
    try:
        # As it may be another file by now: a link is not followed, a pipe is not waited for.
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as opened:
            fits = os.fstat(opened.fileno()).st_size <= longest
            content = opened.read(longest + 1) if fits else b""
    except OSError as error:
        raise RunError(
            f"{call}: {file} must be readable; {error.strerror}. Check its permissions."
        ) from None
    if not fits or len(content) > longest:
        raise RunError(
            f"{call}: {file} must have at most {longest:,} bytes; it has more. "
            "It may be another program's."
        )
    return content
