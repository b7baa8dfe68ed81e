"""What a folder says of a model, in its config.json and tokenizer.json: data, which never runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import CheckpointError, listed, plain, refusing
from regard._checkpoint.files import own_file, parse_object, read_bytes, read_object
from regard._checkpoint.folder import each_key, refuse_large
from regard.models.tokenizer_limits import check_added, check_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LIMIT = 10_000_000  # bytes; the largest honest ones, with names of 20,000 classes, have 2 million
# How large a whole number may be, by what stands in its key, also inside of lists: transformers
# makes a module or a name for each of these. Other sizes only have to be those of the weights.
_MOST = {
    **dict.fromkeys(("layer", "depth"), 1_000),
    **dict.fromkeys(("block", "group", "expert", "stage", "types"), 10_000),
    "label": 1_000_000,
}
_LARGEST = 2**31 - 1
# Large vocabularies take 60 million bytes, and an object for each of a million tokens.
_TOKENIZER_LIMIT, _OBJECTS = 200_000_000, 10_000_000
_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_CODE = {"auto_map", "trust_remote_code", "custom_pipelines"}
# What would make transformers read other files, fetch something, or compute with other weights.
_ELSEWHERE = (
    *("fusion_config", "kernel_config", "quantization_config", "transformers_weights"),
    *("use_kernels", "use_pretrained_backbone", "use_timm_backbone"),
)
_CHOICES = tuple(f"{mark}{of}_implementation" for mark in ("", "_") for of in ("attn", "experts"))


def read_config(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The config of a model folder, and notes on what it says that is not obeyed.

    The choice of an implementation (`_attn_implementation` and the like) is taken out: it would
    select code, and that is for the one who runs it.
    """
    path = folder / "config.json"
    file = own_file(folder, "config.json")
    if file is None:
        remedy = "Is it a model folder? model.save_pretrained(folder) writes one."
        raise CheckpointError(folder, "hold config.json", "none", remedy)
    config = read_object(file, _LIMIT)
    _refuse_code(config, path)
    if not isinstance(config.get("model_type"), str):
        raise CheckpointError(
            path,
            "have a model_type, such as bert or llama",
            plain(config.get("model_type")),
            "Save the model once more with model.save_pretrained(folder).",
        )
    if elsewhere := [key for key in _ELSEWHERE if config.get(key)]:
        raise CheckpointError(
            path,
            "describe a model with plain weights in this folder",
            listed(elsewhere),
            "Save the model without, in float32, float16 or bfloat16.",
        )
    # Sizes that would keep this machine busy for ever, or fill it, before any weight is read. The
    # keys of label2id are names of classes, and say nothing of sizes.
    sizes = {key: value for key, value in config.items() if key != "label2id"}
    refuse_large(
        sizes,
        path,
        lambda key: min((most for part, most in _MOST.items() if part in key), default=_LARGEST),
    )
    ignored: list[str] = []
    for owner, key, value in each_key(config):
        if isinstance(owner, dict) and key.startswith(_CHOICES):
            del owner[key]
            if value is not None:
                ignored.append(f"{key} = {plain(value)}")
    if not ignored:
        return config, []
    return config, [f"config.json chooses an implementation ({listed(ignored)}), which is ignored"]


def read_tokenizer(folder: Path) -> tuple[Tokenizer | None, dict[str, str]]:
    """What `tokenizer.json` describes, to the letter; None if there is no such file. And the
    special tokens by their role, for which alone `tokenizer_config.json` is read.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    file = own_file(folder, "tokenizer.json")
    config = own_file(folder, "tokenizer_config.json")
    about = {} if config is None else read_object(config, _TOKENIZER_LIMIT)
    _refuse_code(about, folder / "tokenizer_config.json")
    if file is None:
        return None, {}
    raw = read_bytes(file, _TOKENIZER_LIMIT)
    if raw.count(b"[") + raw.count(b"{") > _OBJECTS:
        remedy = "Is it the file that it says it is?"
        raise CheckpointError(file, f"have at most {_OBJECTS:,} objects", "more", remedy)
    content = parse_object(raw, path)
    check_tokenizer(content, path)
    save = "Save it once more with tokenizer.save_pretrained(folder)."
    with refusing(path, "be a tokenizer that the tokenizers library reads", "it", save):
        check_added(content, path)
        exact = Tokenizer.from_buffer(raw)
    exact.no_padding()
    exact.no_truncation()
    special: dict[str, str] = {}
    for name in (f"{kind}_token" for kind in _SPECIAL):
        # Configs write its text, or an object with its text as content.
        text = about.get(name)
        text = text.get("content") if isinstance(text, dict) else text
        if isinstance(text, str) and text and exact.token_to_id(text) is not None:
            special[name] = text
    return exact, special


def _refuse_code(config: dict[str, Any], path: Path) -> None:
    """Raise CheckpointError if a config, at any depth, asks for code to be run."""
    for _, key, value in each_key(config):
        if key in _CODE and value:
            raise CheckpointError(
                path,
                "describe a model that transformers itself has",
                f"{key}, which asks for code of its own to be run",
                "A model folder is data here: use a model without it.",
            )
