"""What a model's config.json may say, and what it may not: it describes, it never runs anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard._checkpoint import CheckpointError, listed, own_file, plain, read_object

_LIMIT = 10_000_000  # bytes; the largest honest ones, with names of 20,000 classes, have 2 million
# How large a whole number may be, by what stands in its key, also inside of lists: transformers
# makes a module or a name for each of these. Other sizes only have to be those of the weights.
_MOST = {
    "layer": 1_000,
    "depth": 1_000,
    "block": 10_000,
    "group": 10_000,
    "expert": 10_000,
    "stage": 10_000,
    "types": 10_000,
    "label": 1_000_000,
}
_LARGEST = 2**31 - 1
_CODE = {"auto_map", "trust_remote_code", "custom_pipelines"}
# What would make transformers read other files, fetch something, or compute with other weights.
_ELSEWHERE = {
    "fusion_config",
    "kernel_config",
    "quantization_config",
    "transformers_weights",
    "use_kernels",
    "use_pretrained_backbone",
    "use_timm_backbone",
}
_CHOICES = tuple(f"{mark}{of}_implementation" for mark in ("", "_") for of in ("attn", "experts"))


def read_config(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The config of a model folder, and what it held besides that is not obeyed.

    The choice of an implementation (`_attn_implementation` and the like) is taken out: it would
    select code, and that is for the one who runs it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "config.json")
    ...     _ = path.write_text('{"model_type": "bert", "auto_map": {"AutoModel": "evil.Model"}}')
    ...     read_config(Path(folder))
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ...config.json must describe a model that
    transformers itself has; got auto_map, which asks for code of its own to be run. A model folder
    is data here: use a model without it.
    """
    path = folder / "config.json"
    file = own_file(folder, "config.json")
    if file is None:
        raise CheckpointError(
            folder,
            "hold config.json",
            "none",
            "Is it a model folder? model.save_pretrained(folder) writes one.",
        )
    config = read_object(file, _LIMIT)
    refuse_code(config, path)
    if not isinstance(config.get("model_type"), str):
        raise CheckpointError(
            path,
            "have a model_type, such as bert or llama",
            plain(config.get("model_type")),
            "Save the model once more with model.save_pretrained(folder).",
        )
    elsewhere = [key for key in _ELSEWHERE if config.get(key)]
    if elsewhere:
        raise CheckpointError(
            path,
            "describe a model with plain weights in this folder",
            listed(elsewhere),
            "Save the model without, in float32, float16 or bfloat16.",
        )
    _refuse_absurd(config, path)
    return config, _without_choices(config)


def refuse_code(config: dict[str, Any], path: Path) -> None:
    """Raise CheckpointError if a config, at any depth, asks for code to be run.

    >>> refuse_code({"model_type": "bert"}, Path("config.json"))
    """
    for key, value in _walk(config):
        if key in _CODE and value:
            raise CheckpointError(
                path,
                "describe a model that transformers itself has",
                f"{key}, which asks for code of its own to be run",
                "A model folder is data here: use a model without it.",
            )


def _refuse_absurd(config: dict[str, Any], path: Path) -> None:
    """Sizes that would keep this machine busy for ever, or fill it, before any weight is read."""
    # The keys of label2id are names of classes, and say nothing of sizes.
    for key, value in _walk({key: value for key, value in config.items() if key != "label2id"}):
        if not isinstance(value, int):
            continue
        limit = min((most for part, most in _MOST.items() if part in key), default=_LARGEST)
        if abs(value) > limit:
            raise CheckpointError(
                path,
                f"have whole numbers of at most {limit:,} as {plain(key)}",
                plain(value),
                "Copy the file again from where it came from.",
            )


def _walk(value: object) -> list[tuple[str, Any]]:
    """All keys of all objects inside of a JSON value, with what they lead to: a list that a key
    leads to, and each thing in it.
    """
    found: list[tuple[str, Any]] = []
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        key, value = waiting.pop()
        inside: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            inside = list(value.items())
        elif isinstance(value, list):
            inside = [(key, each) for each in value]
        found += inside
        waiting += inside
    return found


def _without_choices(config: dict[str, Any]) -> list[str]:
    """Take the choices of an implementation out of a config; what they were."""
    ignored: list[str] = []
    waiting: list[object] = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key in [key for key in value if key.startswith(_CHOICES)]:
                chosen = value.pop(key)
                if chosen is not None:
                    ignored.append(f"{key} = {plain(chosen)}")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return ignored
