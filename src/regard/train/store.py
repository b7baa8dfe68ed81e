"""Tokens on disk: one long row of them, or many rows, read where they are, not into memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._checkpoint.errors import CheckpointError
from regard._checkpoint.files import read_object
from regard._files import naming, replacing

_MANIFEST = "manifest.json"
DATA_FILES = ("tokenizer.json", "data/manifest.json")  # what says what a run learns from
_LIMIT = 10_000_000
_TYPES = {"u2": np.dtype("<u2"), "u4": np.dtype("<u4"), "i8": np.dtype("<i8")}


class Store:
    """A folder of arrays of whole numbers, which appeared whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_store(Path(place, "data"), {"kind": "some"}, {"tokens": [[5, 6], [7]]}, 9)
    ...     store = Store(Path(place, "data"))
    ...     store["tokens"].tolist(), store.about
    ([5, 6, 7], {'kind': 'some'})
    """

    def __init__(self, folder: Path) -> None:
        manifest = read_object(folder / _MANIFEST, _LIMIT)
        self.about: dict[str, Any] = manifest["about"]
        self._arrays: dict[str, NDArray[Any]] = {}
        for name, entry in manifest["arrays"].items():
            path = folder / f"{name}.{entry['type']}"
            if not path.is_file() or path.stat().st_size != entry["bytes"]:
                expected, remedy = f"have {entry['bytes']:,} bytes", "Begin the run anew."
                raise CheckpointError(path, expected, "another size", remedy, call="train()")
            if hash_of(path) != entry["sha256"]:
                expected, remedy = "have the content that was written", "Begin the run anew."
                raise CheckpointError(path, expected, "another one", remedy, call="train()")
            if entry["bytes"]:
                self._arrays[name] = np.memmap(path, _TYPES[entry["type"]], "r")
            else:
                self._arrays[name] = np.empty(0, _TYPES[entry["type"]])

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def rows(self, name: str) -> Rows:
        """Rows that were written with their ends."""
        return Rows(self[name], self[f"{name}-ends"])


class Rows:
    """Rows of tokens that stand one after the other."""

    def __init__(self, tokens: NDArray[Any], ends: NDArray[Any]) -> None:
        self._tokens, self._ends = tokens, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> list[int]:
        start = int(self._ends[number - 1]) if number else 0
        return self._tokens[start : int(self._ends[number])].tolist()

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self._ends, prepend=0)


def write_store(
    folder: Path,
    about: dict[str, Any],
    arrays: Mapping[str, Iterable[Any]],
    vocabulary: int,
) -> None:
    """Write arrays, each given in portions. Those of names that end in -ends are 64 bits wide."""
    with naming(folder), replacing(folder) as new:
        entries: dict[str, Any] = {}
        for name, portions in arrays.items():
            kind = "i8" if name.endswith("-ends") else "u2" if vocabulary <= 2**16 else "u4"
            digest = hashlib.sha256()
            size = 0
            with (new / f"{name}.{kind}").open("wb") as file:
                for portion in portions:
                    content = np.asarray(portion, _TYPES[kind]).tobytes()
                    digest.update(content)
                    size += len(content)
                    file.write(content)
            entries[name] = {"type": kind, "bytes": size, "sha256": digest.hexdigest()}
        text = json.dumps({"about": about, "arrays": entries}, indent=1, ensure_ascii=False)
        (new / _MANIFEST).write_text(text + "\n", encoding="utf-8")


def hash_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
