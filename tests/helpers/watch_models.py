"""Small random models of transformers, one of each kind that computes attention its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["DECODERS", "ENCODERS", "MODELS", "ODD", "build"]

_SMALL: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 37,
}

_START: dict[str, Any] = {"decoder_start_token_id": 0}
_EVEN: dict[str, Any] = {**_SMALL, "intermediate_size": 40}  # experts want whole vectors


def _bert() -> Any:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**_SMALL, max_position_embeddings=64))


def _albert() -> Any:
    from transformers import AlbertConfig, AlbertModel

    return AlbertModel(AlbertConfig(**_SMALL, embedding_size=8, max_position_embeddings=64))


def _gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(vocab_size=61, n_positions=64, n_embd=24, n_layer=2, n_head=6)
    )


def _llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_SMALL, num_key_value_heads=2))


def _mistral() -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**_SMALL, num_key_value_heads=2, sliding_window=4))


def _gemma2() -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    return Gemma2ForCausalLM(
        Gemma2Config(
            **_SMALL,
            num_key_value_heads=2,
            head_dim=4,
            sliding_window=4,
            attn_logit_softcapping=3.0,
            query_pre_attn_scalar=4,
        )
    )


def _gpt_oss() -> Any:
    from transformers import GptOssConfig, GptOssForCausalLM

    return GptOssForCausalLM(
        GptOssConfig(
            **_EVEN,
            num_key_value_heads=2,
            head_dim=4,
            sliding_window=4,
            num_local_experts=2,
            num_experts_per_tok=1,
        )
    )


def _t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=61,
            d_model=24,
            d_kv=5,
            d_ff=37,
            num_layers=2,
            num_heads=6,
            relative_attention_num_buckets=8,
            **_START,
        )
    )


def _marian() -> Any:
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=61,
            d_model=24,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=6,
            decoder_attention_heads=6,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            max_position_embeddings=64,
            pad_token_id=60,
            eos_token_id=1,
            decoder_start_token_id=60,
            forced_eos_token_id=None,
        )
    )


def _vit() -> Any:
    from transformers import ViTConfig, ViTModel

    return ViTModel(
        ViTConfig(
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=6,
            intermediate_size=37,
            image_size=12,
            patch_size=4,
        )
    )


def _modernbert() -> Any:
    from transformers import ModernBertConfig, ModernBertModel

    alternating: dict[str, Any] = {"global_attn_every_n_layers": 2}
    return ModernBertModel(
        ModernBertConfig(
            **_SMALL,
            **alternating,
            pad_token_id=0,
            bos_token_id=1,
            cls_token_id=1,
            eos_token_id=2,
            sep_token_id=2,
            local_attention=5,
        )
    )


def _layoutlm() -> Any:
    from transformers import LayoutLMConfig, LayoutLMModel

    return LayoutLMModel(LayoutLMConfig(**_SMALL, max_position_embeddings=64))


def _switch() -> Any:
    from transformers import SwitchTransformersConfig, SwitchTransformersForConditionalGeneration

    return SwitchTransformersForConditionalGeneration(
        SwitchTransformersConfig(
            vocab_size=61,
            d_model=24,
            d_kv=5,
            d_ff=37,
            num_layers=2,
            num_decoder_layers=2,
            num_heads=6,
            num_experts=2,
            expert_capacity=64,
            **_START,
        )
    )


def _longt5() -> Any:
    from transformers import LongT5Config, LongT5ForConditionalGeneration

    return LongT5ForConditionalGeneration(
        LongT5Config(
            vocab_size=61, d_model=24, d_kv=5, d_ff=37, num_layers=2, num_heads=6, **_START
        )
    )


def _umt5() -> Any:
    from transformers import UMT5Config, UMT5ForConditionalGeneration

    return UMT5ForConditionalGeneration(
        UMT5Config(vocab_size=61, d_model=24, d_kv=5, d_ff=37, num_layers=2, num_heads=6, **_START)
    )


def _falcon() -> Any:
    from transformers import FalconConfig, FalconForCausalLM

    return FalconForCausalLM(
        FalconConfig(
            vocab_size=61,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=6,
            multi_query=True,
            new_decoder_architecture=False,
        )
    )


def _beit() -> Any:
    from transformers import BeitConfig, BeitModel

    return BeitModel(
        BeitConfig(
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=6,
            intermediate_size=37,
            image_size=12,
            patch_size=4,
            use_relative_position_bias=True,
        )
    )


def _doge() -> Any:
    from transformers import DogeConfig, DogeForCausalLM

    return DogeForCausalLM(DogeConfig(**_SMALL, num_key_value_heads=2))


def _nllb_moe() -> Any:
    from transformers import NllbMoeConfig, NllbMoeModel

    return NllbMoeModel(
        NllbMoeConfig(
            vocab_size=61,
            d_model=24,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=6,
            decoder_attention_heads=6,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            num_experts=2,
            expert_capacity=64,
            encoder_sparse_step=1,
            decoder_sparse_step=1,
            max_position_embeddings=64,
            pad_token_id=60,
            decoder_start_token_id=60,
        )
    )


def _mamba() -> Any:
    from transformers import MambaConfig, MambaModel

    return MambaModel(MambaConfig(vocab_size=61, hidden_size=24, num_hidden_layers=2, state_size=5))


MODELS: dict[str, Callable[[], Any]] = {
    "bert": _bert,
    "albert": _albert,
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "gemma2": _gemma2,
    "gpt_oss": _gpt_oss,
    "t5": _t5,
    "marian": _marian,
    "vit": _vit,
}
# Those that do something unusual with their masks or their modules.
ODD: dict[str, Callable[[], Any]] = {
    "modernbert": _modernbert,
    "layoutlm": _layoutlm,
    "switch": _switch,
    "longt5": _longt5,
    "umt5": _umt5,
    "falcon": _falcon,
    "beit": _beit,
    "doge": _doge,
    "nllb_moe": _nllb_moe,
    "mamba": _mamba,
}
ENCODERS = ("bert", "albert")
DECODERS = ("gpt2", "llama", "mistral", "gemma2", "gpt_oss")


def build(name: str, implementation: str = "sdpa") -> Any:
    """A model in evaluation mode, with weights that make its attention uneven."""
    torch.manual_seed(7)
    model = (MODELS | ODD)[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.mul_(4)
    if implementation == "sdpa" and name in ("gemma2", "gpt_oss"):
        implementation = "eager"  # sdpa has neither a softcap nor sinks
    model.set_attn_implementation(implementation)
    return model
