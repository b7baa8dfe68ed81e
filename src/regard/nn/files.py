"""A model in a folder: `config.json` describes it, `model.safetensors` holds its weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from regard._checkpoint.errors import COPY_MODEL, CheckpointError, listed, plain, refusing
from regard._checkpoint.files import is_replaced, own_file, read_object
from regard._checkpoint.folder import (
    Checkpoint,
    differences,
    read_checkpoint,
    read_tensors,
    refuse_large,
    within,
)
from regard._checkpoint.safetensors_file import write_tensors
from regard._extras import need
from regard._files import left_over, replacing
from regard.nn._parameters import fill
from regard.nn.config import StackConfig
from regard.nn.position import NoPosition

_FORMAT, _VERSION = "regard.nn", 1
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_SAVER = "model.save(folder)"
_LIMIT = 1_000_000  # bytes of config.json; an honest one has about a thousand
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
}
_LARGEST = 2**31 - 1  # of any whole number in a config
_MOST: dict[str, int] = {
    **dict.fromkeys(("heads", "kv_heads", "layers", "decoder_layers"), 2**16),
    **dict.fromkeys(("window", "distance"), 2**1000),  # which cost no memory
}
# What a model may have beside its weights while it is built: tied tables count several times, and
# a config that is a little wrong is better told which tensors are missing.
_TENSORS, _ROOM = 512, 2**26


class Model(nn.Module):
    """The base of all models: a module that its `config` describes in full.

    >>> import tempfile
    >>> from regard.nn import LanguageModel, LanguageModelConfig
    >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     model.save(Path(place, "small"))
    ...     again = LanguageModel.load(Path(place, "small"))
    >>> again.config == model.config, torch.equal(again.head.weight, model.head.weight)
    (True, True)
    """

    config_class: ClassVar[type[StackConfig]]
    _kinds: ClassVar[dict[type[StackConfig], type[Model]]] = {}

    def __init_subclass__(cls, config: type[StackConfig] | None = None) -> None:
        super().__init_subclass__()
        if config is not None:
            Model._kinds[config] = cls
            cls.config_class = config

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to a folder: `config.json`, and its weights in `model.safetensors`.

        The weights keep their dtype; those that are tied are stored once. A model that is already
        there is replaced when the new one is complete, and not before. Weights that are NaN or
        infinite are written, too; `load` takes them with `allow_not_finite`. Raises
        CheckpointError, a ValueError, if anything else is there, or if the model is not what its
        config describes; OSError if the disk is full, or may not be written to.
        """
        target = Path(folder)
        _check_target(target)
        config, tensors = _check_model(self)
        refuse_large(config.to_dict(), f"the config of {type(self).__name__}", _most, "save()")
        library = need("save()", "safetensors.torch", "models")
        content = {"format": _FORMAT, "version": _VERSION, "config": config.to_dict()}
        with replacing(target) as new:
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
            (new / _CONFIG).write_text(text + "\n", encoding="utf-8")
            write_tensors(library, tensors, new / _WEIGHTS, {"format": "pt"})

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, allow_not_finite: bool = False) -> Self:
        """The model that `save` wrote to a folder, of this class; see `regard.nn.load`."""
        target = Path(folder)
        config, before = _read_config(target)
        kind = cls._kind(config, target)
        checkpoint = read_checkpoint(target, _SAVER)
        model = _outline(kind, config, target, checkpoint)
        need("load()", "safetensors", "models")
        tensors = read_tensors(checkpoint, allow_not_finite=allow_not_finite)
        file = own_file(target, _CONFIG)
        now = None if file is None else file.stat()
        if now is None or (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
            raise CheckpointError(
                target, "stay as it is while it is read", "another model", "Load it again."
            )
        fill(model, {name: nn.Parameter(tensor) for name, tensor in tensors.items()})
        return model.eval()

    @classmethod
    def _kind(cls, config: StackConfig, target: Path) -> type[Self]:
        """The class of the model that a config describes, which must be this one or a kind of it.

        A class of one's own, derived from the one that is described, is taken.
        """
        kind = Model._kinds.get(type(config))
        if kind is not None and issubclass(kind, cls):
            return kind
        if kind is not None and issubclass(cls, kind):
            return cls
        found, remedy = type(config).__name__, f"{_SAVER} writes one."
        if kind is not None:
            found, remedy = kind.__name__, "regard.nn.load(folder) takes any model."
        raise CheckpointError(target, f"hold a {cls.__name__}", f"a {found}", remedy)


def load(folder: str | os.PathLike[str], *, allow_not_finite: bool = False) -> Model:
    """The model that `model.save(folder)` wrote, of whatever class it was, in evaluation mode.

    A folder is data, and nothing in it is trusted: the config is checked field by field, the header
    of the weights to the last byte, and the one against the other, before any number is read.
    Raises CheckpointError, a ValueError, that says what is wrong and where. Weights that are NaN or
    infinite are refused unless `allow_not_finite`. The weights keep the dtype of the file.

    >>> load("no such folder")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): no such folder must be a folder; got nothing
    there. model.save(folder) writes one.
    """
    return Model.load(folder, allow_not_finite=allow_not_finite)


# ── saving ────────────────────────────────────────────────────────────────────────────────────


def _check_target(target: Path) -> None:
    """Refuse to overwrite anything but a model."""
    if not is_replaced(target, (_CONFIG, _WEIGHTS), "model"):
        return
    try:
        file = own_file(target, _CONFIG)
        ours = file is not None and read_object(file, _LIMIT).get("format") == _FORMAT
    except CheckpointError:
        ours = False
    if not ours:
        expected = "hold a model of regard.nn, or be empty, as it is replaced"
        found, remedy = "files of another kind", "Name another folder."
        raise CheckpointError(target, expected, found, remedy, call="save()")


def _check_model(model: Model) -> tuple[StackConfig, dict[str, Tensor]]:
    """The config of a model, and its tensors, each once. Refuses what the config does not say."""
    name, config = type(model).__name__, getattr(model, "config", None)
    kind = Model._kinds.get(type(config)) if isinstance(config, StackConfig) else None
    if kind is None or not isinstance(config, StackConfig) or not isinstance(model, kind):
        raise TypeError(
            f"save(): {name} must have a config of its own kind; got {type(config).__name__}."
        )
    once: dict[int, tuple[str, Tensor]] = {}  # a tied tensor has the first of its names
    for key, tensor in model.state_dict(keep_vars=True).items():
        once.setdefault(id(tensor), (key, tensor))
    tensors = dict(once.values())
    with torch.device("meta"):
        outline = kind(config)
    shapes = {key: tensor.shape for key, tensor in tensors.items()}
    odd = [
        f"{key} {tensor.dtype} on {tensor.device.type}"
        for key, tensor in tensors.items()
        if tensor.dtype not in _DTYPES or tensor.is_meta
    ]
    if wrong := _misfits(outline, shapes, "no weights in floating point", odd):
        expected = "have exactly the weights that its config describes"
        remedy = "Save state_dict() by other means if the model was changed."
        raise CheckpointError(name, expected, wrong, remedy, call="save()")
    return config, tensors


# ── loading ───────────────────────────────────────────────────────────────────────────────────


def _read_config(target: Path) -> tuple[StackConfig, os.stat_result]:
    """What config.json describes, and the state that its file was in."""
    writes = f"{_SAVER} writes one."
    if not target.is_dir():
        old, found = left_over(target), "a file" if target.exists() else "nothing there"
        if old is not None:
            writes = f"An interrupted save left the model before it in {plain(old)}: rename that."
        raise CheckpointError(target, "be a folder", found, writes)
    path, file = target / _CONFIG, own_file(target, _CONFIG)
    if file is None:
        raise CheckpointError(target, f"hold {_CONFIG}", "none", f"Is it a model folder? {writes}")
    before = file.stat()
    content = read_object(file, _LIMIT)
    if content.get("format") != _FORMAT:
        expected, found = f"say that its format is {_FORMAT}", plain(content.get("format"))
        if "model_type" in content:
            found, writes = "a model of transformers", "regard.models.load(folder) reads it."
        raise CheckpointError(path, expected, found, writes)
    version = content.get("version")
    if type(version) is not int or version != _VERSION:
        remedy = "A newer Regard may read it: pip install --upgrade regard."
        raise CheckpointError(path, f"be of version {_VERSION}", plain(version), remedy)
    if unknown := set(content) - {"format", "version", "config"}:
        expected = "have format, version and config alone"
        raise CheckpointError(path, expected, listed(unknown), "Remove the others.")
    described = content.get("config")
    refuse_large(described, path, _most)
    if isinstance(described, dict):  # what a folder leaves out stays what it was: none
        described = {"position": NoPosition().to_dict()} | described
    with refusing(path, "describe a model", "regard.nn", COPY_MODEL):
        return StackConfig.from_dict(described), before


def _most(key: str) -> int:
    return _MOST.get(key, _LARGEST)


def _outline(kind: Any, config: StackConfig, target: Path, checkpoint: Checkpoint) -> Any:
    """The model without any numbers, which has exactly the tensors of the folder.

    Refused as soon as it has far more of them, and then with a list of all that do not fit.
    """
    path = target / _CONFIG
    most, room = 2 * len(checkpoint.names) + _TENSORS, 5 * checkpoint.count + _ROOM
    with (
        refusing(path, "describe a model that can be built", "regard.nn", COPY_MODEL),
        torch.device("meta"),
        within(path, checkpoint, tensors=most, numbers=room),
    ):
        model = kind(config)
    entries = {name: entry for file in checkpoint.files.values() for name, entry in file.items()}
    shapes = {name: entry.shape for name, entry in entries.items()}
    odd = [
        f"{plain(name)} {entries[name].dtype}"
        for name, _ in model.named_parameters()
        if name in entries and entries[name].dtype not in _DTYPES.values()
    ]
    if wrong := _misfits(model, shapes, f"not one of {', '.join(_DTYPES.values())}", odd):
        expected = f"hold exactly the tensors of {type(model).__name__}"
        raise CheckpointError(target, expected, wrong, COPY_MODEL)
    return model


def _misfits(
    model: nn.Module, found: Mapping[str, tuple[int, ...]], what: str, odd: list[str]
) -> str:
    """What is wrong with the shapes that were found, and `what` with the `odd` ones."""
    wanted = {name: tuple(part.shape) for name, part in model.named_parameters()}
    reshaped = [
        (name, found[name], shape)
        for name, shape in wanted.items()
        if name in found and tuple(found[name]) != shape
    ]
    wrong = differences(set(wanted) - set(found), set(found) - set(wanted), reshaped)
    return "; ".join(wrong + ([f"{what}: {listed(odd)}"] if odd else []))
