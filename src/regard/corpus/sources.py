"""What the texts of a corpus come from: files by their kind, in one order, each with its hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from regard._checkpoint.errors import CheckpointError, plain
from regard._checkpoint.files import own_file, read_object
from regard.train.texts import TEXTS, fetch_text

Kind = Literal["text", "jsonl", "parquet", "arrow"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".arrow": "arrow",
}
_STATE, _SPLITS = "state.json", "dataset_dict.json"  # of a folder that `datasets` saved
_LIMIT = 10_000_000
NOT_THERE = -1  # the size of what cannot be read


@dataclass(frozen=True)
class Source:
    """A file: what it is called in the table of texts, where it is, and how it is read.

    `size`, `changed` (in nanoseconds, as the file system has it) and `sha256` say what it was when
    it was listed; of what cannot be read, `size` is −1.
    """

    name: str
    path: Path
    kind: Kind
    size: int = NOT_THERE
    changed: int = 0
    sha256: str = ""

    def listed(self) -> Source:
        """The same, as it is now."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return replace(self, size=NOT_THERE, changed=0, sha256="")
        return replace(self, size=about.st_size, changed=about.st_mtime_ns, sha256=digest)

    def is_as_listed(self) -> bool:
        """Is it what it was? It is read only if its time is another, and its size is not."""
        try:
            about = self.path.stat()
        except OSError:
            return self.size == NOT_THERE
        if about.st_size != self.size:
            return False
        if about.st_mtime_ns == self.changed:
            return True
        return _hash_at(self.path, about.st_size, about.st_mtime_ns) == self.sha256


@lru_cache(maxsize=4096)
def _hash_at(path: Path, size: int, changed: int) -> str:
    """The SHA-256 of a file that has this size and time: each unit that it has texts in asks."""
    return Source("", path, "text").listed().sha256


def find_sources(
    texts: Sequence[str | os.PathLike[str]], without: Path, note: Callable[[str], None]
) -> list[Source]:
    """The files that are meant, in the order in which they were named; those of a folder by name.

    What is in the folder `without`, where the corpus is written, is no text of it, and neither is
    what begins with a dot. Raises ValueError for a name of nothing.

    >>> find_sources(["no/such/file"], Path("out"), print)
    Traceback (most recent call last):
    ValueError: corpus(): no/such/file must be a file, a folder, or one of shakespeare, wikitext-2;
    got neither.
    """
    found: dict[Path, Source] = {}
    for given in texts:
        name = os.fsdecode(given)
        for source in _sources_of(name, without.resolve(), note):
            if found.setdefault(source.path, source) is not source:
                note(f"{plain(source.name)} is named twice, and read once")
    if not found:
        raise ValueError("corpus(): texts must have at least one file; got none. Name some.")
    return list(found.values())


def _sources_of(name: str, without: Path, note: Callable[[str], None]) -> Iterator[Source]:
    path = Path(name)
    try:
        is_file, is_folder = bool(name) and path.is_file(), bool(name) and path.is_dir()
    except (OSError, ValueError):  # a name that no disk takes
        is_file = is_folder = False
    if is_file:
        yield _source(path)
    elif is_folder:
        yield from _in_folder(path, without)
    elif name in TEXTS and TEXTS[name].kind == "text":
        yield Source(name, fetch_text(name, note).resolve(), "text")
    else:
        known = ", ".join(sorted(each for each, text in TEXTS.items() if text.kind == "text"))
        raise ValueError(
            f"corpus(): {plain(name)} must be a file, a folder, or one of {known}; got neither."
        )


def _source(path: Path) -> Source:
    return Source(str(path), path.resolve(), _KINDS.get(path.suffix.lower(), "text"))


def _in_folder(folder: Path, without: Path) -> Iterator[Source]:
    """All files in and below a folder, in the order of their names; links to folders are left."""
    if folder.resolve() == without:
        return
    if (folder / _SPLITS).is_file() or (folder / _STATE).is_file():
        yield from _in_dataset(folder)
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _in_folder(path, without)
        elif path.is_file() or path.is_symlink():
            yield _source(path)


def _in_dataset(folder: Path) -> Iterator[Source]:
    """The Arrow files of a folder that `datasets` has saved, split by split."""
    splits = own_file(folder, _SPLITS)
    if splits is not None:
        names = read_object(splits, _LIMIT).get("splits")
        for each in _names(splits, "splits", names):
            yield from _in_dataset(folder / each)
        return
    state = own_file(folder, _STATE)
    if state is None:
        raise _refused(folder, f"hold {_STATE}, as datasets saves one", "none")
    about = read_object(state, _LIMIT)
    if about.get("_indices_files") or about.get("_indices_data_files"):
        raise _refused(state, "have its rows in order", "a list of which rows are meant")
    files = about.get("_data_files")
    files = [each.get("filename") for each in files] if isinstance(files, list) else None
    for each in _names(state, "_data_files", files):
        path = own_file(folder, each)
        if path is None:
            raise _refused(folder / each, "be there", "none")
        yield Source(str(folder / each), path, "arrow")


def _names(file: Path, key: str, names: object) -> list[str]:
    """Bare names that a file lists."""
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name
        for name in names
    ):
        raise _refused(file, f"list names under {key}", "something else")
    return names


def _refused(path: Path, expected: str, found: str) -> CheckpointError:
    remedy = "dataset.save_to_disk(folder) writes such a folder."
    return CheckpointError(path, expected, found, remedy, call="corpus()")
