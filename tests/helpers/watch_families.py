"""Families of transformers, each as small as its configuration lets it be, every number random."""

from __future__ import annotations

import inspect
from typing import Any

import torch

__all__ = ["families", "small"]

_SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "n_embd": 32,
    "n_layer": 2,
    "n_layers": 2,
    "n_head": 4,
    "n_heads": 4,
    "n_positions": 64,
    "n_ctx": 64,
    "n_inner": 48,
    "dim": 32,
    "hidden_dim": 48,
    "emb_dim": 32,
    "embedding_size": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "ffn_dim": 48,
    "word_embed_proj_dim": 32,
    "d_embed": 32,
    "ffn_hidden_size": 48,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "o_lora_rank": 8,
    "o_groups": 2,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "index_head_dim": 8,
    "index_n_heads": 4,
    "index_topk": 3,
    "num_experts": 4,
    "n_routed_experts": 4,
    "num_local_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "num_hash_layers": 0,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "sliding_window": 4,
    "attention_window_size": 4,
    "attention_chunk_size": 4,
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "lru_width": 32,
    "mamba_d_state": 8,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "state_size": 8,
    "num_buckets": 8,
    "relative_attention_num_buckets": 8,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 61,
    "num_kv_shared_layers": 0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "cls_token_id": 1,
    "sep_token_id": 2,
}


def families() -> list[str]:
    """The types of models that read token ids and have a class of their own."""
    from transformers.models.auto import modeling_auto

    names = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return sorted({*names, *modeling_auto.MODEL_MAPPING_NAMES})


def small(family: str) -> Any:
    """A model of a family in evaluation mode, and None if it does not read token ids, or is more
    than sizes can make small."""
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_MAPPING

    kind: Any = CONFIG_MAPPING[family]
    config = kind(**_sizes(kind()))
    for mapping in (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_MAPPING):
        made: Any = mapping.get(kind, None)
        if made is None or isinstance(made, tuple):
            continue
        if "input_ids" not in inspect.signature(made.forward).parameters:
            continue
        with torch.device("meta"):
            count = sum(x.numel() for x in made(config).parameters())
        if count > 3_000_000:
            continue
        torch.manual_seed(7)
        model = made(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() >= 2 or name.endswith("sinks"):
                    parameter.uniform_(-0.3, 0.3)
        return model
    return None


def _sizes(default: Any) -> dict[str, Any]:
    """What a configuration is to be made with, as small as its own names allow."""
    known = {name: size for name, size in _SIZES.items() if hasattr(default, name)}
    if "kv_lora_rank" in known:  # keys and values come of one vector, for each head its own
        known["num_key_value_heads"] = known["num_attention_heads"]
    for name in default.sub_configs:
        part = getattr(default, name, None)
        if part is not None:
            known[name] = _sizes(part)
    return known
