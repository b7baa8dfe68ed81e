"""A model in a folder: `config.json` describes it, `model.safetensors` holds its weights."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from regard._checkpoint import (
    CheckpointError,
    listed,
    own_file,
    read_checkpoint,
    read_object,
    read_tensors,
    write_tensors,
)
from regard._extras import need
from regard._files import replacing
from regard.nn._reading import (
    CONFIG,
    DTYPES,
    FORMAT,
    LIMIT,
    SAVER,
    VERSION,
    WEIGHTS,
    check_fit,
    check_folder,
    check_still_there,
    differences,
    fill,
    outlined,
    read_config,
    refuse_absurd,
)
from regard.nn.config import StackConfig

__all__ = ["Model", "load"]


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

    _kinds: ClassVar[dict[type[StackConfig], type[Model]]] = {}

    def __init_subclass__(cls, config: type[StackConfig] | None = None) -> None:
        super().__init_subclass__()
        if config is not None:
            Model._kinds[config] = cls

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
        refuse_absurd(config.to_dict(), f"the config of {type(self).__name__}", "save()")
        library = need("save()", "safetensors.torch", "models")
        content = {"format": FORMAT, "version": VERSION, "config": config.to_dict()}
        with replacing(target) as new:
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
            (new / CONFIG).write_text(text + "\n", encoding="utf-8")
            write_tensors(library, tensors, new / WEIGHTS, {"format": "pt"})

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, allow_not_finite: bool = False) -> Self:
        """The model that `save` wrote to a folder, of this class; see `regard.nn.load`."""
        target = Path(folder)
        check_folder(target)
        config, file = read_config(target)
        kind = cls._kind(config, target)
        before = file.stat()
        checkpoint = read_checkpoint(target, SAVER)
        model = outlined(kind, config, target / CONFIG, checkpoint)
        check_fit(model, target, checkpoint)
        need("load()", "safetensors", "models")
        tensors = read_tensors(checkpoint, allow_not_finite=allow_not_finite)
        check_still_there(target, before)
        fill(model, tensors)
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
        found = type(config).__name__ if kind is None else kind.__name__
        raise CheckpointError(
            target,
            f"hold a {cls.__name__}",
            f"a {found}",
            "regard.nn.load(folder) takes any model."
            if kind is not None
            else f"{SAVER} writes one.",
        )


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
    if not target.exists():
        return
    if not target.is_dir():
        raise CheckpointError(
            target, "be a folder, or not be there", "a file", "Name another.", call="save()"
        )
    names = {each.name for each in target.iterdir()}
    if names - {CONFIG, WEIGHTS}:
        raise CheckpointError(
            target,
            "hold a model and nothing else, or be empty, as it is replaced",
            listed(names - {CONFIG, WEIGHTS}),
            "Name another folder, or move that away.",
            call="save()",
        )
    try:
        file = own_file(target, CONFIG)
        ours = file is not None and read_object(file, LIMIT).get("format") == FORMAT
    except CheckpointError:
        ours = False
    if names and not ours:
        raise CheckpointError(
            target,
            "hold a model of regard.nn, or be empty, as it is replaced",
            "files of another kind",
            "Name another folder.",
            call="save()",
        )


def _check_model(model: Model) -> tuple[StackConfig, dict[str, Tensor]]:
    """The config and the tensors of a model, each once; refuses what its config does not say."""
    name = type(model).__name__
    config = getattr(model, "config", None)
    kind = Model._kinds.get(type(config)) if isinstance(config, StackConfig) else None
    if kind is None or not isinstance(config, StackConfig) or not isinstance(model, kind):
        raise TypeError(
            f"save(): {name} must have a config of its own kind; got {type(config).__name__}."
        )
    tensors = _once(model)
    with torch.device("meta"):
        outline = kind(config)
    problems = differences(
        {key: tuple(part.shape) for key, part in outline.named_parameters()},
        {key: tuple(tensor.shape) for key, tensor in tensors.items()},
    )
    odd = [
        f"{key} {tensor.dtype} on {tensor.device.type}"
        for key, tensor in tensors.items()
        if tensor.dtype not in DTYPES or tensor.is_meta
    ]
    if odd:
        problems.append(f"no weights in floating point: {listed(odd)}")
    if problems:
        raise CheckpointError(
            name,
            "have exactly the weights that its config describes",
            "; ".join(problems),
            "Save state_dict() by other means if the model was changed.",
            call="save()",
        )
    return config, _apart(tensors)


def _once(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model by name; one with several names has the first of them."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors without gaps, and without memory in common."""
    seen: set[int] = set()
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        place = whole.untyped_storage().data_ptr()
        found[name] = whole.clone() if place in seen else whole
        seen.add(place)
    return found
