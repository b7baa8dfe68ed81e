"""From a checked config and checked tensors to a model, with nothing missing and nothing left over.

transformers is handed the config and the tensors. It never sees the folder, so it cannot find
adapters, pickles, code or names of other models there.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint import Checkpoint, CheckpointError, listed, plain, too_large, within
from regard.models.progress import quiet

if TYPE_CHECKING:
    from torch import Tensor
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
# Models whose tables of positions are computed number by number, in Python; others do so if their
# config says sinusoidal. The longest honest ones have a million numbers, which takes a second.
_TABLES = {"marian", "pegasus", "roformer"}
_LARGEST_TABLE = 2**22


class Plan:
    """Which class a checkpoint is loaded into, how, and what is to be said about it."""

    def __init__(self, folder: Path, config: dict[str, Any], names: set[str]) -> None:
        self.file = folder / "config.json"
        self.config = _configuration(config, self.file)
        self.kind = _model_class(config, self.file)
        self.arguments: dict[str, Any] = {}
        self.notes: list[str] = []
        parameters = inspect.signature(self.kind.__init__).parameters
        if "add_pooling_layer" in parameters and not any("pooler." in name for name in names):
            self.arguments["add_pooling_layer"] = False
            self.notes.append("the checkpoint has no pooler, so the model is built without one")


def prepare(folder: Path, config: dict[str, Any], checkpoint: Checkpoint) -> Plan:
    """What will be built, before any weight is read. Refuses a config far larger than its weights,
    as soon as the outline of the model, which has no numbers in it, outgrows them.
    """
    import torch

    plan = Plan(folder, config, checkpoint.names)
    _refuse_long_table(plan, config)
    most, room = 4 * len(checkpoint.names) + _TENSORS, 2 * checkpoint.count + _ROOM
    with (
        _refusing(plan.file, "describe a model that can be built"),
        quiet(),
        torch.device("meta"),
        within(plan.file, checkpoint, tensors=most, numbers=room),
    ):
        skeleton = plan.kind(plan.config, **plan.arguments)
    wanted = sum(part.numel() for part in (*skeleton.parameters(), *skeleton.buffers()))
    if wanted > room:
        raise too_large(plan.file, checkpoint.count, "numbers", f"{wanted:,}")
    return plan


def _refuse_long_table(plan: Plan, config: dict[str, Any]) -> None:
    """Tables that are computed number by number take time even in an outline."""
    said = any(key.startswith("sinusoidal") and value for key, value in config.items())
    if not said and config["model_type"] not in _TABLES:
        return
    sizes = [getattr(plan.config, name, 0) for name in ("max_position_embeddings", "hidden_size")]
    positions, width = (size if isinstance(size, int) else 0 for size in sizes)
    if positions * width > _LARGEST_TABLE:
        raise CheckpointError(
            plan.file,
            f"have a table of positions of at most {_LARGEST_TABLE:,} numbers",
            f"{positions:,} × {width:,}",
            "See that the config belongs to the weights.",
        )


def build(plan: Plan, tensors: dict[str, Tensor]) -> tuple[PreTrainedModel, list[str]]:
    """The model, in evaluation mode, in float32, on the CPU; and notes on what was left out.

    Tied weights may be missing, and buffers that the model computes by itself may be there (their
    names end in position_ids, rotary_emb.inv_freq, attn.bias or attn.masked_bias). All else that is
    missing, left over or of another shape is listed in one CheckpointError.
    """
    import torch

    with _refusing(plan.file, "describe the model whose weights are in the folder"), quiet():
        pair: Any = plan.kind.from_pretrained(
            None,
            config=plan.config,
            state_dict=tensors,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, all at once
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            **plan.arguments,
        )
    model, found = pair
    wrong = {
        "missing": found["missing_keys"],
        "left over": {name for name in found["unexpected_keys"] if not _COMPUTED.search(name)},
        "of another shape": [
            f"{plain(name)} {list(came)} instead of {list(wanted)}"
            for name, came, wanted in found["mismatched_keys"]
        ],
    }
    problems = [f"{what}: {listed(names)}" for what, names in wrong.items() if names]
    if problems:
        raise CheckpointError(
            plan.file.parent,
            f"hold exactly the tensors of {plan.kind.__name__}",
            "; ".join(problems),
            "Copy the folder again, whole, and see that its config.json belongs to it.",
        )
    computed = [name for name in tensors if _COMPUTED.search(name)]
    notes = list(plan.notes)
    if computed:
        notes.append(f"buffers that the model computes by itself were not used: {listed(computed)}")
    model.eval()
    return model, notes


def _configuration(config: dict[str, Any], file: Path) -> PreTrainedConfig:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = config["model_type"]
    if kind not in CONFIG_MAPPING:
        raise CheckpointError(
            file,
            f"have a model_type that transformers {transformers.__version__} knows",
            plain(kind),
            "Update transformers, or use another model.",
        )
    with _refusing(file, f"be a config of a {kind} model"), quiet():
        return CONFIG_MAPPING[kind].from_dict(dict(config))


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
        raise CheckpointError(
            file,
            f"name one of these as its architecture: {listed(set(known)) or 'none is known'}",
            plain(wanted),
            "Update transformers, or use a model of text.",
        )
    with _refusing(file, "name an architecture that can be imported"):
        return getattr(transformers, wanted[0])


@contextlib.contextmanager
def _refusing(file: Path, expected: str) -> Generator[None]:
    """Whatever transformers raises about a config that came from elsewhere, as CheckpointError.

    That there is no memory or no time left says nothing about the config.
    """
    try:
        yield
    except (CheckpointError, MemoryError, TimeoutError):
        raise
    except Exception as error:
        raise CheckpointError(
            file,
            expected,
            f"{type(error).__name__} from transformers: {plain(error)}",
            "See that the config belongs to the weights, and to this version of transformers.",
        ) from error
