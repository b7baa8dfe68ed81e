"""Modules of PyTorch that are like ours, their weights not set; what PyTorch cannot say."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.nn import functional

from regard.nn._places import Positions
from regard.nn.attention import LowRankValue, MultiHeadAttention
from regard.nn.config import StackConfig
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.residual import PostNorm, PreNorm
from regard.nn.stacks import Decoder, Encoder

__all__ = ["attention", "decoder", "decoder_layer", "encoder", "encoder_layer"]

# Functions all, "tanh" too: for the module nn.GELU PyTorch's fast path always takes the exact one.
_ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


def attention(module: MultiHeadAttention) -> nn.MultiheadAttention:
    """PyTorch's attention for one of ours."""
    _check_attention(module)
    return nn.MultiheadAttention(
        module.width,
        module.heads,
        dropout=module.dropout,
        bias=module.w_q.bias is not None,
        kdim=module.context_width,
        vdim=module.context_width,
        batch_first=True,
    )


def encoder_layer(module: EncoderLayer) -> nn.TransformerEncoderLayer:
    """PyTorch's encoder layer for one of ours."""
    _check_config(module.config)
    _check_attention(module.attention, heads=module.config.heads)
    layer = nn.TransformerEncoderLayer(**_options(module.config))
    _set_dropout(layer, module.config)
    return layer


def decoder_layer(module: DecoderLayer) -> nn.TransformerDecoderLayer:
    """PyTorch's decoder layer for one of ours."""
    if module.cross is None:
        raise _refusal("cross", "True", False)
    _check_config(module.config)
    _check_attention(module.attention, heads=module.config.heads)
    _check_attention(module.cross, "cross.", heads=module.config.heads)
    layer = nn.TransformerDecoderLayer(**_options(module.config))
    _set_dropout(layer, module.config)
    return layer


def encoder(module: Encoder) -> nn.TransformerEncoder:
    """PyTorch's encoder for one of ours; nothing in it turns padding into nested tensors."""
    _check_position(module)
    layers = [encoder_layer(layer) for layer in _layers(module, EncoderLayer)]
    return nn.TransformerEncoder(
        layers[0], len(layers), _last_norm(module), enable_nested_tensor=False
    )


def decoder(module: Decoder) -> nn.TransformerDecoder:
    """PyTorch's decoder for one of ours."""
    _check_position(module)
    layers = [decoder_layer(layer) for layer in _layers(module, DecoderLayer)]
    return nn.TransformerDecoder(layers[0], len(layers), _last_norm(module))


def _layers(module: Encoder | Decoder, kind: type[Any]) -> list[Any]:
    for n, layer in enumerate(module.layers):
        _need(f"layers.{n}", f"a {kind.__name__}", type(layer) is kind, type(layer).__name__)
    return list(module.layers)


def _options(config: StackConfig) -> dict[str, Any]:
    return {
        "d_model": config.width,
        "nhead": config.heads,
        "dim_feedforward": config.hidden,
        "activation": _ACTIVATIONS[config.activation],
        "layer_norm_eps": config.norm_eps,
        "norm_first": isinstance(config.residual, PreNorm),
        "bias": config.bias,
        "dropout": config.dropout,
        "batch_first": True,
    }


def _set_dropout(
    layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer, config: StackConfig
) -> None:
    if config.attention_dropout is not None:
        layer.self_attn.dropout = config.attention_dropout
        if isinstance(layer, nn.TransformerDecoderLayer):
            layer.multihead_attn.dropout = config.attention_dropout
    if config.hidden_dropout is not None:
        layer.dropout.p = config.hidden_dropout


def _last_norm(module: Encoder | Decoder) -> nn.LayerNorm | None:
    config = module.config
    if module.norm is None:
        return None
    return nn.LayerNorm(config.width, eps=config.norm_eps, bias=config.bias)


def _check_attention(
    module: MultiHeadAttention, path: str = "", *, heads: int | None = None
) -> None:
    """Raise ValueError for what PyTorch's attention, of as many `heads`, cannot be made with."""
    heads, width = module.heads if heads is None else heads, module.width
    for name, expected, holds, found in (
        ("heads", f"{heads}, as in the configuration", module.heads == heads, module.heads),
        ("kv_heads", f"{heads}, as many as heads", module.kv_heads == heads, module.kv_heads),
        ("head_width", "width / heads", module.head_width * heads == width, module.head_width),
        (
            "value_width",
            f"{module.head_width}, as head_width",
            module.value_width == module.head_width,
            module.value_width,
        ),
        ("split", "'whole'", module.split == "whole", module.split),
        ("value_rank", "None", not isinstance(module.w_v, LowRankValue), "a rank"),
        ("output", "True", module.w_o is not None, False),
        (
            "position",
            "NoPosition()",
            type(module.positions) is Positions,
            getattr(module.positions, "position", module.positions),
        ),
        ("scale", "None, which is 1/√d_k", module.scale is None, module.scale),
    ):
        _need(path + name, expected, holds, found)


def _check_config(config: StackConfig) -> None:
    for name, expected, holds in (
        ("norm", "'layer'", config.norm == "layer"),
        ("activation", f"one of {', '.join(_ACTIVATIONS)}", config.activation in _ACTIVATIONS),
        ("residual", "PostNorm() or PreNorm()", isinstance(config.residual, PostNorm | PreNorm)),
        ("attention_bias", f"{config.bias}, as bias", config.attention_bias == config.bias),
        ("window", "None", config.window is None),
    ):
        _need(name, expected, holds, getattr(config, name))


def _check_position(module: Encoder | Decoder) -> None:
    adds_nothing = type(module.positions) is Positions
    _need("position", "NoPosition()", adds_nothing, module.config.position)


def _need(name: str, expected: str, holds: bool, found: object) -> None:
    if not holds:
        raise _refusal(name, expected, found)


def _refusal(name: str, expected: str, found: object) -> ValueError:
    return ValueError(
        f"to_torch(): {name} must be {expected}; got {found!r}. PyTorch has no counterpart."
    )
