"""What a table for an architecture of Hugging Face holds, and how their options are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.nn.convert.tables import Row
from regard.nn.files import Model

Options = Mapping[str, Any]
Read = Callable[[Options], Any]

# Their names of activations, ours.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}

# What no architecture may have unless it says so, as it changes what is computed: what it may be.
NEVER: dict[str, tuple[Any, ...]] = {
    "auto_map": (),
    "quantization_config": (),
    "sliding_window": (),
    "use_sliding_window": (False,),
    "pruned_heads": ({},),
    "tie_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
}

# What changes no number that any of these architectures computes: where a file is from, its dtype,
# how weights began, how results are handed over, what tokens and classes are called. Then how
# tokens are chosen, which older files say here.
_HARMLESS = """
    architectures attn_implementation bos_token_id chunk_size_feed_forward
    decoder_start_token_id dtype eos_token_id finetuning_task gradient_checkpointing id2label
    init_std initializer_range label2id model_type name_or_path num_labels output_attentions
    output_hidden_states output_past pad_token_id prefix problem_type return_dict sep_token_id
    task_specific_params tf_legacy_loss tie_last_hidden_states tokenizer_class torch_dtype
    torchscript transformers.js_config transformers_version unk_token_id unsloth_fixed
    unsloth_version use_bfloat16 use_cache xla_device

    assistant_confidence_threshold assistant_lookbehind bad_words_ids begin_suppress_tokens
    diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
    encoder_repetition_penalty epsilon_cutoff eta_cutoff exponential_decay_length_penalty
    forced_bos_token_id forced_eos_token_id length_penalty max_length min_length
    no_repeat_ngram_size num_assistant_tokens num_assistant_tokens_schedule num_beam_groups
    num_beams num_return_sequences output_scores remove_invalid_values repetition_penalty
    return_dict_in_generate suppress_tokens target_lookbehind temperature top_k top_p typical_p
"""
HARMLESS = frozenset(_HARMLESS.split())


@dataclass(frozen=True)
class Architecture:
    """One class of transformers and ours for it: options by `fields`, tensors by `rows`.

    - `fields`: each field of our configuration, and how it is read from their options
    - `fixed`: fields that are always so
    - `must`: options that we have no counterpart of, and what they may be; None and absent are fine
    - `alike`: pairs of options that must be equal, as here one field stands for both
    - `harmless`: options that change no number that is computed, beside those that nowhere do
    - `unused`: patterns of their names that nothing here needs
    - `tied_only`: names of theirs that nothing needs if `tie_word_embeddings` is False
    - `computed`: patterns of tensors of theirs that are computed here, and how; they must agree
    - `buffers`: the same of buffers that no file holds, by their last name
    """

    name: str
    model_type: str
    model: type[Model]
    rows: tuple[Row, ...]
    fields: Mapping[str, Read]
    fixed: Mapping[str, Any]
    must: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    alike: tuple[tuple[str, str], ...] = ()
    harmless: str = ""
    unused: tuple[str, ...] = ()
    tied_only: tuple[str, ...] = ()
    computed: Mapping[str, Callable[[Any, int], Tensor]] = field(default_factory=dict)
    buffers: Mapping[str, Callable[[Any, int], Tensor]] = field(default_factory=dict)

    def table(self, options: Options) -> tuple[tuple[Row, ...], tuple[str, ...]]:
        """The rows for a model of these options, and the patterns of names that nothing needs."""
        spare = self.tied_only if options.get("tie_word_embeddings") is False else ()
        rows = tuple(row for row in self.rows if row.theirs not in spare)
        return rows, (*self.unused, *self.computed, *spare)


class Refused(ValueError):
    """An option that has no counterpart; its text says which, what it must be, what it is."""


def option(
    name: str, default: Any = ..., means: Callable[[Any], Any] = lambda value: value
) -> Read:
    """Reads one option; `default` is what it is if it is absent, … if it must be there."""

    def read(options: Options) -> Any:
        found = options.get(name)
        if found is None and default is ...:
            raise Refused(f"{name} must be given; got none")
        return means(default if found is None else found)

    return read


def chosen(name: str, choices: Mapping[str, Any], default: Any = ...) -> Read:
    """Reads one option that is one of several words."""

    def means(found: Any) -> Any:
        if not isinstance(found, str) or found not in choices:
            raise Refused(f"{name} must be one of {', '.join(choices)}; got {found!r}")
        return choices[found]

    return option(name, default, means)


def options_of(architecture: Architecture, options: Options) -> dict[str, Any]:
    """The fields of our configuration. Raises ValueError that names all options without one.

    An option that nobody here knows is refused, too: what it changes is not known either. One that
    is None counts as absent; one that begins with an underscore is a note of whoever made the file.
    """
    asked = _Asked(options)
    values: dict[str, Any] = dict(architecture.fixed)
    refused: list[str] = []
    if options.get("model_type", architecture.model_type) != architecture.model_type:
        refused.append(
            f"model_type must be {architecture.model_type!r}; got {options['model_type']!r}"
        )
    if options.get("is_causal", True) is None:  # no mask is then causal, but attention still is
        refused.append("is_causal must be True, False or absent; got None")
    for name, allowed in (NEVER | dict(architecture.must)).items():
        found = asked.get(name)
        allowed_kinds = [(type(each) is bool, each) for each in allowed]  # 1 is not True
        if found is not None and (type(found) is bool, found) not in allowed_kinds:
            wanted = " or ".join(map(repr, allowed)) or "absent"
            refused.append(f"{name} must be {wanted}; got {found!r}")
    for one, other in architecture.alike:
        wanted, found = asked.get(one), asked.get(other)
        if found is not None and found != wanted:
            refused.append(f"{other} must be {wanted!r}, as {one}; got {found!r}")
    for name, read in architecture.fields.items():
        try:
            values[name] = read(asked)
        except Refused as error:
            refused.append(str(error))
    known = HARMLESS | asked.names | set(architecture.harmless.split())
    refused += [
        f"{name} must be absent, as it is not known here; got {value!r}"
        for name, value in options.items()
        if value is not None and name not in known and not name.startswith("_")
    ]
    if refused:
        raise ValueError(
            f"from_hugging_face(): of {architecture.name}'s options {'; '.join(refused)}. "
            "regard.nn has no counterpart. Take out what changes nothing that the model computes."
        )
    return values


class _Asked(dict[str, Any]):
    """Options, and the `names` of those that were asked for."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)
