"""Layers of encoder and decoder: what they see, what they refuse, and that they learn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.formulas import array, close, decoder_layer, encoder_layer, scrambled
from torch import Tensor

from regard.nn import (
    DecoderLayer,
    EncoderLayer,
    NotesNorm,
    PostNorm,
    PreNorm,
    Residual,
    StackConfig,
)

SIZES: dict[str, Any] = {"width": 12, "heads": 3, "hidden": 7}
X = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
MEMORY = torch.randn(2, 7, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "multi-query": {"kv_heads": 1},
    "slices": {"split": "slices"},
    "low rank": {"value_rank": 2},
    "widths apart": {"head_width": 5, "value_width": 2},
    "no bias": {"bias": False},
    "no bias in attention": {"attention_bias": False},
    "bias in attention alone": {"bias": False, "attention_bias": True},
    "swiglu and rms": {"activation": "swiglu", "norm": "rms"},
    "relu": {"activation": "relu", "norm_eps": 0.01},
}


def encoder(**options: Any) -> EncoderLayer:
    layer = scrambled(EncoderLayer(StackConfig(**SIZES, **options)))
    assert isinstance(layer, EncoderLayer)
    return layer


def decoder(cross: bool = True, **options: Any) -> DecoderLayer:
    layer = scrambled(DecoderLayer(StackConfig(**SIZES, **options), cross=cross))
    assert isinstance(layer, DecoderLayer)
    return layer


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_a_config_reaches_its_layer(name: str) -> None:
    layer = encoder(**OPTIONS[name])
    close(layer(X), encoder_layer(layer, array(X), "pre"))
    bias = OPTIONS[name].get("bias", True)
    in_attention = OPTIONS[name].get("attention_bias", bias)
    assert (layer.attention.w_q.bias is not None) == in_attention
    assert (layer.feed_forward.w_in.bias is not None) == bias
    looks = decoder(**OPTIONS[name])
    close(looks(X, memory=MEMORY), decoder_layer(looks, array(X), array(MEMORY), "pre"))


def test_masks_and_lengths_say_what_is_seen() -> None:
    layer, lengths = encoder(), torch.tensor([5, 3])
    mask = (torch.arange(5) < lengths[:, None])[:, None, None]
    wanted = encoder_layer(layer, array(X), "pre", lengths=lengths.numpy())
    close(layer(X, lengths=lengths), wanted)
    close(layer(X, mask=mask), wanted)
    looks, of_memory = decoder(), torch.tensor([2, 7])
    wanted = decoder_layer(
        looks,
        array(X),
        array(MEMORY),
        "pre",
        cross={"lengths": of_memory.numpy()},
        lengths=lengths.numpy(),
    )
    close(looks(X, memory=MEMORY, lengths=lengths, memory_lengths=of_memory), wanted)
    seen = (torch.arange(7) < of_memory[:, None])[:, None, None]
    close(looks(X, memory=MEMORY, mask=mask, memory_mask=seen), wanted)


@pytest.mark.parametrize("window", [1, 2, 5, 11])
def test_a_window_limits_both_sides_of_an_encoder_and_the_past_of_a_decoder(window: int) -> None:
    layer = encoder(window=window)
    wanted = encoder_layer(layer, array(X), "pre", window=(window - 1, window - 1))
    close(layer(X), wanted)
    looks = decoder(window=window)
    wanted = decoder_layer(looks, array(X), array(MEMORY), "pre", window=(window - 1, None))
    close(looks(X, memory=MEMORY), wanted)


def test_a_decoder_says_whether_it_wants_a_memory() -> None:
    with pytest.raises(ValueError, match=r"must be given a memory \(B, M, width\); got none"):
        decoder()(X)
    with pytest.raises(ValueError, match="must be given no memory; got one"):
        decoder(cross=False)(X, memory=MEMORY)
    with pytest.raises(ValueError, match=r"context must be .* \(2, N, 12\); got \(3, 7, 12\)"):
        decoder()(X, memory=torch.zeros(3, 7, 12, dtype=torch.float64))


@pytest.mark.parametrize("residual", [PostNorm(), PreNorm(), NotesNorm()])
def test_gradients_are_right(residual: Residual) -> None:
    layer = encoder(residual=residual, kv_heads=1)
    x = X[:1, :3].clone().requires_grad_()
    names = ["attention.w_k.weight", "feed_forward.w_in.weight", "norms.0.weight"]

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        found = torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))
        assert isinstance(found, Tensor)
        return found

    weights = [layer.get_parameter(name) for name in names]
    assert torch.autograd.gradcheck(run, (x, *weights), fast_mode=True)


def test_gradients_of_a_decoder_layer_reach_the_memory() -> None:
    layer = decoder()
    x, memory = X[:1, :3].clone().requires_grad_(), MEMORY[:1, :2].clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, memory: layer(x, memory=memory), (x, memory), fast_mode=True
    )


def test_a_layer_compiles_as_one_graph() -> None:
    torch.compiler.reset()
    layer = EncoderLayer(StackConfig(**SIZES))
    x, lengths = X.float(), torch.tensor([5, 3])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, lengths=lengths), layer(x, lengths=lengths))
    compiled(x, lengths=lengths).square().sum().backward()
    found = [part.grad for part in layer.parameters()]
    layer.zero_grad()
    layer(x, lengths=lengths).square().sum().backward()
    for part, grad in zip(layer.parameters(), found, strict=True):
        assert grad is not None
        torch.testing.assert_close(grad, part.grad)
    layer.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, lengths=lengths), layer(x, lengths=lengths))
    torch.compiler.reset()
