"""Language models of ours to those of Hugging Face's transformers, where one computes the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import nn

from regard._arguments import shown
from regard._extras import need
from regard.nn._parameters import fill
from regard.nn.config import LanguageModelConfig
from regard.nn.convert.architecture import ACTIVATIONS, Architecture, options_of
from regard.nn.convert.gpt2 import GPT2
from regard.nn.convert.llama import LLAMA
from regard.nn.convert.tables import to_theirs
from regard.nn.models import LanguageModel
from regard.nn.position import Learned, Rotary

# What is dropped while learning changes nothing that a model computes afterwards.
_FREE = ("dropout", "attention_dropout", "hidden_dropout")


def to_hugging_face(model: LanguageModel) -> Any:
    """The model of transformers that computes what a `LanguageModel` of ours computes.

    One with learned positions becomes a `GPT2LMHeadModel`, one with turned queries a
    `LlamaForCausalLM`. The weights are copies, bit for bit; biases that GPT-2 has and ours has not
    are 0. Raises ValueError, and names every field of its config that has no counterpart there.

    >>> config = LanguageModelConfig(vocabulary=11, width=6, heads=3, position=Learned(7))
    >>> ours = LanguageModel(config).eval()
    >>> theirs = to_hugging_face(ours)
    >>> ids = torch.tensor([[1, 2, 3, 5, 7]])
    >>> type(theirs).__name__, torch.allclose(ours(ids), theirs(ids).logits, atol=1e-6)
    ('GPT2LMHeadModel', True)
    >>> to_hugging_face(LanguageModel(config.but(window=3)))
    Traceback (most recent call last):
    ValueError: to_hugging_face(): of the model's config window must be None; got 3.
    GPT2LMHeadModel has no counterpart.
    """
    if type(model) is not LanguageModel:
        raise TypeError(
            f"to_hugging_face(): model must be a LanguageModel; got {type(model).__name__}."
        )
    transformers = need("to_hugging_face()", "transformers", "models")
    config = model.config
    architecture, options = (
        _gpt2(config) if isinstance(config.position, Learned) else _llama(config)
    )
    _check_same(architecture, options, config)
    kind = getattr(transformers, architecture.name)
    with torch.device("meta"):
        theirs = kind(kind.config_class(**options))
    state = model.state_dict(keep_vars=True)
    rows, unused = architecture.table(options)
    without = () if config.bias else _biases(theirs)
    made = to_theirs(
        "to_hugging_face()", architecture.name, rows, state, theirs, unused=(*unused, *without)
    )
    for name, part in theirs.named_parameters():
        if name in without:
            made[name] = nn.Parameter(torch.zeros(part.shape, dtype=model.head.weight.dtype))
    # Buffers, such as angles, are computed when a model is made, so it is made once more.
    whole = kind(kind.config_class(**options)).to(model.head.weight.dtype)
    fill(whole, made)
    whole.tie_weights()
    return whole.train(model.training)


def _biases(theirs: nn.Module) -> tuple[str, ...]:
    """The biases of linear maps; those of norms are there in either."""
    return tuple(
        name
        for name, _ in theirs.named_parameters()
        if name.endswith(".bias") and ".ln_" not in name
    )


def _gpt2(config: LanguageModelConfig) -> tuple[Architecture, dict[str, Any]]:
    assert isinstance(config.position, Learned)
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return GPT2, {
        "vocab_size": config.vocabulary,
        "n_embd": config.width,
        "n_head": config.heads,
        "n_layer": config.layers,
        "n_inner": config.hidden,
        "n_positions": config.position.length,
        "activation_function": names.get(config.activation, "gelu_new"),
        "layer_norm_epsilon": config.norm_eps,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": _chance(config),
        "tie_word_embeddings": config.tied,
        **_TOKENS,
    }


def _llama(config: LanguageModelConfig) -> tuple[Architecture, dict[str, Any]]:
    base = config.position.base if isinstance(config.position, Rotary) else 10_000.0
    return LLAMA, {
        "vocab_size": config.vocabulary,
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_width,
        "num_hidden_layers": config.layers,
        "intermediate_size": config.hidden,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": base},
        "mlp_bias": config.bias,
        "attention_bias": config.attention_bias,
        "attention_dropout": _chance(config),
        "tie_word_embeddings": config.tied,
        **_TOKENS,
    }


def _chance(config: LanguageModelConfig) -> float:
    return config.dropout if config.attention_dropout is None else config.attention_dropout


# Nobody says here which tokens begin and end a text; the usual ones may not be in a small
# vocabulary.
_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def _check_same(
    architecture: Architecture, options: Mapping[str, Any], config: LanguageModelConfig
) -> None:
    """Raise ValueError unless these options describe the very same model."""
    values = options_of(architecture, options)
    if architecture is GPT2 and not config.bias:
        values |= {"bias": False, "attention_bias": config.attention_bias}
    theirs = LanguageModelConfig(**values)
    wrong = [
        f"{name} must be {shown(getattr(theirs, name))}; got {shown(getattr(config, name))}"
        for name in (field.name for field in fields(config))
        if name not in _FREE and getattr(theirs, name) != getattr(config, name)
    ]
    if wrong:
        raise ValueError(
            f"to_hugging_face(): of the model's config {'; '.join(wrong)}. {architecture.name} has "
            "no counterpart."
        )
