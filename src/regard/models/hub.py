"""A model of the Hugging Face Hub by its id, as a folder of data files that is checked as any."""

from __future__ import annotations

import re
from pathlib import Path

from regard._checkpoint import CheckpointError, plain
from regard.models.progress import working
from regard.models.quiet import quiet

__all__ = ["from_hub"]

_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_FILES = [
    "config.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
]


def from_hub(name: str, progress: bool | None = None) -> Path:
    """The folder of a model of the Hub in its local cache, fetched if it is not there yet.

    >>> from_hub("./no/such/folder")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ./no/such/folder must be a folder, minilm,
    smollm2, or the id of a model on the Hub; got none of these. See that the folder exists.
    """
    expected = "be a folder, minilm, smollm2, or the id of a model on the Hub"
    if not _ID.fullmatch(name):
        raise CheckpointError(name, expected, "none of these", "See that the folder exists.")
    from huggingface_hub import snapshot_download

    try:
        with working(f"Fetching {name}", progress), quiet():
            return Path(snapshot_download(name, allow_patterns=_FILES))
    except Exception as error:  # no network, no such id, no right to see it: many kinds
        raise CheckpointError(
            name,
            expected,
            "no folder of that name here, and nothing from the Hub "
            f"({plain(str(error).partition(chr(10))[0])})",
            "Check the name and the network. minilm and smollm2 come from the Python package "
            "index and need no Hub.",
        ) from error
