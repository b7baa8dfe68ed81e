"""Small models that predict the next token, of many families, for what is asked of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from helpers.model_folders import WORDS, small_llama
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    OPTConfig,
    OPTForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from regard.models import Loaded
from regard.models.own import OwnModel
from regard.nn import LanguageModel, LanguageModelConfig

TEXT = "i love apple phones ."
_SIZES: dict[str, Any] = {
    "vocab_size": 11,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 7,
    "max_position_embeddings": 13,
    "initializer_range": 0.4,
}
_KEYS: dict[str, Any] = {**_SIZES, "num_key_value_heads": 1}
_GPT: dict[str, Any] = {
    "vocab_size": 11,
    "n_embd": 12,
    "n_layer": 3,
    "n_head": 3,
    "n_positions": 13,
    "initializer_range": 0.4,
}
_NEOX: dict[str, Any] = {**_SIZES, "rotary_pct": 0.5}
_PHI: dict[str, Any] = {**_SIZES, "partial_rotary_factor": 0.5}
_GEMMA: dict[str, Any] = {**_KEYS, "head_dim": 4, "query_pre_attn_scalar": 4}


def words() -> PreTrainedTokenizerFast:
    """A tokenizer of whole words, which adds none."""
    made = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]")


def loaded_of(model: Any, *, decoder: bool = True) -> Loaded:
    """A model as `load` gives it."""
    return Loaded("small", model.eval(), words(), Path("small"), decoder=decoder)


def small(name: str) -> PreTrainedModel:
    """A model of a family, whose every parameter is random: biases and norms, too."""
    torch.manual_seed(5)
    made: dict[str, Any] = {
        "llama": lambda: LlamaForCausalLM(small_llama(num_hidden_layers=3, initializer_range=0.4)),
        "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**_KEYS, head_dim=4)),
        "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**_GPT)),
        "gpt-neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**_NEOX)),
        "gpt-neox, one after the other": lambda: GPTNeoXForCausalLM(
            GPTNeoXConfig(**_NEOX, use_parallel_residual=False)
        ),
        "phi": lambda: PhiForCausalLM(PhiConfig(**_PHI)),
        "cohere": lambda: CohereForCausalLM(CohereConfig(**_KEYS, logit_scale=0.25)),
        "granite": lambda: GraniteForCausalLM(
            GraniteConfig(**_KEYS, residual_multiplier=0.22, logits_scaling=3.0)
        ),
        "gemma 2": lambda: Gemma2ForCausalLM(
            Gemma2Config(**_GEMMA, final_logit_softcapping=5.0, attn_logit_softcapping=7.0)
        ),
        "olmo 2": lambda: Olmo2ForCausalLM(Olmo2Config(**_KEYS)),
        "opt": lambda: OPTForCausalLM(_opt()),
        "opt, post-norm": lambda: OPTForCausalLM(_opt(do_layer_norm_before=False)),
        "gpt": lambda: OpenAIGPTLMHeadModel(OpenAIGPTConfig(**_GPT)),
    }
    model = made[name]()
    with torch.no_grad():
        for each in model.parameters():
            if each.dim() == 1:  # biases, and the weights of norms, which begin as 0 or 1
                each += 0.3 * torch.randn_like(each)
    return model


def own(**changes: Any) -> Loaded:
    """A `LanguageModel` in float64, whose every parameter is random."""
    torch.manual_seed(7)
    sizes: dict[str, Any] = {"vocabulary": 11, "width": 14, "heads": 3, "layers": 2, "hidden": 7}
    sizes |= {"head_width": 4}
    model = LanguageModel(LanguageModelConfig(**(sizes | changes))).double()
    with torch.no_grad():
        for each in model.parameters():
            each += 0.3 * torch.randn_like(each)
    return loaded_of(OwnModel(model))


def _opt(**changes: Any) -> OPTConfig:
    sizes = {name: value for name, value in _SIZES.items() if name not in ("intermediate_size",)}
    more: dict[str, Any] = {"ffn_dim": 7, "word_embed_proj_dim": 12, "init_std": 0.4, **changes}
    del sizes["initializer_range"]
    return OPTConfig(**sizes, **more)
