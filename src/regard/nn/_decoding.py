"""A layer of a decoder for few new tokens in one native call, with the bits of its modules.

A token passes through many small modules, and calling them takes as long as reading all weights.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from regard._attention.eager import PLAIN, is_eager
from regard._attention.native import core as _native
from regard._linear import MOST_ROWS, ROWS
from regard.nn._hooks import is_recording
from regard.nn._places import Place
from regard.nn._plain import calls_are_plain, is_plain
from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import KeyValues
from regard.nn.feed_forward import FeedForward
from regard.nn.linear import Linear
from regard.nn.norm import RMSNorm
from regard.nn.residual import PreNorm

# Looked up once.
_get_num_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled
_is_autocast_enabled = torch.is_autocast_enabled


def decoded(layer: nn.Module, x: Tensor, place: Place, cache: KeyValues) -> Tensor | None:
    """What a layer of Llama's kind makes of x (B, N, width), or None: then its modules say it.

    That kind is PreNorm with RMSNorm, SwiGLU, causal and without a window. It is None as well where
    somebody listens to the modules or has changed them, where there are gradients or dropout, or
    where the cache is empty.
    """
    config: Any = layer.config
    if (
        _native is None
        or type(config.residual) is not PreNorm
        or config.window is not None
        or cache.window is not None
        or not layer.causal
        or place.bias is not None
        or type(x) not in PLAIN
        or x.dtype not in ROWS
        or x.dim() != 3
        or x.shape[0] * x.shape[1] > MOST_ROWS
        or _is_grad_enabled()
        or not is_eager()
        or is_recording()
        or _is_autocast_enabled("cpu")
        or not calls_are_plain()
    ):
        return None
    parts = _parts(layer)
    if parts is None:
        return None
    norms, maps, heads, scale = parts
    angles = None
    if place.cosine is not None and place.sine is not None:
        angles = place.cosine, place.sine, place.pairing == "halves"
    y, threads = torch.empty_like(x), _get_num_threads()

    def write(room: tuple[Tensor, Tensor, int, int]) -> bool:
        return _native.layer(x, norms, maps, angles, room, heads, scale, y, threads)

    return y if cache.extend_by(x.shape[1], write) else None


def _parts(layer: Any) -> tuple[Any, Any, int, float] | None:
    """Norms and maps as the native layer takes them, heads and scale; None if it cannot be used."""
    parts = layer._modules
    attention: Any = parts["attention"]
    feed_forward: Any = parts["feed_forward"]
    dropout: Any = parts["dropout"]
    first, second = parts["norms"]._modules.values()
    if not (
        is_plain(attention, MultiHeadAttention)
        and is_plain(feed_forward, FeedForward)
        and is_plain(first, RMSNorm)
        and is_plain(second, RMSNorm)
        and is_plain(dropout, nn.Dropout)
    ):
        return None
    inner, outer = attention._modules, feed_forward._modules
    hidden_dropout: Any = outer["dropout"]
    scale = attention.scale
    if scale is None:
        scale = 1.0 / math.sqrt(attention.head_width)
    if (
        attention.stands
        or attention.head_width != attention.value_width
        or type(scale) is not float
        or not math.isfinite(scale)
        or attention.training
        or dropout.training
        or not is_plain(hidden_dropout, nn.Dropout)
        or hidden_dropout.training
    ):
        return None
    maps: list[tuple[Tensor, Tensor | None]] = []
    for module in (
        *(inner.get(name) for name in ("w_q", "w_k", "w_v", "w_o")),
        *(outer.get(name) for name in ("w_in", "w_gate", "w_out")),
    ):
        if not is_plain(module, Linear):
            return None
        own = module._parameters
        weight, bias = own.get("weight"), own.get("bias")
        if type(weight) not in PLAIN or (bias is not None and type(bias) not in PLAIN):
            return None
        maps.append((weight, bias))
    weights = first._parameters.get("weight"), second._parameters.get("weight")
    if type(weights[0]) not in PLAIN or type(weights[1]) not in PLAIN:
        return None
    return (weights[0], first.eps, weights[1], second.eps), tuple(maps), attention.heads, scale
