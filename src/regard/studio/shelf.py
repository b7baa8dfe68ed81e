"""The runs that the studio has: saved ones in its folders, and new ones in memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import threading
import unicodedata
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import CheckpointError
from regard._checkpoint.files import own_file, read_object
from regard._files import DOCUMENT, RUN_FILES
from regard.studio.places import Forbidden, Places
from regard.text import readable

if TYPE_CHECKING:
    from regard.run import Run

_MOST_OPEN = 4  # saved runs, which can be opened again
MOST_BYTES = 2_000_000_000  # of runs that are not saved
_MOST_DOCUMENT = 100_000_000  # bytes of a run.json that is looked into for the list
_MOST_NAME, _MOST_NAME_BYTES = 80, 255  # letters; a disk counts bytes


class NoSuchRun(ValueError):
    """A run was asked for that is not there, or not any more."""


class Shelf:
    """Runs by an id, which says nothing of where they lie.

    Runs that are not saved may take `most` bytes of memory; then those that were not looked at for
    longest are let go, and the one that took their room says which. Listing runs reads no tensor,
    and imports no torch.
    """

    def __init__(self, places: Places, store: Path, most: int = MOST_BYTES) -> None:
        self._places = places
        self._store = store
        self._most = most
        self._open: OrderedDict[str, Run] = OrderedDict()
        self._new: dict[str, dict[str, Any]] = {}  # what is known of runs that are not saved
        self._origins: dict[str, dict[str, Any]] = {}  # what runs that were made here were made of
        self._aliases: dict[str, str] = {}  # of a run that was saved since, its id before
        self._let_go: dict[str, str] = {}  # names of runs that were, to make room
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
            if not os.path.lexists(place / DOCUMENT):
                try:
                    candidates = [each for each in place.iterdir() if each.name[0] != "."]
                except OSError:
                    continue  # it is not there, not yet, or not for us to read
            for folder in candidates:
                with contextlib.suppress(Forbidden):
                    if os.path.lexists(folder / DOCUMENT) and self._places.find(folder):
                        found[folder_id(folder)] = folder
        return found

    def _folder(self, name: str) -> Path:
        folder = self._folders().get(name)
        if folder is None and name in self._let_go:
            was = f"“{self._let_go[name]}” was let go to make room for newer runs"
            raise NoSuchRun(f"{was}, as it was not saved.")
        if folder is None:
            raise NoSuchRun("This run is not here any more.")
        return folder

    def _summary(self, name: str, folder: Path) -> dict[str, Any]:
        """What is known of a run, or why nothing is: a broken one must not hide the others."""
        made, size = 0.0, 0
        try:
            made = (folder / DOCUMENT).lstat().st_mtime
            known = self._told.get(name)
            if known is None or known[0] != made:
                known = self._told[name] = made, _told(folder)
            about = known[1]
            size = sum(each.lstat().st_size for each in folder.iterdir() if each.name in RUN_FILES)
        except OSError as error:
            about = _unreadable(error.strerror or str(error))
        return {
            **about,
            "id": name,
            "name": readable(folder.name),
            "aliases": [old for old, new in self._aliases.items() if new == name],
            "saved": True,
            "bytes": size,
            "made": made,
        }

    # ── one of them ───────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> Run:
        """A run, loaded if it is not open. Raises NoSuchRun."""
        with self._lock:
            name = self._aliases.get(name, name)
            if name in self._open:
                self._open.move_to_end(name)
                return self._open[name]
            folder = self._folder(name)
        from regard.run import load

        run = load(folder)  # which takes its time: the list of runs does not wait for it
        with self._lock:
            self._keep(name, run)
        return run

    def add(self, run: Run, made: float, about: dict[str, Any], origin: dict[str, Any]) -> str:
        """Take in a new run, which is not saved, and what it was made from."""
        name = secrets.token_hex(8)
        with self._lock:
            self._new[name] = {"bytes": 0, **about, "id": name, "saved": False, "made": made}
            self._origins[name] = origin
            self._keep(name, run)
        return name

    def origin(self, name: str) -> dict[str, Any] | None:
        """What a run was made from; None of one that was not made here."""
        return self._origins.get(self._aliases.get(name, name))

    def _keep(self, name: str, run: Run) -> None:
        """Saved runs make room first, as they can be opened again; then new ones, if they must."""
        self._open[name] = run
        for each in [each for each in self._open if each not in self._new][:-_MOST_OPEN]:
            del self._open[each]
        if name not in self._new:
            return
        for each in [each for each in self._open if each in self._new and each != name]:
            if sum(about["bytes"] for about in self._new.values()) <= self._most:
                break
            self._let_go[each] = self._new[each].get("name", each)
            self._new[name].setdefault("let_go", []).append(self._let_go[each])
            self._forget(each)

    def _forget(self, name: str) -> None:
        self._open.pop(name, None)
        self._new.pop(name, None)
        self._origins.pop(name, None)

    def save(self, name: str, title: str) -> str:
        """Save a new run under a name of the reader's. Its id is another then, which lasts; the one
        that it had leads to it as long as the studio runs.
        """
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
        saved = folder_id(folder)
        with self._lock:
            if name in self._new:
                self._aliases[name] = saved
                self._origins[saved] = self._origins[name]
                self._forget(name)
            self._keep(saved, run)
        return saved

    def delete(self, name: str) -> None:
        """Forget a run; of a saved one its files, and the folder if nothing else is in it."""
        with self._lock:
            name = self._aliases.get(name, name)
            if name in self._new:
                self._forget(name)
                return
            folder = self._folder(name)
            if not {each.name for each in folder.iterdir()} <= set(RUN_FILES):
                raise ValueError("There is more in its folder than the run: delete it by hand.")
            self._forget(name)
            shutil.rmtree(self._places.find(folder))


def _is_name(title: str) -> bool:
    """Of any script: letters, the marks on them, digits; it begins with one of these."""
    plain = [unicodedata.category(letter)[0] in "LMN" or letter == "_" for letter in title]
    size = len(title.encode("utf-8", "surrogatepass"))
    is_short = 0 < len(title) <= _MOST_NAME and size <= _MOST_NAME_BYTES
    others = {letter for letter, is_plain in zip(title, plain, strict=True) if not is_plain}
    return is_short and plain[0] and others <= set(" .,()+-")


def folder_id(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _told(folder: Path) -> dict[str, Any]:
    """What a run.json says of itself; as little as possible is trusted."""
    try:
        file = own_file(folder, DOCUMENT, links=False)
        content = {} if file is None else read_object(file, _MOST_DOCUMENT)
        layers, tensors, text = content["layers"], content["tensors"], content.get("text")
        text = " · ".join(map(str, text)) if isinstance(text, list) else str(text or "")
        sizes = [layer["n_keys"] for layer in layers]
        if not all(isinstance(size, int) for size in sizes):
            raise TypeError("the number of its keys is none")
        return {
            "model": readable(str(content["model"])[:200]),
            "text": readable(text[:200]),
            "layers": len(layers),
            "tokens": max(sizes, default=0),
            "exact": "layers.0.q" in tensors and "layers.0.k" in tensors,
        }
    except CheckpointError as error:
        return _unreadable(f"{DOCUMENT} must {error.expected}; got {error.found}")
    except (ValueError, LookupError, TypeError) as error:
        return _unreadable(f"{DOCUMENT} does not describe a run ({type(error).__name__}: {error})")


def _unreadable(reason: str) -> dict[str, Any]:
    reason = readable(f"This run cannot be read: {reason}."[:300])
    empty = {"model": "?", "layers": 0, "tokens": 0, "exact": False}
    return {**empty, "text": reason, "unreadable": True}
