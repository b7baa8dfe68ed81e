"""Every field of a Hugging Face configuration is honoured, harmless, or refused at conversion."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import pytest
import torch
from helpers.hugging_face_models import bert, gpt2, llama, made, marian
from helpers.parity_checks import assert_near
from torch import Tensor
from transformers import (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MarianMTModel,
)

from regard.nn import from_hugging_face

MODELS: dict[str, tuple[Any, Any]] = {
    "bert": (BertModel, bert),
    "masked": (BertForMaskedLM, bert),
    "classifier": (BertForSequenceClassification, bert),
    "gpt2": (GPT2LMHeadModel, gpt2),
    "llama": (LlamaForCausalLM, llama),
    "marian": (MarianMTModel, marian),
}
IDS = torch.tensor([[3, 17, 5, 2, 11], [7, 13, 19, 6, 4]])
REAL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])

# What a field is changed to. Honoured: the outputs are those of theirs with the field changed, and
# others than before. Drops: honoured, in training alone. Harmless: theirs are as before.
HONOURED, DROPS, HARMLESS, REFUSED = "honoured", "drops", "harmless", "refused"

EVERYWHERE: dict[str, tuple[Any, str]] = {
    "transformers_version": ("1.2.3", HARMLESS),
    "architectures": (["Another"], HARMLESS),
    "output_hidden_states": (True, HARMLESS),
    "return_dict": (False, HARMLESS),
    "dtype": ("float64", HARMLESS),
    "chunk_size_feed_forward": (1, HARMLESS),
    "id2label": ({0: "a", 1: "b", 2: "c"}, HARMLESS),
    "label2id": ({"a": 0, "b": 1, "c": 2}, HARMLESS),
    "problem_type": ("regression", HARMLESS),
    "use_cache": (False, HARMLESS),
    "pad_token_id": (13, HARMLESS),
    "bos_token_id": (13, HARMLESS),
    "eos_token_id": (13, HARMLESS),
    # No fields of a class, but read if they are there.
    "is_causal": (False, HARMLESS),
    "output_attentions": (True, HARMLESS),
    "tie_last_hidden_states": (False, HARMLESS),
    "per_layer_config": ({0: {"rms_norm_eps": 0.5, "layer_norm_eps": 0.5}}, REFUSED),
    "layer_types": (["full_attention", "sliding_attention"], REFUSED),
    "sliding_window": (2, REFUSED),
    "add_cross_attention": (True, REFUSED),
    "is_decoder": (True, HARMLESS),
    "a_field_of_next_year": (True, REFUSED),
}

_BERT = EVERYWHERE | {
    "is_encoder_decoder": (True, REFUSED),
    "vocab_size": (29, HONOURED),
    "hidden_size": (21, HONOURED),
    "num_hidden_layers": (1, HONOURED),
    "num_attention_heads": (5, HONOURED),
    "intermediate_size": (13, HONOURED),
    "hidden_act": ("relu", HONOURED),
    "hidden_dropout_prob": (0.5, DROPS),
    "attention_probs_dropout_prob": (0.5, DROPS),
    "max_position_embeddings": (11, HONOURED),
    "type_vocab_size": (3, HONOURED),
    "initializer_range": (0.5, HARMLESS),
    "layer_norm_eps": (0.5, HONOURED),
    "classifier_dropout": (0.5, HARMLESS),
    "is_decoder": (True, REFUSED),
    "tie_word_embeddings": (False, HARMLESS),
    "num_labels": (7, HARMLESS),
}

FIELDS: dict[str, dict[str, tuple[Any, str]]] = {
    "bert": _BERT,
    "masked": _BERT | {"hidden_act": ("relu", REFUSED), "tie_word_embeddings": (False, HONOURED)},
    "classifier": _BERT
    | {
        "id2label": ({0: "a", 1: "b", 2: "c"}, HONOURED),
        "num_labels": (7, HONOURED),
        "classifier_dropout": (0.5, REFUSED),
    },
    "gpt2": EVERYWHERE
    | {
        "is_encoder_decoder": (True, REFUSED),
        "is_causal": (False, HONOURED),
        "vocab_size": (29, HONOURED),
        "n_positions": (11, HONOURED),
        "n_embd": (21, HONOURED),
        "n_layer": (1, HONOURED),
        "n_head": (5, HONOURED),
        "n_inner": (13, HONOURED),
        "activation_function": ("relu", HONOURED),
        "resid_pdrop": (0.5, REFUSED),  # unlike embd_pdrop
        "embd_pdrop": (0.5, REFUSED),
        "attn_pdrop": (0.5, DROPS),
        "layer_norm_epsilon": (0.5, HONOURED),
        "initializer_range": (0.5, HARMLESS),
        "summary_type": ("last", HARMLESS),
        "summary_use_proj": (False, HARMLESS),
        "summary_activation": ("tanh", HARMLESS),
        "summary_proj_to_labels": (False, HARMLESS),
        "summary_first_dropout": (0.5, HARMLESS),
        "scale_attn_weights": (False, REFUSED),
        "scale_attn_by_inverse_layer_idx": (True, REFUSED),
        "reorder_and_upcast_attn": (True, HARMLESS),
        "tie_word_embeddings": (False, HONOURED),
    },
    "llama": EVERYWHERE
    | {
        "is_encoder_decoder": (True, REFUSED),
        "is_causal": (False, HONOURED),
        "vocab_size": (29, HONOURED),
        "hidden_size": (48, HONOURED),
        "intermediate_size": (17, HONOURED),
        "num_hidden_layers": (1, HONOURED),
        "num_attention_heads": (2, HONOURED),
        "num_key_value_heads": (3, HONOURED),
        "hidden_act": ("gelu", REFUSED),
        "max_position_embeddings": (11, HARMLESS),
        "initializer_range": (0.5, HARMLESS),
        "rms_norm_eps": (0.5, HONOURED),
        "pretraining_tp": (2, REFUSED),
        "tie_word_embeddings": (True, HONOURED),
        "rope_parameters": ({"rope_type": "default", "rope_theta": 3.0}, HONOURED),
        "attention_bias": (True, HONOURED),
        "attention_dropout": (0.5, DROPS),
        "mlp_bias": (True, HONOURED),
        "head_dim": (10, HONOURED),
        "rope_theta": (3.0, HARMLESS),  # rope_parameters have one
        "rope_scaling": ({"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}, REFUSED),
    },
    "marian": EVERYWHERE
    | {
        "is_encoder_decoder": (False, REFUSED),
        "is_causal": (False, REFUSED),
        "vocab_size": (29, HONOURED),
        "decoder_vocab_size": (29, HARMLESS),  # the two share one table
        "max_position_embeddings": (11, HARMLESS),
        "encoder_layers": (1, HONOURED),
        "encoder_ffn_dim": (13, REFUSED),  # unlike decoder_ffn_dim
        "encoder_attention_heads": (5, REFUSED),
        "decoder_layers": (2, HONOURED),
        "decoder_ffn_dim": (13, REFUSED),
        "decoder_attention_heads": (5, REFUSED),
        "encoder_layerdrop": (0.5, REFUSED),
        "decoder_layerdrop": (0.5, REFUSED),
        "activation_function": ("relu", HONOURED),
        "d_model": (21, HONOURED),
        "dropout": (0.5, DROPS),
        "attention_dropout": (0.5, DROPS),
        "activation_dropout": (0.5, DROPS),
        "init_std": (0.5, HARMLESS),
        "decoder_start_token_id": (13, HARMLESS),
        "scale_embedding": (False, HONOURED),
        "forced_eos_token_id": (13, HARMLESS),
        "share_encoder_decoder_embeddings": (False, HONOURED),
        "is_decoder": (True, REFUSED),
        "tie_word_embeddings": (False, HONOURED),
    },
}


# What must change with a field.
ALONG: dict[str, dict[str, Any]] = {"id2label": {"num_labels": 3}}


def built(name: str, training: bool = False, **more: Any) -> Any:
    kind, config = MODELS[name]
    return made(kind(config(**more)), training=training)


def theirs_of(name: str, model: Any, real: Tensor | None = None) -> Tensor:
    options: dict[str, Any] = {} if real is None else {"attention_mask": real.long()}
    if name == "marian":
        options["decoder_input_ids"] = IDS.flip(1)
    with torch.no_grad():
        return model(IDS, **options)[0]


@cache
def unchanged(name: str) -> Tensor:
    return theirs_of(name, built(name))


def ours_of(name: str, model: Any, real: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        if name == "marian":
            return model(IDS, IDS.flip(1), source_mask=real)
        return model(IDS, mask=real)


def is_as(found: Tensor, expected: Tensor) -> bool:
    return found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5)


def cases() -> list[Any]:
    return [
        pytest.param(name, field, id=f"{name}-{field}")
        for name, listed in FIELDS.items()
        for field in listed
    ]


@pytest.mark.parametrize("name", list(FIELDS))
def test_every_field_of_the_configuration_is_listed(name: str) -> None:
    config = MODELS[name][1]()
    assert {field.name for field in fields(type(config))} <= set(FIELDS[name])
    assert set(config.to_dict()) - set(FIELDS[name]) <= {"_name_or_path", "model_type"}


@pytest.mark.parametrize(("name", "field"), cases())
def test_a_field_that_changes_is_honoured_harmless_or_refused(name: str, field: str) -> None:
    value, kind = FIELDS[name][field]
    if kind == REFUSED:
        kept = MODELS[name][1]().to_dict() | {"architectures": [MODELS[name][0].__name__]}
        kept[field] = value
        with pytest.raises(ValueError, match=rf"options .*{_said(field)} .*got "):
            from_hugging_face((kept, {}))
        return
    theirs = built(name, kind == DROPS, **{field: value} | ALONG.get(field, {}))
    ours = from_hugging_face(theirs)
    if field == "return_dict":  # most of theirs cannot run without it
        theirs.config.return_dict = True
    before, after = unchanged(name), theirs_of(name, theirs)
    if kind == DROPS:
        assert not is_as(theirs_of(name, theirs), after)
        assert not is_as(ours_of(name, ours), ours_of(name, ours))
        theirs.eval()
        ours.eval()
        after = theirs_of(name, theirs)
    assert is_as(after, before) == (kind in (HARMLESS, DROPS))
    assert_near(ours_of(name, ours), after, 1e-5, field)


def _said(field: str) -> str:
    """What a refusal names: of two fields that must be equal, the second."""
    first = {
        "resid_pdrop": "embd_pdrop",
        "encoder_ffn_dim": "decoder_ffn_dim",
        "encoder_attention_heads": "decoder_attention_heads",
        "rope_scaling": "rope_type",
    }
    return first.get(field, field)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("how", ["sdpa", "eager"])
@pytest.mark.parametrize("real", [None, REAL], ids=["whole", "padded"])
def test_a_decoder_that_is_not_causal_sees_what_comes_later(
    name: str, how: str, real: Tensor | None
) -> None:
    theirs = built(name, is_causal=False, attn_implementation=how)
    ours = from_hugging_face(theirs)
    seen = slice(None) if real is None else real
    found, expected = ours_of(name, ours, real)[seen], theirs_of(name, theirs, real)[seen]
    assert_near(found, expected, 1e-5, "output")
    assert not is_as(found, theirs_of(name, built(name), real)[seen])


@pytest.mark.parametrize("name", list(FIELDS))
def test_causality_that_is_neither_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is_causal must be True, False or absent; got None"):
        from_hugging_face(built(name, is_causal=None))
    if name not in ("gpt2", "llama"):
        with pytest.raises(ValueError, match=r"is_causal must be .*; got True"):
            from_hugging_face(built(name, is_causal=True))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_what_is_not_causal_generates_nothing_and_has_no_cache(name: str) -> None:
    ours: Any = from_hugging_face(built(name, is_causal=False))
    with pytest.raises(ValueError, match=r"generate\(\): the model's config must have causal=True"):
        ours.generate([1, 2, 3], max_new_tokens=2)
    with pytest.raises(ValueError, match="causal must be True for a cache"):
        ours.new_cache(1)


def test_options_that_files_of_old_hold_are_passed_over() -> None:
    theirs = built("marian")
    old = {
        "num_beams": 4,
        "max_length": 512,
        "bad_words_ids": [[0]],
        "gradient_checkpointing": False,
    }
    old |= {"add_bias_logits": False, "normalize_embedding": False, "num_hidden_layers": 2}
    options = theirs.config.to_dict() | old | {"architectures": ["MarianMTModel"]}
    from_hugging_face((options, theirs.state_dict()))
    with pytest.raises(ValueError, match="num_hidden_layers must be 2, as encoder_layers; got 5"):
        from_hugging_face((options | {"num_hidden_layers": 5}, theirs.state_dict()))


def test_what_is_not_known_of_the_angles_is_refused() -> None:
    theirs = built("llama")
    options = theirs.config.to_dict() | {"architectures": ["LlamaForCausalLM"]}
    for angles, said in (
        ({"rope_theta": 1e4, "rope_type": "default", "swing": 2.0}, "swing of the angles"),
        ({"full_attention": {"rope_theta": 1e4}}, "full_attention of the angles"),
        ("default", "rope_parameters must be a mapping; got 'default'"),
    ):
        with pytest.raises(ValueError, match=said):
            from_hugging_face((options | {"rope_parameters": angles}, theirs.state_dict()))
