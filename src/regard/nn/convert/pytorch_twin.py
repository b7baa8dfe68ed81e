"""Modules made anew with the options of another one: what that was before anybody changed it."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.nn.attention import MultiHeadAttention
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.stacks import Decoder, Encoder

__all__ = ["twin_of_ours", "twin_of_theirs"]


def twin_of_theirs(module: Any) -> nn.Module:
    """A module of PyTorch like this one, whose options have been read and found in order."""
    match module:
        case nn.MultiheadAttention():
            return nn.MultiheadAttention(
                module.embed_dim,
                module.num_heads,
                dropout=module.dropout,
                bias="in_proj_bias" in dict(module.named_parameters()),
                kdim=module.kdim,
                vdim=module.vdim,
                batch_first=module.batch_first,
            )
        case nn.TransformerEncoderLayer() | nn.TransformerDecoderLayer():
            return _layer(module)
        case nn.TransformerEncoder():
            layer, norm = _layer(module.layers[0]), _norm(module.norm)
            return nn.TransformerEncoder(
                layer, len(module.layers), norm, enable_nested_tensor=False
            )
        case nn.TransformerDecoder():
            layer, norm = _layer(module.layers[0]), _norm(module.norm)
            return nn.TransformerDecoder(layer, len(module.layers), norm)
        case _:
            return nn.Transformer(
                module.d_model,
                module.nhead,
                custom_encoder=twin_of_theirs(module.encoder),
                custom_decoder=twin_of_theirs(module.decoder),
                batch_first=module.batch_first,
            )


def _layer(module: Any) -> Any:
    activation = module.activation
    if isinstance(activation, nn.Module):
        activation = type(activation)()
        for name in ("approximate", "inplace"):
            if hasattr(activation, name):
                setattr(activation, name, getattr(module.activation, name))
    layer = type(module)(
        module.self_attn.embed_dim,
        module.self_attn.num_heads,
        module.linear1.out_features,
        module.dropout1.p,
        activation,
        module.norm1.eps,
        module.self_attn.batch_first,
        module.norm_first,
        module.linear1.bias is not None,
    )
    layer.dropout.p = module.dropout.p
    for name, part in module.named_children():
        if isinstance(part, nn.MultiheadAttention):
            getattr(layer, name).dropout = part.dropout
    return layer


def _norm(norm: Any) -> nn.LayerNorm | None:
    if norm is None:
        return None
    return nn.LayerNorm(norm.normalized_shape, eps=norm.eps, bias=norm.bias is not None)


def twin_of_ours(module: Any) -> nn.Module:
    """A module of ours like this one, for which PyTorch has a counterpart."""
    match module:
        case MultiHeadAttention():
            return MultiHeadAttention(
                module.width,
                module.heads,
                context_width=module.context_width,
                bias=module.w_q.bias is not None,
                dropout=module.dropout,
            )
        case EncoderLayer():
            return EncoderLayer(module.config)
        case DecoderLayer():
            return DecoderLayer(module.config, causal=module.causal)
        case Encoder():
            return Encoder(module.config, adds_position=False)
        case _:
            return Decoder(module.config, causal=module.causal, adds_position=False)
