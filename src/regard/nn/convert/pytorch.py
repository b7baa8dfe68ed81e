"""PyTorch's own attention, layers and stacks, to ours and back."""

from __future__ import annotations

from typing import overload

import torch
from torch import nn

from regard.nn._parameters import fill
from regard.nn.attention import MultiHeadAttention
from regard.nn.convert.pytorch_options import (
    options_of_ours,
    options_of_theirs,
    ours_with,
    theirs_with,
)
from regard.nn.convert.tables import THIRDS, Row, to_ours, to_theirs, under
from regard.nn.convert.unchanged import check_unchanged
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.stacks import Decoder, Encoder

_COUNTERPARTS: dict[type[nn.Module], type[nn.Module]] = {
    nn.MultiheadAttention: MultiHeadAttention,
    nn.TransformerEncoderLayer: EncoderLayer,
    nn.TransformerDecoderLayer: DecoderLayer,
    nn.TransformerEncoder: Encoder,
    nn.TransformerDecoder: Decoder,
}

# ── their names, our names ────────────────────────────────────────────────────────────────────

_ATTENTION_ENDS = (
    Row("in_proj_bias", ("w_q.bias", "w_k.bias", "w_v.bias"), THIRDS),
    Row("out_proj.{part}", "w_o.{part}"),
)
_ATTENTION = (
    Row("in_proj_weight", ("w_q.weight", "w_k.weight", "w_v.weight"), THIRDS),
    *_ATTENTION_ENDS,
)
# With a context of another width the three matrices differ in shape, and are not packed.
_WIDE_ATTENTION = (
    Row("q_proj_weight", "w_q.weight"),
    Row("k_proj_weight", "w_k.weight"),
    Row("v_proj_weight", "w_v.weight"),
    *_ATTENTION_ENDS,
)
_ENCODER_LAYER = (
    *under("self_attn.", "attention.", _ATTENTION),
    Row("linear1.{part}", "feed_forward.w_in.{part}"),
    Row("linear2.{part}", "feed_forward.w_out.{part}"),
    Row("norm1.{part}", "norms.0.{part}"),
    Row("norm2.{part}", "norms.1.{part}"),
)
_DECODER_LAYER = (
    *_ENCODER_LAYER,
    *under("multihead_attn.", "cross.", _ATTENTION),
    Row("norm3.{part}", "norms.2.{part}"),
)
_LAST_NORM = Row("norm.{part}", "norm.{part}")
_ROWS: dict[type[nn.Module], tuple[Row, ...]] = {
    MultiHeadAttention: _ATTENTION,
    EncoderLayer: _ENCODER_LAYER,
    DecoderLayer: _DECODER_LAYER,
    Encoder: (*under("layers.{layer}.", "layers.{layer}.", _ENCODER_LAYER), _LAST_NORM),
    Decoder: (*under("layers.{layer}.", "layers.{layer}.", _DECODER_LAYER), _LAST_NORM),
}

# PyTorch's norms lose their bias with `bias=False`; ours then have one that is 0 and stays 0.
_ZEROS = ("norms.{norm}.bias", "layers.{layer}.norms.{norm}.bias", "norm.bias")


def rows_of(module: nn.Module) -> tuple[Row, ...]:
    """The table of names for a module of ours."""
    if isinstance(module, MultiHeadAttention) and module.context_width != module.width:
        return _WIDE_ATTENTION
    return _ROWS[type(module)]


# ── from theirs to ours ───────────────────────────────────────────────────────────────────────


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
    if type(module) is not nn.Transformer:
        return _like(module)[0]
    encoder, their_encoder = _like(module.encoder, "encoder")
    decoder, their_decoder = _like(module.decoder, "decoder")
    twin = _around(their_encoder, their_decoder, module.d_model, module.nhead, module.batch_first)
    check_unchanged("from_torch()", module, twin)
    return encoder.train(module.training), decoder.train(module.training)


def _like(module: nn.Module, path: str = "") -> tuple[nn.Module, nn.Module]:
    """The module of ours like one of theirs at `path` in another, and a new one of theirs."""
    ours_kind = _COUNTERPARTS.get(type(module))
    if ours_kind is None:
        known = ", ".join(each.__name__ for each in (*_COUNTERPARTS, nn.Transformer))
        raise TypeError(
            f"from_torch(): {path or 'module'} must be one of torch.nn's {known}; got "
            f"{type(module).__name__}. A subclass may compute something else: convert its parts."
        )
    options = options_of_theirs(module)
    with torch.device("meta"):
        ours, twin = ours_with(ours_kind, options), theirs_with(type(module), options, module)
    check_unchanged("from_torch()", module, twin, path)
    state, whose = module.state_dict(keep_vars=True), f"nn.{type(module).__name__}"
    fill(ours, to_ours("from_torch()", whose, rows_of(ours), state, ours, zeros=_ZEROS))
    return ours.train(module.training), twin


def _around(
    encoder: nn.Module, decoder: nn.Module, width: int, heads: int, batch_first: bool
) -> nn.Transformer:
    """PyTorch's one around its two parts, whose weights it makes anew."""
    with torch.device("meta"):
        return nn.Transformer(
            width, heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=batch_first
        )


# ── from ours to theirs ───────────────────────────────────────────────────────────────────────


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
    theirs_kind = {ours: theirs for theirs, ours in _COUNTERPARTS.items()}.get(type(module))
    if theirs_kind is None:
        known = ", ".join(each.__name__ for each in _COUNTERPARTS.values())
        raise TypeError(
            f"to_torch(): module must be one of regard.nn's {known}; got "
            f"{type(module).__name__}. PyTorch has no counterpart."
        )
    options = options_of_ours(module)
    with torch.device("meta"):
        theirs = theirs_with(theirs_kind, options)
        twin = ours_with(type(module), options, getattr(module, "causal", True))
    check_unchanged("to_torch()", module, twin)
    state, whose = module.state_dict(keep_vars=True), f"nn.{theirs_kind.__name__}"
    fill(theirs, to_theirs("to_torch()", whose, rows_of(module), state, theirs, zeros=_ZEROS))
    return theirs.train(module.training)


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
    whole = _around(nn.Module(), nn.Module(), encoder.config.width, encoder.config.heads, True)
    whole.encoder, whole.decoder = inner, outer
    return whole.train(encoder.training)
