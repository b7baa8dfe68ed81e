"""Marian: encoder and decoder with norms after their sublayers, sinusoidal positions, one table."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.nn.convert.architecture import ACTIVATIONS, Architecture, Options, chosen, option
from regard.nn.convert.tables import ONE_ROW, Row, under
from regard.nn.position import Sinusoidal
from regard.nn.residual import PostNorm
from regard.nn.transformer import Transformer

_ATTENTION = (
    Row("q_proj.{part}", "w_q.{part}"),
    Row("k_proj.{part}", "w_k.{part}"),
    Row("v_proj.{part}", "w_v.{part}"),
    Row("out_proj.{part}", "w_o.{part}"),
)

_ENCODER_LAYER = (
    *under("self_attn.", "attention.", _ATTENTION),
    Row("self_attn_layer_norm.{part}", "norms.0.{part}"),
    Row("fc1.{part}", "feed_forward.w_in.{part}"),
    Row("fc2.{part}", "feed_forward.w_out.{part}"),
    Row("final_layer_norm.{part}", "norms.1.{part}"),
)

_DECODER_LAYER = (
    *under("self_attn.", "attention.", _ATTENTION),
    Row("self_attn_layer_norm.{part}", "norms.0.{part}"),
    *under("encoder_attn.", "cross.", _ATTENTION),
    Row("encoder_attn_layer_norm.{part}", "norms.1.{part}"),
    Row("fc1.{part}", "feed_forward.w_in.{part}"),
    Row("fc2.{part}", "feed_forward.w_out.{part}"),
    Row("final_layer_norm.{part}", "norms.2.{part}"),
)


def _target_vocabulary(options: Options) -> int:
    """0 if source and target share one table."""
    own = options.get("decoder_vocab_size") or options.get("vocab_size") or 0
    shared = options.get("share_encoder_decoder_embeddings")
    tied = options.get("tie_word_embeddings")
    return own if shared is False or tied is False else 0


def _waves(model: Transformer, length: int) -> Tensor:
    """Our sines and cosines at the first positions, (length, width), in float64."""
    found = model.embedding.positions.embed(torch.arange(length), torch.float64)
    assert found is not None
    return found


MARIAN = Architecture(
    name="MarianMTModel",
    model_type="marian",
    model=Transformer,
    rows=(
        Row("model.shared.weight", "embedding.tokens.weight"),
        Row("model.encoder.embed_tokens.weight", "embedding.tokens.weight"),
        Row("model.decoder.embed_tokens.weight", "target_embedding.tokens.weight"),
        *under("model.encoder.layers.{layer}.", "encoder.layers.{layer}.", _ENCODER_LAYER),
        *under("model.decoder.layers.{layer}.", "decoder.layers.{layer}.", _DECODER_LAYER),
        Row("lm_head.weight", "head.weight"),
        Row("final_logits_bias", "head.bias", ONE_ROW),
    ),
    fields={
        "vocabulary": option("vocab_size"),
        "target_vocabulary": _target_vocabulary,
        "width": option("d_model"),
        "heads": option("encoder_attention_heads"),
        "layers": option("encoder_layers"),
        "decoder_layers": option("decoder_layers"),
        "hidden": option("encoder_ffn_dim"),
        "activation": chosen("activation_function", ACTIVATIONS, "gelu"),
        "embedding_scale": option("scale_embedding", False),
        "dropout": option("dropout", 0.1),
        "attention_dropout": option("attention_dropout", 0.0),
        "hidden_dropout": option("activation_dropout", 0.0),
        "tied": option("tie_word_embeddings", True),
    },
    fixed={
        "residual": PostNorm(),
        "position": Sinusoidal(layout="halves"),
        "final_norm": False,
        "head_bias": True,
        "norm_eps": 1e-5,
    },
    must={
        "normalize_before": (False,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (True,),
        "encoder_layerdrop": (0.0,),
        "decoder_layerdrop": (0.0,),
        "is_encoder_decoder": (True,),
        "is_decoder": (False,),
        "is_causal": (),
        "add_bias_logits": (False,),
    },
    alike=(
        ("encoder_attention_heads", "decoder_attention_heads"),
        ("encoder_ffn_dim", "decoder_ffn_dim"),
        ("d_model", "hidden_size"),
        ("encoder_attention_heads", "num_attention_heads"),
        ("encoder_layers", "num_hidden_layers"),
    ),
    # The sines go on as far as there are tokens; heads that MarianMTModel has not.
    harmless="max_position_embeddings classif_dropout classifier_dropout",
    tied_only=("model.shared.weight",),
    computed={
        "model.encoder.embed_positions.weight": _waves,
        "model.decoder.embed_positions.weight": _waves,
    },
)
