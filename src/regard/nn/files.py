"""A model in a folder: `config.json` describes it, `model.safetensors` holds its weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from regard._checkpoint.errors import CheckpointError, listed, plain
from regard._checkpoint.files import own_file, read_object
from regard._checkpoint.folder import Checkpoint, read_checkpoint, read_tensors, within
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
_AGAIN = "Copy the folder again, whole, and see that its config.json belongs to it."
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
        _refuse_absurd(config.to_dict(), f"the config of {type(self).__name__}", "save()")
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
        model = _outline(kind, config, target / _CONFIG, checkpoint)
        _check_fit(model, target, checkpoint)
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
        found = type(config).__name__ if kind is None else kind.__name__
        raise CheckpointError(
            target,
            f"hold a {cls.__name__}",
            f"a {found}",
            "regard.nn.load(folder) takes any model."
            if kind is not None
            else f"{_SAVER} writes one.",
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
    if names - {_CONFIG, _WEIGHTS}:
        raise CheckpointError(
            target,
            "hold a model and nothing else, or be empty, as it is replaced",
            listed(names - {_CONFIG, _WEIGHTS}),
            "Name another folder, or move that away.",
            call="save()",
        )
    try:
        file = own_file(target, _CONFIG)
        ours = file is not None and read_object(file, _LIMIT).get("format") == _FORMAT
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
    once: dict[int, tuple[str, Tensor]] = {}  # a tied tensor has the first of its names
    for key, tensor in model.state_dict(keep_vars=True).items():
        once.setdefault(id(tensor), (key, tensor))
    tensors = dict(once.values())
    with torch.device("meta"):
        outline = kind(config)
    problems = _differences(
        {key: tuple(part.shape) for key, part in outline.named_parameters()},
        {key: tuple(tensor.shape) for key, tensor in tensors.items()},
    )
    odd = [
        f"{key} {tensor.dtype} on {tensor.device.type}"
        for key, tensor in tensors.items()
        if tensor.dtype not in _DTYPES or tensor.is_meta
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


# ── loading ───────────────────────────────────────────────────────────────────────────────────


def _read_config(target: Path) -> tuple[StackConfig, os.stat_result]:
    """What config.json describes, and the state that its file was in."""
    if not target.is_dir():
        old = left_over(target)
        remedy = f"{_SAVER} writes one."
        if old is not None:
            remedy = f"An interrupted save left the model before it in {plain(old)}: rename that."
        found = "a file" if target.exists() else "nothing there"
        raise CheckpointError(target, "be a folder", found, remedy)
    path = target / _CONFIG
    file = own_file(target, _CONFIG)
    if file is None:
        raise CheckpointError(
            target, f"hold {_CONFIG}", "none", f"Is it a model folder? {_SAVER} writes one."
        )
    before = file.stat()
    content = read_object(file, _LIMIT)
    if content.get("format") != _FORMAT:
        foreign = "model_type" in content
        raise CheckpointError(
            path,
            f"say that its format is {_FORMAT}",
            "a model of transformers" if foreign else plain(content.get("format")),
            "regard.models.load(folder) reads it." if foreign else f"{_SAVER} writes one.",
        )
    version = content.get("version")
    if type(version) is not int or version != _VERSION:
        raise CheckpointError(
            path,
            f"be of version {_VERSION}",
            plain(version),
            "A newer Regard may read it: pip install --upgrade regard.",
        )
    unknown = set(content) - {"format", "version", "config"}
    if unknown:
        raise CheckpointError(
            path, "have format, version and config alone", listed(unknown), "Remove the others."
        )
    described = content.get("config")
    _refuse_absurd(described, path)
    if isinstance(
        described, dict
    ):  # one that does not say so was written when none was the default
        described = {"position": NoPosition().to_dict()} | described
    try:
        return StackConfig.from_dict(described), before
    except (ValueError, TypeError) as error:
        raise CheckpointError(path, "describe a model", _in_words(error), _AGAIN) from None


def _refuse_absurd(described: object, path: Path | str, call: str = "load()") -> None:
    """Raise CheckpointError for whole numbers that no model has."""
    waiting: list[tuple[str, Any]] = [("config", described)]
    while waiting:
        key, value = waiting.pop()
        most = _MOST.get(key, _LARGEST)
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, int) and abs(value) > most:
            expected = f"have whole numbers of at most {most:,} as {plain(key)}"
            raise CheckpointError(path, expected, plain(value), _AGAIN, call=call)


def _outline(kind: Any, config: StackConfig, path: Path, checkpoint: Checkpoint) -> Any:
    """The model without any numbers; refused as soon as it has far more of them than the file."""
    most = 2 * len(checkpoint.names) + _TENSORS
    room = 5 * checkpoint.count + _ROOM
    try:
        with torch.device("meta"), within(path, checkpoint, tensors=most, numbers=room):
            return kind(config)
    except CheckpointError:
        raise
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        expected = "describe a model that can be built"
        raise CheckpointError(path, expected, _in_words(error), _AGAIN) from None


def _check_fit(model: nn.Module, target: Path, checkpoint: Checkpoint) -> None:
    """Raise CheckpointError that lists all tensors that are missing, left over or not as wanted."""
    entries = {name: entry for file in checkpoint.files.values() for name, entry in file.items()}
    wanted = {name: tuple(part.shape) for name, part in model.named_parameters()}
    problems = _differences(wanted, {name: entry.shape for name, entry in entries.items()})
    odd = [
        f"{plain(name)} {entry.dtype}"
        for name, entry in entries.items()
        if name in wanted and entry.dtype not in _DTYPES.values()
    ]
    if odd:
        problems.append(f"not one of {', '.join(_DTYPES.values())}: {listed(odd)}")
    if problems:
        raise CheckpointError(
            target,
            f"hold exactly the tensors of {type(model).__name__}",
            "; ".join(problems),
            _AGAIN,
        )


def _differences(
    wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]
) -> list[str]:
    """What is wrong with the tensors that were found, by name and shape.

    >>> _differences({"a": (2,), "b": (3,)}, {"b": (5,), "c": (7,)})
    ['missing: a', 'left over: c', 'of another shape: b [5] instead of [3]']
    """
    shapes = [
        f"{plain(name)} {list(found[name])} instead of {list(shape)}"
        for name, shape in wanted.items()
        if name in found and found[name] != shape
    ]
    all_of_them = {
        "missing": set(wanted) - set(found),
        "left over": set(found) - set(wanted),
        "of another shape": shapes,
    }
    return [f"{what}: {listed(names)}" for what, names in all_of_them.items() if names]


def _in_words(error: Exception) -> str:
    text = str(error).partition("\n")[0].removesuffix(".")
    return f"an error: {plain(text, longest=500)}"
