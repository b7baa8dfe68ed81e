"""From PyTorch's modules and back: nothing is lost, and what has no counterpart is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from helpers.parity_checks import filled
from torch import nn
from torch.nn.utils import parametrizations

from regard.nn import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    LanguageModel,
    LanguageModelConfig,
    MultiHeadAttention,
    NotesNorm,
    PostNorm,
    PreNorm,
    Rotary,
    SelfAttention,
    Sinusoidal,
    StackConfig,
    from_torch,
    to_torch,
)

SMALL: dict[str, Any] = {"d_model": 15, "nhead": 3, "dim_feedforward": 11, "batch_first": True}


def encoder(layer: nn.TransformerEncoderLayer, *norm: nn.Module) -> nn.TransformerEncoder:
    return nn.TransformerEncoder(layer, 2, *norm, enable_nested_tensor=False)


MODULES = {
    "attention": lambda **more: nn.MultiheadAttention(15, 3, batch_first=True, **more),
    "wide attention": lambda **more: nn.MultiheadAttention(
        15, 3, kdim=13, vdim=13, batch_first=True, **more
    ),
    "encoder layer": lambda **more: nn.TransformerEncoderLayer(**SMALL, **more),
    "decoder layer": lambda **more: nn.TransformerDecoderLayer(**SMALL, norm_first=True, **more),
    "encoder": lambda **more: encoder(nn.TransformerEncoderLayer(**SMALL, **more)),
    "decoder": lambda **more: nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**SMALL, **more), 2, nn.LayerNorm(15, bias=more["bias"])
    ),
}

every_module = pytest.mark.parametrize("name", list(MODULES))


def assert_same(a: nn.Module, b: nn.Module) -> None:
    """Equal parameters bit for bit, all else that shapes the numbers equal too."""
    ours, theirs = a.state_dict(keep_vars=True), b.state_dict(keep_vars=True)
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert tensor.requires_grad == theirs[name].requires_grad, name
        assert torch.equal(tensor, theirs[name]), name
    assert a.training == b.training
    assert dropouts(a) == dropouts(b)


def dropouts(module: nn.Module) -> list[tuple[str, float]]:
    return [
        (name, part.p if isinstance(part, nn.Dropout) else part.dropout)
        for name, part in module.named_modules()
        if isinstance(part, nn.Dropout | nn.MultiheadAttention | MultiHeadAttention)
    ]


@every_module
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_there_and_back_is_the_same_bit_for_bit(name: str, bias: bool, dtype: torch.dtype) -> None:
    theirs = filled(MODULES[name](dropout=0.25, bias=bias)).to(dtype).eval()
    ours = from_torch(theirs)
    assert_same(to_torch(ours), theirs)
    assert_same(from_torch(to_torch(ours)), ours)
    assert not ours.training
    assert {value for _, value in dropouts(ours)} == {0.25}


def test_a_transformer_there_and_back_is_the_same_bit_for_bit() -> None:
    theirs = filled(nn.Transformer(14, 2, 2, 1, 11, 0.25, batch_first=True)).eval()
    back = to_torch(*from_torch(theirs))
    assert isinstance(back, nn.Transformer)
    assert_same(back, theirs)
    x, y = torch.randn(2, 5, 14), torch.randn(2, 7, 14)
    assert torch.equal(back(x, y), theirs(x, y))


@every_module
def test_every_number_that_is_not_frozen_is_trained_and_none_is_shared(name: str) -> None:
    theirs = filled(MODULES[name](bias=True))
    frozen = next(part for part in theirs.parameters())
    frozen.requires_grad_(False)
    ours = from_torch(theirs)
    assert 1 <= sum(not part.requires_grad for part in ours.parameters()) <= 3
    assert_same(to_torch(ours), theirs)
    with torch.no_grad():
        before = {key: tensor.clone() for key, tensor in ours.state_dict().items()}
        for part in theirs.parameters():
            part.zero_()
    assert all(torch.equal(tensor, before[key]) for key, tensor in ours.state_dict().items())


def test_dropout_of_each_kind_is_carried_over() -> None:
    theirs = nn.TransformerDecoderLayer(**SMALL, dropout=0.125)
    theirs.self_attn.dropout = theirs.multihead_attn.dropout = 0.5
    theirs.dropout.p = 0.25
    ours = from_torch(theirs)
    assert (ours.attention.dropout, ours.dropout.p, ours.feed_forward.dropout.p) == (
        0.5,
        0.125,
        0.25,
    )
    assert_same(to_torch(ours), theirs)


def test_without_biases_the_norms_keep_a_zero_that_is_not_trained() -> None:
    ours = from_torch(nn.TransformerEncoderLayer(**SMALL, bias=False))
    biases = {key: part for key, part in ours.named_parameters() if key.endswith("bias")}
    assert set(biases) == {"norms.0.bias", "norms.1.bias"}
    assert not any(part.any() or part.requires_grad for part in biases.values())
    with torch.no_grad():
        biases["norms.1.bias"].add_(1.0)
    with pytest.raises(ValueError, match=r"not expected: norms\.1\.bias"):
        to_torch(ours)


def test_converting_does_not_touch_the_random_numbers() -> None:
    theirs = MODULES["decoder"](bias=True)
    state = torch.random.get_rng_state()
    to_torch(from_torch(theirs))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.MultiheadAttention(15, 3, add_bias_kv=True), "add_bias_kv must be False; got True"),
        (nn.MultiheadAttention(15, 3, add_zero_attn=True), "add_zero_attn must be False; got True"),
        (nn.MultiheadAttention(15, 3, kdim=13, vdim=11), "vdim must be 13; got 11"),
        (
            nn.TransformerEncoderLayer(**SMALL, activation=torch.tanh),
            "activation must be relu, gelu or silu; got tanh",
        ),
        (
            nn.TransformerEncoderLayer(**SMALL, activation=lambda x: x.relu()),
            "activation must be relu, gelu or silu; got <lambda>",
        ),
    ],
    ids=["bias_kv", "zero_attn", "vdim", "tanh", "lambda"],
)
def test_options_without_counterpart_are_refused_by_name(module: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^from_torch\(\): {message}\."):
        from_torch(module)


def test_layers_and_norms_that_differ_are_refused_by_name() -> None:
    norms = (
        (nn.LayerNorm(15, eps=0.1), r"norm\.eps must be 1e-05, is 0\.1"),
        (
            nn.LayerNorm(15, elementwise_affine=False),
            r"norm\.elementwise_affine must be True, is False",
        ),
    )
    for norm, message in norms:
        with pytest.raises(ValueError, match=message):
            from_torch(encoder(nn.TransformerEncoderLayer(**SMALL), norm))
    theirs = encoder(nn.TransformerEncoderLayer(**SMALL))
    theirs.layers[1] = nn.TransformerEncoderLayer(**SMALL, norm_first=True)
    with pytest.raises(ValueError, match=r"layers\.1\.norm_first must be False, is True"):
        from_torch(theirs)
    theirs.layers[1] = nn.TransformerDecoderLayer(**SMALL)
    with pytest.raises(TypeError, match=r"layers\.1 must be a TransformerEncoderLayer, is a Tr"):
        from_torch(theirs)
    theirs.layers[0] = nn.TransformerDecoderLayer(**SMALL)
    with pytest.raises(TypeError, match=r"layers\.0 must be a TransformerEncoderLayer; got Tr"):
        from_torch(theirs)


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_every_part_is_looked_at(kind: Any) -> None:
    """A part that is read, or one that is compared: each is refused where it is of another kind."""
    for name, _ in kind(**SMALL).named_children():
        theirs = kind(**SMALL)
        setattr(theirs, name, nn.Identity())
        with pytest.raises(TypeError, match=rf"{name} must be a \w+(; got|, is a) Identity"):
            from_torch(theirs)
    theirs = kind(**SMALL)
    theirs.norm2 = nn.RMSNorm(15)
    with pytest.raises(TypeError, match="norm2 must be a LayerNorm, is a RMSNorm"):
        from_torch(theirs)
    theirs = kind(**SMALL)
    parametrizations.weight_norm(theirs.linear1)
    with pytest.raises(TypeError, match="linear1 must be a Linear; got ParametrizedLinear"):
        from_torch(theirs)


def test_a_subclass_is_refused_by_name() -> None:
    class Louder(nn.MultiheadAttention):
        pass

    with pytest.raises(TypeError, match=r"got Louder\. A subclass may compute something else"):
        from_torch(Louder(15, 3))


def config(**more: Any) -> StackConfig:
    options: dict[str, Any] = {"width": 12, "heads": 6, "residual": PostNorm()}
    return StackConfig(**options | more)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (MultiHeadAttention(12, 6, kv_heads=2), "kv_heads must be 6, as many as heads; got 2"),
        (MultiHeadAttention(12, 6, head_width=5), "head_width must be width / heads; got 5"),
        (MultiHeadAttention(12, 6, value_width=5), "value_width must be 2, as head_width; got 5"),
        (MultiHeadAttention(12, 6, split="slices"), "split must be 'whole'; got 'slices'"),
        (MultiHeadAttention(12, 6, value_rank=1), "value_rank must be None; got 1"),
        (MultiHeadAttention(12, 6, output=False), "output must be True; got False"),
        (MultiHeadAttention(12, 6, scale=1.0), r"scale must be None, which is 1/√d_k; got 1\.0"),
        (
            MultiHeadAttention(12, 6, position=Rotary()),
            r"position must be NoPosition\(\); got .*Rotary.*",
        ),
        (EncoderLayer(config(norm="rms")), "norm must be 'layer'; got 'rms'"),
        (
            EncoderLayer(config(activation="swiglu")),
            "activation must be one of relu, gelu, gelu_tanh, silu; got 'swiglu'",
        ),
        (
            EncoderLayer(config(residual=NotesNorm())),
            r"residual must be PostNorm\(\) or PreNorm\(\); got NotesNorm\(\)",
        ),
        (
            EncoderLayer(config(attention_bias=False)),
            "attention_bias must be True, as bias; got False",
        ),
        (EncoderLayer(config(window=3)), "window must be None; got 3"),
        (DecoderLayer(config(), cross=False), "cross must be True; got False"),
        (DecoderLayer(config(kv_heads=3)), "kv_heads must be 6, as many as heads; got 3"),
        (Encoder(config(position=Rotary())), r"position must be NoPosition\(\); got Rotary\(.*\)"),
        (Decoder(config(position=Rotary())), r"position must be NoPosition\(\); got Rotary\(.*\)"),
    ],
)
def test_what_pytorch_cannot_say_is_refused_by_name(module: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^to_torch\(\): {message}\. PyTorch has no counterpart"):
        to_torch(module)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (EncoderLayer, "attention"),
        (DecoderLayer, "attention"),
        (DecoderLayer, "cross"),
        (Encoder, "layers.1.attention"),
        (Decoder, "layers.1.attention"),
        (Decoder, "layers.1.cross"),
    ],
)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 0.37}, r"scale must be None, is 0\.37"),
        ({"kv_heads": 3}, "kv_heads must be 6, is 3"),
        ({"heads": 3}, "heads must be 6, is 3"),
        ({"position": Rotary()}, r"position must be NoPosition\(\), is Rotary"),
    ],
    ids=lambda given: "" if isinstance(given, str) else next(iter(given)),
)
def test_every_attention_of_a_layer_or_stack_is_looked_at(
    kind: Any, path: str, options: dict[str, Any], message: str
) -> None:
    module = kind(config(layers=2))
    to_torch(module)
    inside, _, name = path.rpartition(".")
    options = {"width": 12, "heads": 6} | options
    setattr(module.get_submodule(inside), name, MultiHeadAttention(**options))
    with pytest.raises(ValueError, match=rf"^to_torch\(\): .*{path}\.{message}"):
        to_torch(module)


def test_other_modules_are_refused_by_type() -> None:
    model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3))
    others: list[Any] = [model, SelfAttention(6)]
    for module in others:
        with pytest.raises(TypeError, match=f"got {type(module).__name__}"):
            to_torch(module)
        with pytest.raises(TypeError, match=f"got {type(module).__name__}"):
            from_torch(module)
    with pytest.raises(TypeError, match="must be an Encoder and a Decoder; got Decoder and Enc"):
        to_torch(Decoder(config()), Encoder(config()))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="decoder must be of heads 6, as the encoder is; got 3"):
        to_torch(Encoder(config()), Decoder(config(heads=3)))


def test_matrices_of_which_some_are_frozen_cannot_be_packed() -> None:
    ours = MultiHeadAttention(12, 6)
    ours.w_k.weight.requires_grad_(False)
    with pytest.raises(ValueError, match=r"w_q\.weight, w_k\.weight, w_v\.weight \(must be tr"):
        to_torch(ours)


def test_a_stack_whose_positions_are_added_outside_has_none_of_its_own() -> None:
    ours = Encoder(config(position=Sinusoidal(), residual=PreNorm()), adds_position=False).eval()
    theirs = to_torch(copy.deepcopy(ours))
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(theirs(x), ours(x), atol=1e-5, rtol=1e-5)
