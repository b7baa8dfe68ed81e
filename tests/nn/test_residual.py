"""The three arrangements: sublayers, residuals and norms joined as the formulas say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.formulas import (
    array,
    attention,
    close,
    decoder_layer,
    encoder_layer,
    feed_forward,
    norm,
    scrambled,
)

from regard import reference
from regard.nn import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    NotesNorm,
    PostNorm,
    PreNorm,
    Residual,
    StackConfig,
)

ARRANGEMENTS = [(PostNorm(), "post"), (PreNorm(), "pre"), (NotesNorm(), "notes")]


def config(residual: Residual, **more: Any) -> StackConfig:
    return StackConfig(width=12, heads=3, hidden=7, residual=residual, **more)


def encoder(residual: Residual, **more: Any) -> EncoderLayer:
    layer = scrambled(EncoderLayer(config(residual, **more)))
    assert isinstance(layer, EncoderLayer)
    return layer


def decoder(residual: Residual, cross: bool = True) -> DecoderLayer:
    layer = scrambled(DecoderLayer(config(residual), cross=cross))
    assert isinstance(layer, DecoderLayer)
    return layer


X = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
MEMORY = torch.randn(2, 7, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize(("residual", "name"), ARRANGEMENTS)
def test_an_encoder_layer_is_arranged_as_in_the_reference(
    residual: Residual, name: str, kind: Any
) -> None:
    layer = encoder(residual, norm=kind)
    close(layer(X), encoder_layer(layer, array(X), name))


@pytest.mark.parametrize(("residual", "name"), ARRANGEMENTS[:2])
def test_a_decoder_layer_is_arranged_as_in_the_reference(residual: Residual, name: str) -> None:
    layer = decoder(residual)
    close(layer(X, memory=MEMORY), decoder_layer(layer, array(X), array(MEMORY), name))


@pytest.mark.parametrize(("residual", "name"), ARRANGEMENTS)
def test_a_decoder_without_an_encoder_is_a_causal_encoder_layer(
    residual: Residual, name: str
) -> None:
    layer, same = decoder(residual, cross=False), encoder(residual)
    same.load_state_dict(layer.state_dict())
    close(layer(X), encoder_layer(same, array(X), name, causal=True))


def test_the_arrangement_of_the_notes_is_what_they_write() -> None:
    """h = LayerNorm(FFN(Attention(X)) + Attention(X)): one norm, and no way round attention."""
    layer = encoder(NotesNorm())
    (only,) = layer.norms
    a = attention(layer.attention, array(X))
    wanted = reference.layer_norm(
        feed_forward(layer.feed_forward, a) + a,
        array(only.get_parameter("weight")),
        array(only.get_parameter("bias")),
    )
    close(layer(X), wanted)


def test_the_arrangement_of_the_notes_with_cross_attention() -> None:
    layer = decoder(NotesNorm())
    assert layer.cross is not None
    a = attention(layer.attention, array(X), causal=True)
    a = attention(layer.cross, a, array(MEMORY))
    (only,) = layer.norms
    wanted = norm(only, feed_forward(layer.feed_forward, a) + a)
    close(layer(X, memory=MEMORY), wanted)


@pytest.mark.parametrize(("residual", "name"), ARRANGEMENTS)
def test_a_stack_ends_with_a_norm_where_the_arrangement_needs_one(
    residual: Residual, name: str
) -> None:
    stack = scrambled(Encoder(config(residual, layers=3)))
    assert isinstance(stack, Encoder)
    assert (stack.norm is not None) == (name == "pre")
    wanted = array(X)
    for layer in stack.layers:
        assert isinstance(layer, EncoderLayer)
        wanted = encoder_layer(layer, wanted, name)
    close(stack(X), wanted if stack.norm is None else norm(stack.norm, wanted), 1e-11)
    assert Encoder(config(residual, final_norm=True)).norm is not None
    assert Decoder(config(residual, final_norm=False)).norm is None


def test_under_pre_norm_a_layer_that_adds_nothing_changes_nothing() -> None:
    layer = encoder(PreNorm())
    with torch.no_grad():
        for part in (layer.attention.w_o, layer.feed_forward.w_out):
            assert part is not None
            for parameter in part.parameters():
                parameter.zero_()
    assert torch.equal(layer(X), X)
    layer = encoder(NotesNorm())
    assert not np.allclose(array(layer(X)), array(X))


@pytest.mark.parametrize(("residual", "name"), ARRANGEMENTS)
def test_how_many_norms_a_layer_has(residual: Residual, name: str) -> None:
    assert len(encoder(residual).norms) == (1 if name == "notes" else 2)
    assert len(decoder(residual).norms) == (1 if name == "notes" else 3)


@pytest.mark.parametrize(("residual", "name"), ARRANGEMENTS)
def test_without_gradients_a_large_layer_gives_the_same_bits_and_keeps_its_input(
    residual: Residual, name: str
) -> None:
    sizes = StackConfig(width=64, heads=4, residual=residual, activation="relu")
    layer = DecoderLayer(sizes).eval()
    x, memory = torch.randn(5, 257, 64), torch.randn(5, 11, 64)
    before, wanted = x.clone(), layer(x, memory=memory).detach()
    with torch.no_grad():
        assert torch.equal(layer(x, memory=memory), wanted)
        kept = []
        layer.attention.register_forward_hook(lambda _m, _given, found: kept.append(found))
        assert torch.equal(layer(x, memory=memory), wanted)
        first = x if name != "pre" else layer.norms[0](x)
        assert torch.equal(kept[0], layer.attention(first, causal=True))
    assert torch.equal(x, before)


def test_dropout_acts_on_what_each_sublayer_adds() -> None:
    torch.manual_seed(0)
    layer = encoder(PreNorm(), dropout=0.999999, attention_dropout=0.0, hidden_dropout=0.0)
    assert torch.equal(layer.train()(X), X)  # both are dropped, whole
    close(layer.eval()(X), encoder_layer(layer, array(X), "pre"))
