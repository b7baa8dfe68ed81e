"""The runs that the studio has: saved ones in its folders, and new ones in memory."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import threading
import unicodedata
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.studio.places import Forbidden, Places

if TYPE_CHECKING:
    from regard.run import Run

_DOCUMENT = "run.json"
_FILES = {_DOCUMENT, "tensors.safetensors", "edges.parquet"}
_MOST_OPEN = 4  # runs in memory
_MOST_DOCUMENT = 100_000_000  # bytes of a run.json that is looked into for the list
_MOST_NAME, _MOST_NAME_BYTES = 80, 255  # letters; a disk counts bytes


class NoSuchRun(ValueError):
    """A run was asked for that is not there, or not any more."""


class Shelf:
    """Runs by an id, which says nothing of where they lie.

    Listing them reads no tensor, and imports no torch.
    """

    def __init__(self, places: Places, store: Path) -> None:
        self._places = places
        self._store = store
        self._open: OrderedDict[str, Run] = OrderedDict()
        self._new: dict[str, dict[str, Any]] = {}  # what is known of runs that are not saved
        self._origins: dict[str, dict[str, Any]] = {}
        self._told: dict[str, tuple[float, dict[str, Any]]] = {}
        self._saving: set[Path] = set()  # folders that are being written
        self._lock = threading.RLock()

    # ── which there are ───────────────────────────────────────────────────────────────────────

    def list(self) -> list[dict[str, Any]]:
        """Every run, the newest first."""
        with self._lock:
            found = [self._summary(name, folder) for name, folder in self._folders().items()]
            found += self._new.values()
        return sorted(found, key=lambda each: -each["made"])

    def _folders(self) -> dict[str, Path]:
        """The folders that hold a run: those that were named, and what is directly in them."""
        found: dict[str, Path] = {}
        for place in self._places.folders:
            candidates = [place]
            if not os.path.lexists(place / _DOCUMENT):
                try:
                    candidates = [each for each in place.iterdir() if each.name[0] != "."]
                except OSError:
                    continue  # it is not there, not yet, or not for us to read
            for folder in candidates:
                if os.path.lexists(folder / _DOCUMENT) and self._is_ours(folder):
                    found[_id(folder)] = folder
        return found

    def _is_ours(self, folder: Path) -> bool:
        try:
            self._places.find(folder)
        except Forbidden:
            return False
        return True

    def _summary(self, name: str, folder: Path) -> dict[str, Any]:
        """What is known of a run, or why nothing is: a broken one must not hide the others."""
        made, size = 0.0, 0
        try:
            made = (folder / _DOCUMENT).lstat().st_mtime
            known = self._told.get(name)
            if known is None or known[0] != made:
                known = self._told[name] = made, _told(folder / _DOCUMENT)
            about = known[1]
            size = sum(each.lstat().st_size for each in folder.iterdir() if each.name in _FILES)
        except OSError as error:
            about = _unreadable(error.strerror or str(error))
        return {
            **about,
            "id": name,
            "name": _readable(folder.name),
            "saved": True,
            "bytes": size,
            "made": made,
        }

    # ── one of them ───────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> Run:
        """A run, loaded if it is not open. Raises NoSuchRun."""
        with self._lock:
            if name in self._open:
                self._open.move_to_end(name)
                return self._open[name]
            folder = self._folders().get(name)
        if folder is None:
            raise NoSuchRun("This run is not here any more.")
        from regard.run import load

        run = load(folder)  # which takes its time: the list of runs does not wait for it
        with self._lock:
            self._keep(name, run)
        return run

    def add(self, run: Run, made: float, about: dict[str, Any], origin: dict[str, Any]) -> str:
        """Take in a new run, which is not saved, and what it was made from."""
        name = hashlib.sha256(f"{id(run)} {made}".encode()).hexdigest()[:16]
        with self._lock:
            self._new[name] = {**about, "id": name, "saved": False, "bytes": 0, "made": made}
            self._origins[name] = origin
            self._keep(name, run)
        return name

    def origin(self, name: str) -> dict[str, Any]:
        """What a new run was made from. Raises NoSuchRun for any other."""
        if name not in self._origins:
            raise NoSuchRun(
                "Only a run that was made here, and is not saved yet, can be run again."
            )
        return self._origins[name]

    def _keep(self, name: str, run: Run) -> None:
        """Saved runs make room first, as they can be opened again; then the oldest."""
        self._open[name] = run
        while len(self._open) > _MOST_OPEN:
            saved = (each for each in self._open if each not in self._new)
            self._forget(next(saved, next(iter(self._open))))

    def _forget(self, name: str) -> None:
        for known in (self._open, self._new, self._origins):
            known.pop(name, None)

    def save(self, name: str, title: str) -> str:
        """Save a new run under a name of the reader's; its id is another then."""
        if not _is_name(title):
            raise ValueError(
                f"A name has letters, digits, spaces and .,()+-, at most {_MOST_NAME} of them, and "
                f"{_MOST_NAME_BYTES} bytes."
            )
        run = self.get(name)
        folder = self._places.find(self._store / title)
        with self._lock:
            if folder.exists() or folder in self._saving:
                raise ValueError(f"There is a run called {title} already. Name it otherwise.")
            self._saving.add(folder)
        try:
            self._store.mkdir(parents=True, exist_ok=True)
            run.save(folder)
        finally:
            self._saving.discard(folder)
        with self._lock:
            self._forget(name)
            self._keep(_id(folder), run)
        return _id(folder)

    def delete(self, name: str) -> None:
        """Forget a run; of a saved one its files, and the folder if nothing else is in it."""
        with self._lock:
            if name in self._new:
                self._forget(name)
                return
            folder = self._folders().get(name)
            if folder is None:
                raise NoSuchRun("This run is not here any more.")
            others = {each.name for each in folder.iterdir()} - _FILES
            if others:
                raise ValueError("There is more in its folder than the run: delete it by hand.")
            self._open.pop(name, None)
            shutil.rmtree(self._places.find(folder))


def _is_name(title: str) -> bool:
    """Of any script: letters, the marks on them, digits; it begins with one of these."""
    plain = [unicodedata.category(letter)[0] in "LMN" or letter == "_" for letter in title]
    return (
        0 < len(title) <= _MOST_NAME
        and len(title.encode("utf-8", "surrogatepass")) <= _MOST_NAME_BYTES
        and plain[0]
        and all(
            is_plain or letter in " .,()+-" for letter, is_plain in zip(title, plain, strict=True)
        )
    )


def _id(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _told(document: Path) -> dict[str, Any]:
    """What a run.json says of itself; as little as possible is trusted."""
    try:
        content = json.loads(_read(document))
        layers, tensors, text = content["layers"], content["tensors"], content.get("text")
        text = " · ".join(map(str, text)) if isinstance(text, list) else str(text or "")
        sizes = [layer["n_keys"] for layer in layers]
        if not all(isinstance(size, int) for size in sizes):
            raise TypeError("the number of its keys is none")
        return {
            "model": _readable(str(content["model"])[:200]),
            "text": _readable(text[:200]),
            "layers": len(layers),
            "tokens": max(sizes, default=0),
            "exact": "layers.0.q" in tensors and "layers.0.k" in tensors,
        }
    except OSError as error:
        return _unreadable(error.strerror or str(error))
    except RecursionError:
        return _unreadable(f"{_DOCUMENT} is nested too deeply")
    except (ValueError, LookupError, TypeError) as error:
        return _unreadable(f"{_DOCUMENT} does not describe a run ({type(error).__name__}: {error})")


def _read(document: Path) -> bytes:
    """A file of the folder itself: a link may lead anywhere, and a pipe may never end."""
    if document.is_symlink():
        raise OSError(f"{_DOCUMENT} is a link, and no file of the folder itself")
    handle = os.open(document, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{_DOCUMENT} is no regular file")
        content = file.read(_MOST_DOCUMENT + 1)
    if len(content) > _MOST_DOCUMENT:
        raise OSError(f"{_DOCUMENT} has more than {_MOST_DOCUMENT:,} bytes")
    return content


def _unreadable(reason: str) -> dict[str, Any]:
    reason = _readable(f"This run cannot be read: {reason}."[:300])
    empty = {"model": "?", "layers": 0, "tokens": 0, "exact": False}
    return {**empty, "text": reason, "unreadable": True}


def _readable(text: str) -> str:
    """What UTF-8 can hold of a text: half of a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
