"""Models of transformers in which some layers mix tokens without weights, each of a few layers."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["MIXING", "mixing"]

_SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "state_size": 8,
    "mamba_d_state": 8,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_OTHERS: dict[str, dict[str, Any]] = {
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"]},
    "recurrent_gemma": {"lru_width": 32, "attention_window_size": 4},
    "zamba2": {
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        "mamba_headdim": 8,
        "mamba_ngroups": 1,
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
        "num_mem_blocks": 1,
        "n_mamba_heads": 8,
        "adapter_rank": 4,
    },
    "falcon_h1": {"mamba_d_ssm": 64},
    "bamba": {"attn_layer_indices": [1]},
    "granitemoehybrid": {
        "layer_types": ["linear_attention", "full_attention", *["linear_attention"] * 2]
    },
    "nemotron_h": {"layer_types": ["linear_attention", "moe", "full_attention", "moe"]},
}

_STATE_SPACE, _DELTA = "state-space mixing (Mamba)", "linear attention (gated delta net)"
# Of each family: the layers that are seen, and what is said of the others.
MIXING: dict[str, tuple[list[int], list[str]]] = {
    "qwen3_next": ([3], [f"layers 0–2 of model.layers are {_DELTA}"]),
    "qwen3_5_text": ([3], [f"layers 0–2 of model.layers are {_DELTA}"]),
    "minimax": ([0, 2], ["layers 1 and 3 of model.layers are linear attention (lightning)"]),
    "jamba": ([1, 3], [f"layers 0 and 2 of model.layers are {_STATE_SPACE}"]),
    "mamba": ([], [f"layers 0–3 of backbone.layers are {_STATE_SPACE}"]),
    "lfm2": ([2], ["layers 0–1 and 3 of model.layers are convolution"]),
    "recurrent_gemma": (
        [2],
        ["layers 0–1 and 3 of model.layers are linear recurrence (RG-LRU)"],
    ),
    "zamba2": (
        [1, 3],
        [
            f"layers 0 and 2 of model.layers are {_STATE_SPACE}",
            f"layers 1 and 3 of model.layers have {_STATE_SPACE} beside attention",
        ],
    ),
    "falcon_h1": (
        [0, 1, 2, 3],
        [f"layers 0–3 of model.layers have {_STATE_SPACE} beside attention"],
    ),
    "bamba": ([1], [f"layers 0 and 2–3 of model.layers are {_STATE_SPACE}"]),
    "granitemoehybrid": ([1], [f"layers 0 and 2–3 of model.layers are {_STATE_SPACE}"]),
    "nemotron_h": (
        [2],
        [
            f"layer 0 of model.layers is {_STATE_SPACE}",
            "layers 1 and 3 of model.layers (“moe”) compute no attention that can be seen.",
        ],
    ),
}


def mixing(family: str) -> Any:
    """A small model of a family, in evaluation mode."""
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

    kind: Any = CONFIG_MAPPING[family]
    default = kind()
    sizes = {name: size for name, size in _SIZES.items() if hasattr(default, name)}
    config = kind(**sizes | _OTHERS.get(family, {}))
    torch.manual_seed(7)
    made: Any = MODEL_FOR_CAUSAL_LM_MAPPING[kind]
    return made(config).eval()
