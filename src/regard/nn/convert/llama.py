"""Llama: a decoder with root-mean-square norms before its sublayers, turned queries, and SwiGLU."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.nn.convert.architecture import Architecture, Options, Refused, chosen, option
from regard.nn.convert.tables import Row, under
from regard.nn.models import LanguageModel
from regard.nn.position import Rotary
from regard.nn.residual import PreNorm

_LAYER = (
    Row("input_layernorm.weight", "norms.0.weight"),
    Row("self_attn.q_proj.{part}", "attention.w_q.{part}"),
    Row("self_attn.k_proj.{part}", "attention.w_k.{part}"),
    Row("self_attn.v_proj.{part}", "attention.w_v.{part}"),
    Row("self_attn.o_proj.{part}", "attention.w_o.{part}"),
    Row("post_attention_layernorm.weight", "norms.1.weight"),
    Row("mlp.up_proj.{part}", "feed_forward.w_in.{part}"),
    Row("mlp.gate_proj.{part}", "feed_forward.w_gate.{part}"),
    Row("mlp.down_proj.{part}", "feed_forward.w_out.{part}"),
)


def _rotary(options: Options) -> Rotary:
    """The base of the angles: in `rope_parameters`, or in older files beside `rope_scaling`."""
    older, newer = options.get("rope_scaling"), options.get("rope_parameters")
    found = older or newer or {}
    if not isinstance(found, Mapping):
        raise Refused(f"rope_parameters must be a mapping; got {found!r}")
    kind = found.get("rope_type", found.get("type", "default"))
    if kind != "default":
        raise Refused(f"rope_type must be 'default'; got {kind!r}")
    beside, base = options.get("partial_rotary_factor"), options.get("rope_theta")
    part = found.get("partial_rotary_factor", beside)
    if part not in (None, 1.0):
        raise Refused(f"partial_rotary_factor must be 1.0; got {part!r}")
    for name in found:
        if name not in ("rope_type", "type", "rope_theta", "partial_rotary_factor"):
            raise Refused(f"{name} of the angles must be absent, as it is not known here")
    base = found.get("rope_theta", base)
    return Rotary(base=10_000.0 if base is None else float(base), pairing="halves")


def _turns(model: LanguageModel, count: int) -> Tensor:
    """base^(−2i/width), the angle of each pair from one position to the next."""
    position = model.config.position
    assert isinstance(position, Rotary)
    steps = torch.arange(count, dtype=torch.float64, device="cpu")
    return position.base ** (-steps / count)


LLAMA = Architecture(
    name="LlamaForCausalLM",
    model_type="llama",
    model=LanguageModel,
    rows=(
        Row("model.embed_tokens.weight", "embedding.tokens.weight"),
        *under("model.layers.{layer}.", "decoder.layers.{layer}.", _LAYER),
        Row("model.norm.weight", "decoder.norm.weight"),
        Row("lm_head.weight", "head.weight"),
    ),
    fields={
        "vocabulary": option("vocab_size"),
        "width": option("hidden_size"),
        "heads": option("num_attention_heads"),
        "kv_heads": option("num_key_value_heads", 0),
        "head_width": option("head_dim", 0),
        "layers": option("num_hidden_layers"),
        "hidden": option("intermediate_size"),
        "activation": chosen("hidden_act", {"silu": "swiglu", "swish": "swiglu"}, "silu"),
        "norm_eps": option("rms_norm_eps", 1e-6),
        "position": _rotary,
        "bias": option("mlp_bias", False),
        "attention_bias": option("attention_bias", False),
        "attention_dropout": option("attention_dropout", 0.0),
        "tied": option("tie_word_embeddings", False),
        "causal": option("is_causal", True),
    },
    fixed={"residual": PreNorm(), "norm": "rms"},
    must={"pretraining_tp": (1,), "rope_interleaved": (False,)},
    harmless="max_position_embeddings max_sequence_length is_llama_config is_decoder",
    # Angles that older files hold.
    unused=("model.layers.{layer}.self_attn.rotary_emb.inv_freq",),
    buffers={"inv_freq": _turns, "original_inv_freq": _turns},
)
