"""The feed-forward layer: every activation equals its formula, each token by itself."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers.formulas import array, close, feed_forward, linear, scrambled

from regard import reference
from regard.nn import FeedForward
from regard.nn.feed_forward import ACTIVATIONS


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_equals_its_formula(activation: Any, bias: bool) -> None:
    layer = scrambled(FeedForward(6, hidden=7, activation=activation, bias=bias))
    assert isinstance(layer, FeedForward)
    x = 3 * torch.randn(2, 5, 6, dtype=torch.float64)
    close(layer(x), feed_forward(layer, array(x)))
    names = {"w_in", "w_out"} | ({"w_gate"} if activation == "swiglu" else set())
    assert set(layer.state_dict()) == {
        f"{name}.{part}" for name in names for part in (["weight", "bias"] if bias else ["weight"])
    }


def test_relu_is_the_reference_s() -> None:
    layer = scrambled(FeedForward(6, hidden=7, activation="relu"))
    assert isinstance(layer, FeedForward)
    x = torch.randn(5, 6, dtype=torch.float64)
    w = [array(layer.get_parameter(name)) for name in ("w_in.weight", "w_out.weight")]
    b = [array(layer.get_parameter(name)) for name in ("w_in.bias", "w_out.bias")]
    close(layer(x[None])[0], reference.feed_forward(array(x), w[0].T, b[0], w[1].T, b[1]))


def test_each_token_is_refined_by_itself() -> None:
    layer = scrambled(FeedForward(6))
    assert layer.get_parameter("w_in.weight").shape == (24, 6)
    x = torch.randn(1, 5, 6, dtype=torch.float64)
    order = torch.tensor([3, 0, 4, 1, 2])
    close(layer(x[:, order]), layer(x)[:, order])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_without_gradients_it_computes_the_same_bits_and_changes_nothing_given(
    activation: Any,
) -> None:
    layer = FeedForward(64, hidden=256, activation=activation)
    x = torch.randn(2, 257, 64)
    wanted, before = layer(x).detach(), x.clone()
    with torch.no_grad():
        assert torch.equal(layer(x), wanted)
    assert torch.equal(x, before)
    kept = []
    layer.w_in.register_forward_hook(lambda _module, _given, found: kept.append(found))
    with torch.no_grad():
        layer(x)
    close(kept[0], linear(array(x), layer.w_in), 1e-5)  # not yet activated


def test_dropout_acts_inside_in_training_alone() -> None:
    torch.manual_seed(0)
    layer = FeedForward(6, dropout=0.5)
    x = torch.randn(1, 5, 6)
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width must be at least 1; got 0"),
        ({"width": 6.0}, "width must be a whole number; got 6.0"),
        ({"width": True}, "width must be a whole number; got True"),
        ({"hidden": 0}, "hidden must be at least 1; got 0"),
        ({"hidden": -2}, "hidden must be at least 1; got -2"),
        ({"hidden": True}, "hidden must be a whole number; got True"),
        ({"dropout": 2}, r"dropout must be in \[0, 1\); got 2"),
        ({"dropout": -0.1}, r"dropout must be in \[0, 1\); got -0.1"),
        ({"dropout": math.nan}, "dropout must be a finite number; got nan"),
        ({"dropout": True}, "dropout must be a number; got True"),
        ({"activation": "tanh"}, "activation must be one of relu, gelu, .*; got 'tanh'"),
        ({"activation": ["relu"]}, r"activation must be one of relu, gelu, .*; got \['relu'\]"),
    ],
    ids=str,
)
def test_what_is_not_in_order_is_refused(options: dict[str, Any], message: str) -> None:
    options = {"width": 6} | options
    with pytest.raises(ValueError, match=rf"^FeedForward\(\): {message}\."):
        FeedForward(**options)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_many_tokens_are_those_of_a_few_at_a_time(activation: Any) -> None:
    layer = FeedForward(64, hidden=256, activation=activation)
    x = torch.randn(1, 257, 64)
    layer(x).square().sum().backward()
    found = [part.grad for part in layer.parameters()]
    layer.zero_grad()
    for few in x.split(31, 1):
        layer(few).square().sum().backward()
    for part, grad in zip(layer.parameters(), found, strict=True):
        torch.testing.assert_close(grad, part.grad, rtol=1e-4, atol=1e-3)
