"""PyTorch's own attention, layers and stacks, to ours and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import nn

from regard.nn.attention import MultiHeadAttention
from regard.nn.convert import pytorch_make as make
from regard.nn.convert import pytorch_names as names
from regard.nn.convert.engine import fill, to_ours, to_theirs
from regard.nn.convert.pytorch_options import attention_options, layer_config, stack_config
from regard.nn.convert.pytorch_twin import twin_of_ours, twin_of_theirs
from regard.nn.convert.rows import Row
from regard.nn.convert.unchanged import check_unchanged
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.stacks import Decoder, Encoder

__all__ = ["from_torch", "rows_of", "to_torch"]

Ours = MultiHeadAttention | EncoderLayer | DecoderLayer | Encoder | Decoder
Theirs = (
    nn.MultiheadAttention
    | nn.TransformerEncoderLayer
    | nn.TransformerDecoderLayer
    | nn.TransformerEncoder
    | nn.TransformerDecoder
)


@dataclass(frozen=True)
class _Counterpart:
    """A class of theirs and one of ours, how to make either like the other, and the names."""

    theirs: type[nn.Module]
    ours: type[nn.Module]
    make_ours: Callable[[Any], nn.Module]
    make_theirs: Callable[[Any], nn.Module]
    rows: tuple[Row, ...]


_COUNTERPARTS = (
    _Counterpart(
        nn.MultiheadAttention,
        MultiHeadAttention,
        lambda module: MultiHeadAttention(**attention_options(module)),
        make.attention,
        names.ATTENTION,
    ),
    _Counterpart(
        nn.TransformerEncoderLayer,
        EncoderLayer,
        lambda module: EncoderLayer(layer_config(module)),
        make.encoder_layer,
        names.ENCODER_LAYER,
    ),
    _Counterpart(
        nn.TransformerDecoderLayer,
        DecoderLayer,
        lambda module: DecoderLayer(layer_config(module)),
        make.decoder_layer,
        names.DECODER_LAYER,
    ),
    _Counterpart(
        nn.TransformerEncoder,
        Encoder,
        lambda module: Encoder(stack_config(module, nn.TransformerEncoderLayer)),
        make.encoder,
        names.ENCODER,
    ),
    _Counterpart(
        nn.TransformerDecoder,
        Decoder,
        lambda module: Decoder(stack_config(module, nn.TransformerDecoderLayer)),
        make.decoder,
        names.DECODER,
    ),
)
_OF_THEIRS = {each.theirs: each for each in _COUNTERPARTS}
_OF_OURS = {each.ours: each for each in _COUNTERPARTS}

# PyTorch's norms lose their bias with `bias=False`; ours then have one that is 0 and stays 0.
_ZEROS = ("norms.{norm}.bias", "layers.{layer}.norms.{norm}.bias", "norm.bias")


@overload
def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention: ...
@overload
def from_torch(module: nn.TransformerEncoderLayer) -> EncoderLayer: ...
@overload
def from_torch(module: nn.TransformerDecoderLayer) -> DecoderLayer: ...
@overload
def from_torch(module: nn.TransformerEncoder) -> Encoder: ...
@overload
def from_torch(module: nn.TransformerDecoder) -> Decoder: ...
@overload
def from_torch(module: nn.Transformer) -> tuple[Encoder, Decoder]: ...
def from_torch(module: nn.Module) -> nn.Module | tuple[nn.Module, nn.Module]:
    """The module of `regard.nn` that computes what a module of `torch.nn` computes.

    `nn.MultiheadAttention`, `nn.TransformerEncoderLayer`, `nn.TransformerDecoderLayer`,
    `nn.TransformerEncoder` and `nn.TransformerDecoder` give `MultiHeadAttention`, `EncoderLayer`,
    `DecoderLayer`, `Encoder` and `Decoder`; `nn.Transformer` gives an encoder and a decoder.

    The weights are copies, bit for bit, of the same dtype, on the same device, frozen if theirs
    are; dropout and training or evaluation are as there. Ours takes (B, N, width) whatever
    `batch_first` was, and a decoder of ours is always causal. Raises ValueError or TypeError for an
    option that has no counterpart here, and for what was changed on the module since its class made
    it: hooks, other parts.

    >>> theirs = nn.MultiheadAttention(6, 3, batch_first=True).eval()
    >>> ours = from_torch(theirs)
    >>> x = torch.randn(2, 5, 6)
    >>> torch.allclose(ours(x), theirs(x, x, x)[0], atol=1e-6)
    True
    >>> from_torch(nn.MultiheadAttention(6, 3, add_zero_attn=True))
    Traceback (most recent call last):
    ValueError: from_torch(): add_zero_attn must be False; got True. regard.nn has no counterpart.
    """
    if type(module) is nn.Transformer:
        encoder, decoder = _like(module.encoder, "encoder"), _like(module.decoder, "decoder")
        with torch.device("meta"):
            check_unchanged("from_torch", module, twin_of_theirs(module))
        return encoder.train(module.training), decoder.train(module.training)
    return _like(module, "")


def _like(module: nn.Module, path: str) -> nn.Module:
    """The module of ours like one of theirs, which is at `path` in another."""
    found = _OF_THEIRS.get(type(module))
    if found is None:
        known = ", ".join(each.__name__ for each in (*_OF_THEIRS, nn.Transformer))
        raise TypeError(
            f"from_torch(): {path or 'module'} must be one of torch.nn's {known}; got "
            f"{type(module).__name__}. A subclass may compute something else: convert its parts."
        )
    with torch.device("meta"):
        ours = found.make_ours(module)
        check_unchanged("from_torch", module, twin_of_theirs(module), path)
    state = module.state_dict(keep_vars=True)
    whose = f"nn.{found.theirs.__name__}"
    fill(ours, to_ours("from_torch", whose, rows_of(ours), state, ours, zeros=_ZEROS))
    return ours.train(module.training)


@overload
def to_torch(module: MultiHeadAttention) -> nn.MultiheadAttention: ...
@overload
def to_torch(module: EncoderLayer) -> nn.TransformerEncoderLayer: ...
@overload
def to_torch(module: DecoderLayer) -> nn.TransformerDecoderLayer: ...
@overload
def to_torch(module: Encoder) -> nn.TransformerEncoder: ...
@overload
def to_torch(module: Decoder) -> nn.TransformerDecoder: ...
@overload
def to_torch(module: Encoder, decoder: Decoder) -> nn.Transformer: ...
def to_torch(module: nn.Module, decoder: Decoder | None = None) -> nn.Module:
    """The module of `torch.nn` that computes what a module of `regard.nn` computes.

    The way back of `from_torch`: an encoder and a `decoder` together give `nn.Transformer`. Theirs
    has `batch_first=True`. Give a decoder of theirs the causal mask that ours always has. Raises
    ValueError or TypeError for what PyTorch has no counterpart of, such as shared key heads, and
    for what was changed on the module since its class made it.

    >>> from regard.nn import PostNorm, StackConfig
    >>> ours = EncoderLayer(StackConfig(width=6, heads=3, residual=PostNorm())).eval()
    >>> theirs = to_torch(ours)
    >>> x = torch.randn(2, 5, 6)
    >>> torch.allclose(ours(x), theirs(x), atol=1e-6)
    True
    >>> to_torch(MultiHeadAttention(6, 3, kv_heads=1))
    Traceback (most recent call last):
    ValueError: to_torch(): kv_heads must be 3, as many as heads; got 1. PyTorch has no
    counterpart.
    """
    if decoder is not None:
        return _together(module, decoder)
    found = _OF_OURS.get(type(module))
    if found is None:
        known = ", ".join(each.__name__ for each in _OF_OURS)
        raise TypeError(
            f"to_torch(): module must be one of regard.nn's {known}; got "
            f"{type(module).__name__}. PyTorch has no counterpart."
        )
    with torch.device("meta"):
        theirs = found.make_theirs(module)
        check_unchanged("to_torch", module, twin_of_ours(module))
    state = module.state_dict(keep_vars=True)
    whose = f"nn.{found.theirs.__name__}"
    fill(theirs, to_theirs("to_torch", whose, rows_of(module), state, theirs, zeros=_ZEROS))
    return theirs.train(module.training)


def rows_of(module: nn.Module) -> tuple[Row, ...]:
    """The table of names for a module of ours.

    >>> rows_of(MultiHeadAttention(6, 3))[0].theirs
    'in_proj_weight'
    """
    if isinstance(module, MultiHeadAttention) and module.context_width != module.width:
        return names.WIDE_ATTENTION
    return _OF_OURS[type(module)].rows


def _together(encoder: object, decoder: object) -> nn.Transformer:
    """An encoder and a decoder of ours as PyTorch's one."""
    if type(encoder) is not Encoder or type(decoder) is not Decoder:
        raise TypeError(
            "to_torch(): with two modules they must be an Encoder and a Decoder; got "
            f"{type(encoder).__name__} and {type(decoder).__name__}."
        )
    for name in ("width", "heads"):
        wanted, found = getattr(encoder.config, name), getattr(decoder.config, name)
        if wanted != found:
            raise ValueError(
                f"to_torch(): decoder must be of {name} {wanted}, as the encoder is; got {found}. "
                "nn.Transformer has one for both."
            )
    inner, outer = to_torch(encoder), to_torch(decoder)
    with torch.device("meta"):
        empty = nn.Module()
        whole = nn.Transformer(
            encoder.config.width,
            encoder.config.heads,
            custom_encoder=empty,
            custom_decoder=empty,
            batch_first=True,
        )
    whole.encoder, whole.decoder = inner, outer
    return whole.train(encoder.training)
