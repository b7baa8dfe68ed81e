"""The modules of `regard.nn` once more, as formulas in NumPy float64, for the tests to compare."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard import reference
from regard.nn import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    HeadLinear,
    LayerNorm,
    LowRankValue,
    MultiHeadAttention,
)

Array = NDArray[np.float64]


def array(x: Tensor) -> Array:
    return x.detach().double().numpy()


def close(found: Tensor, wanted: Array | Tensor, within: float = 1e-12) -> None:
    """Assert that they are equal, shapes included, within an absolute and relative tolerance."""
    wanted = array(wanted) if isinstance(wanted, Tensor) else wanted
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(array(found), wanted, rtol=within, atol=within)


def scrambled(module: nn.Module, seed: int = 7) -> nn.Module:
    """The module in float64, with normal weights of σ = 0.5 throughout, biases and norms too."""
    draw = torch.Generator().manual_seed(seed)
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return module


def linear(x: Array, layer: nn.Module) -> Array:
    """X W + b; of a HeadLinear as one block-diagonal matrix."""
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor)
    if isinstance(layer, HeadLinear):
        w = np.zeros((layer.heads * layer.width, layer.heads * layer.out_width))
        for h in range(layer.heads):
            rows = slice(h * layer.width, (h + 1) * layer.width)
            columns = slice(h * layer.out_width, (h + 1) * layer.out_width)
            w[rows, columns] = array(weight[h]).T
    else:
        w = array(weight).T
    return x @ w + (array(bias).reshape(-1) if isinstance(bias, Tensor) else 0.0)


def heads(x: Array, count: int) -> Array:
    """(B, N, H·D) to (B, H, N, D)."""
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def attention(
    layer: MultiHeadAttention, x: Array, context: Array | None = None, **how: Any
) -> Array:
    """What MultiHeadAttention computes without positions, (B, N, width)."""
    y = x if context is None else context
    if isinstance(layer.w_v, LowRankValue):
        value = linear(linear(y, layer.w_v.down), layer.w_v.up)
    else:
        value = linear(y, layer.w_v)
    options: dict[str, Any] = {"scale": layer.scale} | how
    z = reference.attention(
        heads(linear(x, layer.w_q), layer.heads),
        heads(linear(y, layer.w_k), layer.kv_heads),
        heads(value, layer.kv_heads),
        **options,
    ).output
    joined = z.swapaxes(1, 2).reshape(*x.shape[:2], -1)
    return joined if layer.w_o is None else linear(joined, layer.w_o)


_erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: x * (1.0 + _erf(x / math.sqrt(2.0))) / 2.0,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
}


def feed_forward(layer: FeedForward, x: Array) -> Array:
    """activation(X W_in) W_out, or (silu(X W_gate) ⊙ X W_in) W_out."""
    if layer.w_gate is not None:
        gate = ACTIVATIONS["silu"](linear(x, layer.w_gate))
        return linear(gate * linear(x, layer.w_in), layer.w_out)
    return linear(ACTIVATIONS[layer.activation](linear(x, layer.w_in)), layer.w_out)


def norm(layer: nn.Module, x: Array) -> Array:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    if isinstance(layer, LayerNorm):
        return reference.layer_norm(x, array(weight), array(layer.bias), layer.eps)
    eps = layer.eps
    assert isinstance(eps, float)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * array(weight)


def encoder_layer(layer: EncoderLayer, x: Array, arrangement: Any, **how: Any) -> Array:
    return reference.encoder_layer(
        x,
        lambda x: attention(layer.attention, x, **how),
        lambda x: feed_forward(layer.feed_forward, x),
        arrangement=arrangement,
        norms=[lambda x, each=each: norm(each, x) for each in layer.norms],
    )


def decoder_layer(
    layer: DecoderLayer,
    x: Array,
    memory: Array,
    arrangement: Any,
    cross: dict[str, Any] | None = None,
    **how: Any,
) -> Array:
    def look(x: Array, memory: Array) -> Array:
        assert layer.cross is not None
        return attention(layer.cross, x, memory, **(cross or {}))

    return reference.decoder_layer(
        x,
        memory,
        lambda x: attention(layer.attention, x, causal=True, **how),
        look,
        lambda x: feed_forward(layer.feed_forward, x),
        arrangement=arrangement,
        norms=[lambda x, each=each: norm(each, x) for each in layer.norms],
    )
