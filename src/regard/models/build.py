"""From a checked config and checked tensors to a model, with nothing missing and nothing left over.

transformers is handed the config and the tensors. It never sees the folder, so it cannot find
adapters, pickles, code or names of other models there.
"""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import COPY_MODEL, CheckpointError, listed, plain, refusing
from regard._checkpoint.folder import (
    Checkpoint,
    differences,
    read_checkpoint,
    read_tensors,
    too_large,
    within,
)
from regard.models.fetch import need_packages, to_fetch_again
from regard.models.loaded import Loaded
from regard.models.own_format import FORMAT
from regard.models.progress import quiet, working
from regard.models.reader import OpenedModel

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# Buffers that older versions saved and that every model computes by itself.
_COMPUTED = re.compile(r"(^|\.)(position_ids|rotary_emb\.inv_freq|attn\.bias|attn\.masked_bias)$")
_TASKS = (
    *("", "FOR_CAUSAL_LM_", "FOR_MASKED_LM_", "FOR_MULTIPLE_CHOICE_"),
    *("FOR_NEXT_SENTENCE_PREDICTION_", "FOR_PRETRAINING_", "FOR_QUESTION_ANSWERING_"),
    *("FOR_SEQUENCE_CLASSIFICATION_", "FOR_SEQ_TO_SEQ_CAUSAL_LM_", "FOR_TOKEN_CLASSIFICATION_"),
)
_ROOM = 2**26  # numbers that a model may have beside its weights: causal masks, rotary tables
_TENSORS = 4096  # tensors that it may have beside them: those that are tied, or stored as one
# Models whose tables of positions are computed number by number, in Python, which takes time even
# in an outline; others do so if their config says sinusoidal. The longest honest ones have a
# million numbers, which takes a second.
_TABLES = {"marian", "pegasus", "roformer"}
_LARGEST_TABLE = 2**22

_refusing = partial(
    refusing,
    by="transformers",
    remedy="See that the config belongs to the weights, and to this version of transformers.",
)


def build(
    opened: OpenedModel, *, allow_not_finite: bool = False, progress: bool | None = None
) -> Loaded:
    """The model with its weights, in evaluation mode, in float32, on the CPU; and its tokenizer.

    A config far larger than its weights is refused before any of them is read. Tied weights may be
    missing, and buffers that the model computes by itself may be there (their names end in
    position_ids, rotary_emb.inv_freq, attn.bias or attn.masked_bias). All else that is missing,
    left over or of another shape is listed in one CheckpointError.
    """
    name, folder = opened.name, opened.folder
    is_own = opened.config.get("format") == FORMAT
    with to_fetch_again(name, folder):
        checkpoint = None if is_own else read_checkpoint(folder)
        need_packages()
        with working(f"Loading {plain(name)}", progress):
            from transformers import PreTrainedTokenizerFast

            tokenizer = None
            if opened.tokenizer is not None:
                own, special = opened.tokenizer, opened.special
                tokenizer = PreTrainedTokenizerFast(tokenizer_object=own, **special)
                # The wrapper may change its copy (it marks tokens as special, and sets templates).
                # What is looked at here must be what the file says.
                tokenizer._tokenizer = own
            if checkpoint is None:
                from regard.models.own import own_model, reads_forward

                ours: Any = own_model(folder, opened.tokenizer, allow_not_finite=allow_not_finite)
                return Loaded(name, ours, tokenizer, folder, reads_forward(ours), opened.notes)
            model, notes = _model(folder, opened.config, checkpoint, allow_not_finite)
    # Whether each token sees only those before it, as the attention modules say.
    decoder = not getattr(model.config, "is_encoder_decoder", False) and any(
        getattr(module, "is_causal", False) is True for module in model.modules()
    )
    return Loaded(name, model, tokenizer, folder, decoder, notes=(*opened.notes, *notes))


def _model(
    folder: Path, config: dict[str, Any], checkpoint: Checkpoint, allow_not_finite: bool
) -> tuple[PreTrainedModel, list[str]]:
    """The model, and notes on what was left out."""
    import torch

    file = folder / "config.json"
    described = _configuration(config, file)
    kind = _model_class(config, file)
    arguments: dict[str, Any] = {}
    notes: list[str] = []
    has_pooler = any("pooler." in name for name in checkpoint.names)
    if "add_pooling_layer" in inspect.signature(kind.__init__).parameters and not has_pooler:
        arguments["add_pooling_layer"] = False
        notes.append("the checkpoint has no pooler, so the model is built without one")
    most, room = 4 * len(checkpoint.names) + _TENSORS, 2 * checkpoint.count + _ROOM
    with (
        _refusing(file, "describe a model that can be built"),
        quiet(),
        torch.device("meta"),
        within(file, checkpoint, tensors=most, numbers=room),
    ):
        outline = kind(described, **arguments)
    wanted = sum(part.numel() for part in (*outline.parameters(), *outline.buffers()))
    if wanted > room:
        raise too_large(file, checkpoint.count, "numbers", f"{wanted:,}")
    tensors = read_tensors(checkpoint, dtype=torch.float32, allow_not_finite=allow_not_finite)
    with _refusing(file, "describe the model whose weights are in the folder"), quiet():
        pair: Any = kind.from_pretrained(
            None,
            config=described,
            state_dict=tensors,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, all at once
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            **arguments,
        )
    model, found = pair
    left_over = [name for name in found["unexpected_keys"] if not _COMPUTED.search(name)]
    if wrong := differences(found["missing_keys"], left_over, found["mismatched_keys"]):
        expected = f"hold exactly the tensors of {kind.__name__}"
        raise CheckpointError(folder, expected, "; ".join(wrong), COPY_MODEL)
    computed = [name for name in tensors if _COMPUTED.search(name)]
    if computed:
        notes.append(f"buffers that the model computes by itself were not used: {listed(computed)}")
    return model.eval(), notes


def _configuration(config: dict[str, Any], file: Path) -> PreTrainedConfig:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = config["model_type"]
    if kind not in CONFIG_MAPPING:
        expected = f"have a model_type that transformers {transformers.__version__} knows"
        remedy = "Update transformers, or use another model."
        raise CheckpointError(file, expected, plain(kind), remedy)
    with _refusing(file, f"be a config of a {kind} model"), quiet():
        described = CONFIG_MAPPING[kind].from_dict(dict(config))
    sinusoidal = any(key.startswith("sinusoidal") and value for key, value in config.items())
    if sinusoidal or kind in _TABLES:
        sizes = (getattr(described, key, 0) for key in ("max_position_embeddings", "hidden_size"))
        positions, width = (size if isinstance(size, int) else 0 for size in sizes)
        if positions * width > _LARGEST_TABLE:
            expected = f"have a table of positions of at most {_LARGEST_TABLE:,} numbers"
            remedy = "See that the config belongs to the weights."
            raise CheckpointError(file, expected, f"{positions:,} × {width:,}", remedy)
    return described


def _model_class(config: dict[str, Any], file: Path) -> type[PreTrainedModel]:
    """The class that the config's `architectures` names, if transformers has it for text."""
    import transformers
    from transformers.models.auto import modeling_auto

    known: list[str] = []
    for task in _TASKS:
        names = getattr(modeling_auto, f"MODEL_{task}MAPPING_NAMES").get(config["model_type"], ())
        known += [names] if isinstance(names, str) else names
    wanted = config.get("architectures") or known[:1]
    if not isinstance(wanted, list) or not wanted or wanted[0] not in known:
        choice = listed(set(known)) or "none is known"
        expected = f"name one of these as its architecture: {choice}"
        remedy = "Update transformers, or use a model of text."
        raise CheckpointError(file, expected, plain(wanted), remedy)
    with _refusing(file, "name an architecture that can be imported"):
        return getattr(transformers, wanted[0])
