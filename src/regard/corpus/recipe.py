"""The recipe of a corpus: all that its numbers depend on beside the texts, and what differs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from dataclasses import field as made
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast, get_args

from regard._arguments import number, shown, whole
from regard._checkpoint.errors import plain
from regard.corpus.errors import CorpusError
from regard.corpus.reading import By, Cut

_CALL = "corpus()"
_WEIGHTS = ("*.safetensors", "config.json", "model.safetensors.index.json", "tokenizer.json")
_LIBRARIES = ("regard", "torch", "transformers", "tokenizers", "numpy", "pyarrow")


def versions() -> dict[str, str]:
    """The libraries that compute and write here: with others, the last bits may be others."""
    return {name: version(name) for name in _LIBRARIES}


@dataclass(frozen=True)
class Recipe:
    """How texts become numbers. Two corpora of the same texts and recipe have the same rows.

    - `model`: a name, or the path of a folder; `weights`: the SHA-256 of its files
    - `by`, `field`: what a text is, in a text file and in a table
    - `first`: of how many tokens a text is read at most; None: a longer one is not read
    - `min_weight`, `edges`: links count from that weight on; so many of each text and head are kept
    - `threads`: of each process. A linear map of PyTorch may round otherwise with more of them, so
      it is not left to how many processes there are
    - `batch`: tokens of a batch, at most, with its padding
    - `unit`, `unit_bytes`: texts, and bytes of them, that are one unit of work, at most
    """

    model: str
    weights: str
    by: By = "file"
    field: str = "text"
    first: int | None = None
    min_weight: float = 0.25
    edges: int = 4
    threads: int = 1
    batch: int = 2048
    unit: int = 512
    unit_bytes: int = 1 << 18
    versions: dict[str, str] = made(default_factory=versions)

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            known = ", ".join(get_args(By))
            raise ValueError(f"{_CALL}: by must be one of {known}; got {shown(self.by)}.")
        if not isinstance(cast("object", self.field), str) or not self.field:
            raise ValueError(f"{_CALL}: field must be the name of one; got {shown(self.field)}.")
        if self.first is not None:
            whole(_CALL, "first", self.first, 1, remedy="It is how many tokens are read.")
        remedy = "It is the least weight that makes a link."
        number(_CALL, "min_weight", self.min_weight, 0.02, 1, remedy)
        whole(_CALL, "edges", self.edges, 0, 1_000, "It is how many links of a text are kept.")
        for name in ("threads", "batch", "unit", "unit_bytes"):
            whole(_CALL, name, getattr(self, name), 1)

    @property
    def cut(self) -> Cut:
        return Cut(self.by, self.field)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], file: Path) -> Recipe:
        """The recipe that a file holds. Raises CorpusError if it holds none."""
        names = {each.name for each in fields(cls)}
        try:
            if set(found) != names:
                raise ValueError(f"the keys {', '.join(sorted(set(found) ^ names))}")
            return cls(**found)
        except (TypeError, ValueError) as error:
            raise CorpusError(
                f"{_CALL}: {plain(file)} must hold the recipe of a corpus as this version of "
                f"Regard writes it; got {plain(error, 200)}."
            ) from None

    def different(self, other: Recipe) -> list[str]:
        """What is not as in the other one, each as a sentence without its full stop.

        >>> Recipe("m", "0", min_weight=0.5).different(Recipe("m", "0"))
        ['min_weight was 0.25, and is 0.5']
        """
        now, before = _flat(self.to_dict()), _flat(other.to_dict())
        return [
            f"{name} was {_told(before.get(name))}, and is {_told(now.get(name))}"
            for name in sorted({*now, *before})
            if now.get(name) != before.get(name)
        ]


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    own = {f"the version of {name}": each for name, each in document.pop("versions").items()}
    return {**document, **own}


def _told(value: object) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value))


def hash_of_model(folder: Path) -> str:
    """One SHA-256 of the weights, the config and the tokenizer in a folder."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _WEIGHTS for path in folder.glob(pattern)}):
        with path.open("rb") as file:
            each = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.name} {each}\n".encode())
    return digest.hexdigest()


def where(model: str | os.PathLike[str]) -> str:
    """A model as every process finds it: a name as it is, a folder by its whole path."""
    path = Path(model)
    return str(path.resolve()) if path.is_dir() else os.fsdecode(model)


def threads_here(threads: int | None) -> int:
    """How many threads each process has: one, unless it is said."""
    return 1 if threads is None else min(threads, 1024)


def cores() -> int:
    """How many processes can compute at once here."""
    return max(len(os.sched_getaffinity(0)), 1)
