"""From Hugging Face's models: nothing is lost, and what has no counterpart is refused by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from helpers.hugging_face_models import bert, gpt2, llama, made, marian
from torch import Tensor
from transformers import (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2LMHeadModel,
    GPT2Model,
    LlamaForCausalLM,
    MarianMTModel,
)

from regard.nn import Learned, PostNorm, PreNorm, Rotary, Sinusoidal, from_hugging_face
from regard.nn.convert.hugging_face import ARCHITECTURES
from regard.nn.convert.tables import to_theirs

MODELS = {
    "bert": lambda **more: BertModel(bert(**more)),
    "masked": lambda **more: BertForMaskedLM(bert(**more)),
    "classifier": lambda **more: BertForSequenceClassification(bert(**more)),
    "gpt2": lambda **more: GPT2LMHeadModel(gpt2(**more)),
    "llama": lambda **more: LlamaForCausalLM(llama(**more)),
    "marian": lambda **more: MarianMTModel(marian(**more)),
}

every_model = pytest.mark.parametrize("name", list(MODELS))


def files_of(model: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a folder of the model holds: options, and tensors."""
    options = model.config.to_dict() | {"architectures": [type(model).__name__]}
    return options, dict(model.state_dict())


@every_model
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_there_and_back_is_the_same_bit_for_bit(name: str, tied: bool, dtype: torch.dtype) -> None:
    theirs = made(MODELS[name](tie_word_embeddings=tied), dtype)
    ours = from_hugging_face(theirs)
    architecture = ARCHITECTURES[type(theirs).__name__]
    rows, unused = architecture.table(theirs.config.to_dict())
    state = ours.state_dict(keep_vars=True)
    back = to_theirs("test", "a model", rows, state, theirs, unused=unused)
    their_state = theirs.state_dict(keep_vars=True)
    assert len(back) >= len(their_state) - 4  # a pooler, tables that are computed, a spare
    for key, tensor in back.items():
        assert tensor.dtype == dtype
        assert tensor.requires_grad == their_state[key].requires_grad
        assert torch.equal(tensor, their_state[key]), key


@every_model
def test_options_and_tensors_do_as_well_as_the_model(name: str) -> None:
    theirs = made(MODELS[name]())
    ours, again = from_hugging_face(theirs), from_hugging_face(files_of(theirs))
    assert again.config == ours.config
    assert not again.training
    assert all(parameter.requires_grad for parameter in again.parameters())
    found = again.state_dict()
    assert all(torch.equal(tensor, found[key]) for key, tensor in ours.state_dict().items())


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("masked", ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"]),
        ("gpt2", ["lm_head.weight"]),
        (
            "marian",
            [
                "lm_head.weight",
                "model.encoder.embed_tokens.weight",
                "model.decoder.embed_tokens.weight",
                "model.encoder.embed_positions.weight",
                "model.decoder.embed_positions.weight",
            ],
        ),
    ],
)
def test_files_need_not_hold_what_is_tied_or_computed(name: str, left_out: list[str]) -> None:
    theirs = made(MODELS[name]())
    options, tensors = files_of(theirs)
    for key in left_out:
        del tensors[key]
    found = from_hugging_face((options, tensors)).state_dict()
    expected = from_hugging_face(theirs).state_dict()
    assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())


def test_what_older_files_hold_besides_is_passed_over() -> None:
    options, tensors = files_of(made(MODELS["bert"]()))
    tensors["embeddings.position_ids"] = torch.arange(7)[None]
    from_hugging_face((options, tensors))
    options, tensors = files_of(made(MODELS["gpt2"]()))
    tensors["transformer.h.1.attn.bias"] = torch.ones(1, 1, 7, 7, dtype=torch.bool)
    from_hugging_face((options, tensors))
    options, tensors = files_of(made(MODELS["llama"]()))
    del options["rope_parameters"]
    options |= {"rope_theta": 500.0, "rope_scaling": None}
    assert from_hugging_face((options, tensors)).config.position == Rotary(base=500.0)


def test_transformers_is_never_imported_for_options_and_tensors() -> None:
    code = (
        "import sys, torch\n"
        "from regard.nn import from_hugging_face\n"
        "try: from_hugging_face(({'architectures': ['BertModel'], 'vocab_size': 7}, {}))\n"
        "except ValueError: pass\n"
        "sys.exit('transformers' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_descriptions_say_what_the_models_are() -> None:
    found = from_hugging_face(MODELS["bert"](layer_norm_eps=1e-3)).config
    assert (found.position, found.residual, found.norm_eps) == (Learned(7), PostNorm(), 1e-3)
    found = from_hugging_face(MODELS["gpt2"]()).config
    assert (found.position, found.residual, found.activation) == (
        Learned(7),
        PreNorm(),
        "gelu_tanh",
    )
    found = from_hugging_face(MODELS["llama"]()).config
    assert (found.position, found.kv_heads, found.norm) == (Rotary(base=100.0), 2, "rms")
    found = from_hugging_face(MODELS["marian"]()).config
    assert (found.position, found.final_norm) == (Sinusoidal(layout="halves"), False)


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        (
            "bert",
            {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.25},
            (0.5, 0.25, 0.0),
        ),
        ("gpt2", {"resid_pdrop": 0.5, "embd_pdrop": 0.5, "attn_pdrop": 0.25}, (0.5, 0.25, 0.0)),
        ("llama", {"attention_dropout": 0.25}, (0.0, 0.25, 0.0)),
        (
            "marian",
            {"dropout": 0.5, "attention_dropout": 0.25, "activation_dropout": 0.125},
            (0.5, 0.25, 0.125),
        ),
    ],
)
def test_dropout_is_where_theirs_is(
    name: str, more: dict[str, float], expected: tuple[float, float, float]
) -> None:
    model: Any = from_hugging_face(MODELS[name](**more))
    stack = model.encoder if name in ("bert", "marian") else model.decoder
    layer = stack.layers[1]
    assert model.embedding.dropout.p == expected[0]
    assert (layer.dropout.p, layer.attention.dropout, layer.feed_forward.dropout.p) == expected


def test_training_and_what_is_frozen_are_carried_over() -> None:
    theirs = made(MODELS["gpt2"](), training=True)
    theirs.transformer.h[0].attn.c_attn.weight.requires_grad_(False)
    ours = from_hugging_face(theirs)
    assert ours.training
    frozen = [key for key, part in ours.named_parameters() if not part.requires_grad]
    assert frozen == [f"decoder.layers.0.attention.w_{which}.weight" for which in "qkv"]
    assert not from_hugging_face(theirs.eval()).training


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("bert", {"hidden_act": "tanh"}, "hidden_act must be one of gelu, .*; got 'tanh'"),
        (
            "bert",
            {"position_embedding_type": "relative_key"},
            "position_embedding_type must be 'absolute'; got 'relative_key'",
        ),
        ("bert", {"is_decoder": True}, "is_decoder must be False; got True"),
        ("bert", {"vocab_size": None}, "vocab_size must be given; got none"),
        ("bert", {"quantization_config": {"bits": 4}}, "quantization_config must be absent; got "),
        ("bert", {"auto_map": {"AutoModel": "evil.py"}}, "auto_map must be absent; got "),
        ("bert", {"model_type": "roberta"}, "model_type must be 'bert'; got 'roberta'"),
        ("masked", {"hidden_act": "relu"}, "hidden_act must be 'gelu'; got 'relu'"),
        (
            "classifier",
            {"classifier_dropout": 0.5},
            r"classifier_dropout must be 0\.0, as hidden_dropout_prob; got 0\.5",
        ),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights must be True; got False"),
        (
            "gpt2",
            {"scale_attn_by_inverse_layer_idx": True},
            "scale_attn_by_inverse_layer_idx must be False; got True",
        ),
        ("gpt2", {"embd_pdrop": 0.5}, r"embd_pdrop must be 0\.0, as resid_pdrop; got 0\.5"),
        ("llama", {"sliding_window": 7}, "sliding_window must be absent; got 7"),
        ("llama", {"pretraining_tp": 2}, "pretraining_tp must be 1; got 2"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act must be one of silu, swish; got 'gelu'"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
            "rope_type must be 'default'; got 'yarn'",
        ),
        (
            "llama",
            {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "rope_type must be 'default'; got 'linear'",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            r"partial_rotary_factor must be 1\.0; got 0\.5",
        ),
        ("marian", {"normalize_before": True}, "normalize_before must be False; got True"),
        (
            "marian",
            {"decoder_attention_heads": 5},
            "decoder_attention_heads must be 3, as encoder_attention_heads; got 5",
        ),
        ("marian", {"encoder_layerdrop": 0.1}, r"encoder_layerdrop must be 0\.0; got 0\.1"),
    ],
)
def test_options_without_counterpart_are_refused_by_name(
    name: str, more: dict[str, Any], message: str
) -> None:
    model = MODELS[name]()
    options, tensors = files_of(model)
    with pytest.raises(ValueError, match=rf"of {type(model).__name__}'s options {message}"):
        from_hugging_face((options | more, tensors))


def test_all_options_without_counterpart_are_named_at_once() -> None:
    options, tensors = files_of(MODELS["llama"]())
    options |= {"pretraining_tp": 2, "hidden_act": "gelu", "hidden_size": None}
    with pytest.raises(ValueError, match=r"pretraining_tp .*; hidden_size .*; hidden_act .*"):
        from_hugging_face((options, tensors))


def test_all_tensors_that_do_not_fit_are_named_at_once() -> None:
    options, tensors = files_of(made(MODELS["llama"]()))
    tensors["model.layers.2.mlp.up_proj.weight"] = tensors.pop("model.layers.1.mlp.up_proj.weight")
    tensors["model.norm.weight"] = torch.ones(5)
    with pytest.raises(ValueError, match="a LlamaForCausalLM of 2 layers") as error:
        from_hugging_face((options, tensors))
    said = str(error.value)
    assert "missing: model.layers.1.mlp.up_proj.weight;" in said
    assert "not expected: model.layers.2.mlp.up_proj.weight;" in said
    assert "wrong: model.norm.weight (must be (36,), is (5,))." in said


def test_a_bias_that_the_options_do_not_speak_of_is_refused() -> None:
    options, tensors = files_of(made(MODELS["llama"](attention_bias=True)))
    with pytest.raises(
        ValueError, match=r"not expected: model\.layers\.0\.self_attn\.k_proj\.bias"
    ):
        from_hugging_face((options | {"attention_bias": False}, tensors))


def test_positions_that_are_no_sines_are_refused() -> None:
    theirs = made(MODELS["marian"]())
    with torch.no_grad():
        theirs.model.decoder.embed_positions.weight[3, 2] += 1e-3
    with pytest.raises(ValueError, match=r"model\.decoder\.embed_positions\.weight must be what"):
        from_hugging_face(theirs)


def test_other_sources_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"the architecture must be one of BertModel, .*; got GPT2M"
    ):
        from_hugging_face(GPT2Model(gpt2()))
    with pytest.raises(ValueError, match=r"must name one class under architectures; got None"):
        from_hugging_face(({}, {}))
    with pytest.raises(TypeError, match="a tuple of two dicts, its configuration and its tensors"):
        from_hugging_face("gpt2")
    with pytest.raises(TypeError, match="got Linear"):
        from_hugging_face(torch.nn.Linear(2, 3))
    with pytest.raises(TypeError, match=r"all weights must be tensors; got others: a\."):
        from_hugging_face(({"architectures": ["BertModel"]}, {"a": [1.0]}))


def test_layers_without_tensors_are_refused_before_they_are_built() -> None:
    options = bert().to_dict() | {"architectures": ["BertModel"], "num_hidden_layers": 10**7}
    with pytest.raises(ValueError, match="there must be tensors for all 10000000 layers; got 1"):
        from_hugging_face((options, {"embeddings.word_embeddings.weight": torch.zeros(3, 5)}))
