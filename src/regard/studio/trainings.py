"""Trainings that the studio follows: which there are, how far each is, and what is new of it."""

from __future__ import annotations

import contextlib
import os
import threading
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import CheckpointError
from regard._checkpoint.files import own_file
from regard._followed import (
    LOG,
    PICTURES,
    RECIPE,
    last_step,
    lines_after,
    pictures_of,
    status_of,
)
from regard.studio.places import Forbidden, Places
from regard.studio.shelf import folder_id
from regard.text import readable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regard.train._history import Pictured

MOST_NEWS = 1_000_000  # bytes of a log in one answer
_MOST_RECIPE = 1_000_000  # bytes
_MOST_KEPT = 2  # trainings whose pictures stay in memory
_MOST_LISTED = 1000


class NoSuchTraining(ValueError):
    """A training was asked for that is not there, or not any more."""


class Trainings:
    """Trainings by an id, which says nothing of where they lie.

    Nothing is written. Listing them, and what is new of one, takes no torch; its pictures do, as
    their tokens are those of its task.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._kept: dict[str, tuple[Any, Pictured]] = {}
        self._lock = threading.Lock()

    # ── which there are ───────────────────────────────────────────────────────────────────────

    def list(self) -> list[dict[str, Any]]:
        """Every training, the one that was written to last first."""
        found = [self._summary(name, folder) for name, folder in self._folders().items()]
        return sorted(found, key=lambda each: -each["changed"])[:_MOST_LISTED]

    def _folders(self) -> dict[str, Path]:
        """The folders that hold a training: those that were named, and what is directly in them."""
        found: dict[str, Path] = {}
        for place in self._places.folders:
            candidates = [place]
            if not os.path.lexists(place / RECIPE):
                try:
                    candidates = [each for each in place.iterdir() if each.name[0] != "."]
                except OSError:
                    continue  # it is not there, not yet, or not for us to read
            for folder in candidates:
                with contextlib.suppress(Forbidden):
                    if os.path.lexists(folder / RECIPE):
                        real = self._places.find(folder)
                        found[folder_id(real)] = real
        return found

    def _folder(self, name: str) -> Path:
        """Where a training lies. What is read of it must lie in the studio's folders, too."""
        folder = self._folders().get(name)
        if folder is None:
            raise NoSuchTraining("This training is not here any more.")
        data = folder / "data"
        inside = list(data.iterdir()) if data.is_dir() else []
        named = [folder / each for each in (RECIPE, LOG, PICTURES, "tokenizer.json")]
        for path in [data, *named, *inside]:
            self._places.find(path)
        return folder

    def _summary(self, name: str, folder: Path) -> dict[str, Any]:
        """What is known of a training; a broken one must not hide the others."""
        about: dict[str, Any] = {"task": "?", "steps": 0, "step": 0, "status": "stopped"}
        changed = 0.0
        try:
            self._folder(name)
            changed = max(_changed(folder / RECIPE), _changed(folder / LOG))
            recipe = _recipe(folder)
            step = last_step(folder / LOG)
            status = status_of(folder, recipe["training"], step)
            task, steps = readable(str(recipe["task"])[:50]), recipe["training"]["steps"]
            about = {"task": task, "steps": int(steps), "step": step, "status": status}
        except (CheckpointError, OSError, ValueError, LookupError, TypeError) as error:
            about["problem"] = readable(f"This training cannot be read: {error}"[:300])
        return {"id": name, "name": readable(folder.name), "changed": changed, **about}

    # ── one of them ───────────────────────────────────────────────────────────────────────────

    def about(self, name: str) -> dict[str, Any]:
        """What a page is told of a training beside its log: the heads, and their pictures."""
        from regard.train._history import pictured_document

        folder = self._folder(name)
        return {**self._summary(name, folder), **pictured_document(self._pictured(name, folder))}

    def news(self, name: str, after: int) -> dict[str, Any]:
        """What the log says from a byte on, where the next line will begin, and whether it goes on.

        `pictures` is how many there are; `begun`, when the run was, as another may have taken its
        place.
        """
        if not 0 <= after < 2**53:
            raise ValueError("after must be a place in the log: a whole number of bytes.")
        folder = self._folder(name)
        read = lines_after(folder / LOG, after, MOST_NEWS)
        step = last_step(folder / LOG)
        return {
            "lines": read.lines,
            "end": read.end,
            "more": read.more,
            "unread": read.broken,
            "status": status_of(folder, _recipe(folder)["training"], step),
            "step": step,
            "pictures": len(pictures_of(folder)),
            "begun": _changed(folder / RECIPE),
        }

    def head(self, name: str, layer: int, head: int, after: int) -> tuple[NDArray[Any], Any]:
        """The weights of one head in the pictures that were taken later than `after` steps:
        (pictures, queries, keys).
        """
        found = self._pictured(name, self._folder(name))
        arrays = [*found.weights.values()]
        if not 0 <= layer < len(arrays) or not 0 <= head < arrays[layer].shape[1]:
            raise ValueError("There is no such head in the pictures of this training.")
        later = [n for n, step in enumerate(found.steps) if step > after]
        return arrays[layer][later, head], {}

    def _pictured(self, name: str, folder: Path) -> Pictured:
        """The pictures of a training, read again when there are others."""
        from regard.train._history import pictured
        from regard.train.api import read_kept

        key = (_changed(folder / RECIPE), tuple(pictures_of(folder)))
        with self._lock:
            known = self._kept.get(name)
            if known is None or known[0] != key:
                _recipe(folder)
                known = self._kept[name] = key, pictured(folder, read_kept(folder))
                for old in [each for each in self._kept if each != name][: 1 - _MOST_KEPT]:
                    del self._kept[old]
            return known[1]


def _recipe(folder: Path) -> dict[str, Any]:
    """What the recipe of a run says, as far as it is one."""
    file = own_file(folder, RECIPE, links=False)
    if file is None or file.stat().st_size > _MOST_RECIPE:
        raise CheckpointError(folder, f"hold a {RECIPE}", "none, or a huge one", "")
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
        numbers = [found["training"].get(name, 0) for name in ("steps", "patience")]
        if all(type(number) is int for number in numbers):
            return found
    except (ValueError, LookupError, AttributeError, RecursionError):
        pass
    raise CheckpointError(file, "be a recipe", "something else", "")


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
