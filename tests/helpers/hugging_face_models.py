"""Models of transformers, small and with sizes that differ, every number in them random."""

from __future__ import annotations

from typing import Any

import torch
from helpers.parity_checks import filled
from torch import nn
from transformers import BertConfig, GPT2Config, LlamaConfig, MarianConfig

VOCABULARY = 23


def made(model: nn.Module, dtype: torch.dtype = torch.float32, training: bool = False) -> Any:
    """The model with other numbers in it; buffers that are added to logits, too."""
    for name, buffer in model.named_buffers():
        if name == "final_logits_bias":
            buffer.normal_(generator=torch.Generator().manual_seed(3))
    return filled(model, spread=0.2).to(dtype).train(training)


def bert(**more: Any) -> BertConfig:
    options: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 15,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 11,
        "max_position_embeddings": 7,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "num_labels": 5,
    }
    return BertConfig(**options | more)


def gpt2(**more: Any) -> GPT2Config:
    options: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "n_embd": 15,
        "n_layer": 2,
        "n_head": 3,
        "n_inner": 11,
        "n_positions": 7,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 1,
    }
    return GPT2Config(**options | more)


def llama(**more: Any) -> LlamaConfig:
    options: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 36,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "intermediate_size": 13,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
    }
    return LlamaConfig(**options | more)


def marian(**more: Any) -> MarianConfig:
    options: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "d_model": 15,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 11,
        "decoder_ffn_dim": 11,
        "max_position_embeddings": 7,
        "activation_function": "swish",
        "scale_embedding": True,
        "dropout": 0.0,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "forced_eos_token_id": 1,
    }
    return MarianConfig(**options | more)
