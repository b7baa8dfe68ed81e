"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

__all__ = ["write_bytes", "write_text"]


def write_text(path: str | Path, text: str) -> None:
    """Put `text` into the file, as UTF-8, with its line ends as they are; as `write_bytes` does.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(Path(folder, "note.txt"), "one\\r\\ntwo\\n")
    ...     Path(folder, "note.txt").read_bytes()
    b'one\\r\\ntwo\\n'
    """
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Put `content` into the file.

    A crash leaves the old file or the new one, never half of it: it goes to a temporary file
    in the same folder, which then takes the place of the old. A link is followed, and the file
    keeps its permissions. What is no regular file (a terminal, a pipe) is written to directly.
    Raises OSError where that is not possible.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bytes(Path(folder, "note.txt"), b"one")
    ...     Path(folder, "note.txt").read_bytes()
    b'one'
    """
    target = Path(path).resolve()
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        target.write_bytes(content)
        return
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied", str(path))
    temporary = target.with_name(f".regard-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
