"""Converted from Hugging Face's models, ours give the same outputs and the same gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.hugging_face_models import bert, gpt2, llama, made, marian
from helpers.parity_checks import TOLERANCES, assert_alike
from torch import Tensor
from transformers import (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MarianMTModel,
    PreTrainedModel,
)
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

from regard.nn import (
    EncoderModel,
    LanguageModel,
    MaskedLanguageModel,
    SequenceClassifier,
    Transformer,
    from_hugging_face,
)
from regard.nn.convert.hugging_face import ARCHITECTURES
from regard.nn.convert.tables import Row

IDS = torch.tensor([[3, 17, 5, 2, 11], [7, 13, 19, 0, 0]])
RIGHT = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
LEFT = RIGHT.flip(1)
SEGMENTS = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
# Where transformers computes a part in float32 whatever the model's dtype.
IN_FLOAT32 = {torch.float32: 1e-5, torch.float64: 1e-6}

both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


@both_dtypes
@both_modes
@pytest.mark.parametrize(
    "more",
    [{}, {"hidden_act": "relu", "layer_norm_eps": 1e-2}, {"hidden_act": "gelu_new"}],
    ids=["gelu", "relu_eps", "gelu_new"],
)
def test_bert_gives_the_same_vectors(
    dtype: torch.dtype, training: bool, more: dict[str, Any]
) -> None:
    theirs = made(BertModel(bert(**more)), dtype, training)
    ours = from_hugging_face(theirs)
    assert isinstance(ours, EncoderModel)
    assert_alike(
        table(theirs),
        ours,
        theirs,
        lambda: ours(IDS, mask=RIGHT, segments=SEGMENTS)[RIGHT],
        lambda: theirs(IDS, RIGHT.long(), SEGMENTS).last_hidden_state[RIGHT],
        tolerance=TOLERANCES[dtype],
    )


@both_dtypes
@both_modes
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_bert_guesses_the_same_hidden_tokens(
    dtype: torch.dtype, training: bool, tied: bool
) -> None:
    theirs = made(BertForMaskedLM(bert(tie_word_embeddings=tied)), dtype, training)
    ours = from_hugging_face(theirs)
    assert isinstance(ours, MaskedLanguageModel)
    assert (ours.head.weight is ours.body.embedding.tokens.weight) == tied
    assert_alike(
        table(theirs),
        ours,
        theirs,
        lambda: ours(IDS, mask=RIGHT)[RIGHT],
        lambda: theirs(IDS, RIGHT.long()).logits[RIGHT],
        tolerance=TOLERANCES[dtype],
    )


@both_dtypes
@both_modes
def test_bert_finds_the_same_classes(dtype: torch.dtype, training: bool) -> None:
    theirs = made(BertForSequenceClassification(bert()), dtype, training)
    ours = from_hugging_face(theirs)
    assert isinstance(ours, SequenceClassifier)
    assert_alike(
        table(theirs),
        ours,
        theirs,
        lambda: ours(IDS, lengths=RIGHT.sum(1), segments=SEGMENTS),
        lambda: theirs(IDS, RIGHT.long(), SEGMENTS).logits,
        tolerance=TOLERANCES[dtype],
    )


@both_dtypes
@both_modes
@pytest.mark.parametrize("real", [RIGHT, LEFT], ids=["right", "left"])
@pytest.mark.parametrize(
    "more",
    [{}, {"tie_word_embeddings": False, "n_inner": None, "activation_function": "relu"}],
    ids=["tied", "untied"],
)
def test_gpt2_gives_the_same_logits(
    dtype: torch.dtype, training: bool, real: Tensor, more: dict[str, Any]
) -> None:
    theirs = made(GPT2LMHeadModel(gpt2(**more)), dtype, training)
    ours = from_hugging_face(theirs)
    assert isinstance(ours, LanguageModel)
    assert_alike(
        table(theirs),
        ours,
        theirs,
        lambda: ours(IDS, mask=real)[real],
        lambda: theirs(
            IDS, attention_mask=real.long(), position_ids=places(real), use_cache=False
        ).logits[real],
        tolerance=TOLERANCES[dtype],
    )


@both_dtypes
@both_modes
@pytest.mark.parametrize("real", [RIGHT, LEFT], ids=["right", "left"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
        {"head_dim": 10, "rms_norm_eps": 1e-2, "num_key_value_heads": 6},
    ],
    ids=["grouped", "tied_biased", "wide_heads"],
)
def test_llama_gives_the_same_logits(
    dtype: torch.dtype, training: bool, real: Tensor, more: dict[str, Any]
) -> None:
    theirs = made(LlamaForCausalLM(llama(**more)), dtype, training)
    ours = from_hugging_face(theirs)
    assert isinstance(ours, LanguageModel)
    assert_alike(
        table(theirs),
        ours,
        theirs,
        lambda: ours(IDS, mask=real)[real],
        lambda: theirs(
            IDS, attention_mask=real.long(), position_ids=places(real), use_cache=False
        ).logits[real],
        tolerance=IN_FLOAT32[dtype],
    )


def test_llama_differs_in_float64_only_by_what_transformers_computes_in_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def norm(self: LlamaRMSNorm, x: Tensor) -> Tensor:
        return self.weight * x / (x.square().mean(-1, keepdim=True) + self.variance_epsilon).sqrt()

    def angles(self: LlamaRotaryEmbedding, x: Tensor, position_ids: Tensor) -> tuple[Tensor, ...]:
        turns = 100.0 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
        found = (position_ids[..., None] * turns).repeat(1, 1, 2)
        return found.cos(), found.sin()

    monkeypatch.setattr(LlamaRMSNorm, "forward", norm)
    monkeypatch.setattr(LlamaRotaryEmbedding, "forward", angles)
    theirs = made(LlamaForCausalLM(llama()), torch.float64)
    ours = from_hugging_face(theirs)
    assert_alike(
        table(theirs),
        ours,
        theirs,
        lambda: ours(IDS),
        lambda: theirs(IDS, use_cache=False).logits,
        tolerance=TOLERANCES[torch.float64],
    )


@both_dtypes
@both_modes
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"scale_embedding": False, "activation_function": "relu", "tie_word_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 29},
    ],
    ids=["shared", "untied", "two_vocabularies"],
)
def test_marian_gives_the_same_logits(
    dtype: torch.dtype, training: bool, more: dict[str, Any]
) -> None:
    theirs = made(MarianMTModel(marian(**more)), dtype, training)
    ours = from_hugging_face(theirs)
    assert isinstance(ours, Transformer)
    target = torch.tensor([[2, 3, 5, 7, 11, 13], [4, 6, 8, 0, 0, 0]])
    real = target != 0
    assert_alike(
        table(theirs),
        ours,
        theirs,
        lambda: ours(IDS, target, source_mask=RIGHT, target_mask=real)[real],
        lambda: theirs(
            IDS,
            attention_mask=RIGHT.long(),
            decoder_input_ids=target,
            decoder_attention_mask=real.long(),
            use_cache=False,
        ).logits[real],
        tolerance=IN_FLOAT32[dtype],
    )


def table(model: PreTrainedModel) -> tuple[Row, ...]:
    return ARCHITECTURES[type(model).__name__].table(model.config.to_dict())[0]


def places(real: Tensor) -> Tensor:
    """Positions counted over real tokens, as ours are; transformers counts padding, too."""
    return (real.cumsum(1) - 1).clamp(min=0)
