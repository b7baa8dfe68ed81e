"""Writing a file or a folder whole or not at all: a crash leaves the old one, or the new."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Generator
from pathlib import Path

# A run on disk: what it is, its tensors, its edges. Named here, as listing runs takes no torch.
DOCUMENT, TENSORS, EDGES = RUN_FILES = ("run.json", "tensors.safetensors", "edges.parquet")
_LONGEST = 200  # bytes of a name to which others are added; file systems take 255


# ── a file ────────────────────────────────────────────────────────────────────────────────────


def write_text(path: str | Path, text: str) -> None:
    """Put `text` into the file, as UTF-8, with its line ends as they are; as `write_bytes` does."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Put `content` into the file.

    It goes to a temporary file in the same folder, which then takes the place of the old. A link is
    followed, and the file keeps its permissions. What is no regular file (a terminal, a pipe) is
    written to directly. Raises OSError where that is not possible.

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


# ── a folder ──────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def replacing(target: Path) -> Generator[Path]:
    """Inside the `with` an empty folder to write to, which takes the place of `target` at its end.

    It is complete, and on the disk, before it does so. Between the two renames the old one has a
    name beside the folder, see `left_over`. What a crash left there is cleared by the next time. An
    error inside the `with` leaves all as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with replacing(Path(place, "one")) as new:
    ...         _ = (new / "note.txt").write_text("written")
    ...     [path.name for path in Path(place, "one").iterdir()]
    ['note.txt']
    """
    target = target.resolve()
    if Path.cwd().is_relative_to(target):
        raise ValueError(
            f"save(): the folder must not be the one that this process works in; got {target}. "
            "Name a folder inside it."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    new, old = _beside(target, f"{secrets.token_hex(8)}.tmp"), _beside(target, "old")
    try:
        new.mkdir()
        with _in_use(new):
            yield new
            for file in new.iterdir():
                sync(file)
            sync(new)
            has_old = target.exists()
            if has_old:
                _discard(old)  # from a crash, after which the folder was whole again
                target.rename(old)
            try:
                new.rename(target)
            except BaseException:
                if has_old:
                    old.rename(target)
                raise
            sync(target.parent)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    with contextlib.suppress(OSError):  # the new folder is in its place; this is only room
        _discard(old)
        # What interrupted writers, which live no more, have left beside the folder.
        left = re.compile(rf"{re.escape(_beside(target, '').name)}[0-9a-f]+\.(tmp|trash)")
        for each in target.parent.iterdir():
            if left.fullmatch(each.name):
                with contextlib.suppress(OSError), _in_use(each) as ours:
                    if ours:
                        shutil.rmtree(each)


def left_over(target: Path) -> Path | None:
    """The old folder, if a crash between the two renames left nothing else."""
    old = _beside(target.resolve(), "old")
    return old if old.is_dir() and not target.exists() else None


@contextlib.contextmanager
def naming(path: Path) -> Generator[None]:
    """Raise the OSError of writing with a name that says something to the reader: the system gives
    none where a disk is full, or that of a temporary file.

    >>> with naming(Path("log.jsonl")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'log.jsonl'
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _discard(old: Path) -> None:
    """Remove it; under its name it could be taken for the folder one day, so that goes first."""
    if old.exists():
        trash = old.with_name(f"{old.name.removesuffix('old')}{secrets.token_hex(8)}.trash")
        old.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


@contextlib.contextmanager
def _in_use(folder: Path) -> Generator[bool]:
    """Hold a folder as long as this process lives. False if another one does, or if that cannot be
    told on this disk.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = True
        except OSError:
            ours = False
        yield ours
    finally:
        os.close(handle)


def _beside(target: Path, ending: str) -> Path:
    """A name that says whose it is, also where the own one leaves no room for more."""
    name = target.name
    if len(os.fsencode(name)) > _LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return target.with_name(f".{name}.regard-{ending}")
