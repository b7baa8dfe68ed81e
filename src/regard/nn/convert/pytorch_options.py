"""Options of PyTorch's modules and of ours: read from either, refused, and made into either."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from regard._arguments import WrongType
from regard.nn._places import Positions
from regard.nn.attention import MultiHeadAttention
from regard.nn.config import StackConfig
from regard.nn.feed_forward import Activation
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.residual import PostNorm, PreNorm
from regard.nn.stacks import Decoder, Encoder

Options = dict[str, Any] | StackConfig  # of attention; of layers and stacks
Layer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer

# Functions all, "tanh" too: for the module nn.GELU PyTorch's fast path always takes the exact one.
_ACTIVATIONS: dict[Activation, Any] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


# ── reading theirs ────────────────────────────────────────────────────────────────────────────


def options_of_theirs(module: nn.Module) -> Options:
    """What a module of PyTorch was made with. Raises ValueError for what ours have not.

    They are read from its first parts; whether the others agree is seen by comparing it with a twin
    of these options.
    """
    if isinstance(module, nn.MultiheadAttention):
        return _attention_options(module)
    if isinstance(module, Layer):
        return _layer_config(module)
    assert isinstance(module, nn.TransformerEncoder | nn.TransformerDecoder)
    if not module.layers:
        raise ValueError("from_torch(): layers must be at least one; got none.")
    first: Any = module.layers[0]
    kind = nn.TransformerEncoderLayer
    if isinstance(module, nn.TransformerDecoder):
        kind = nn.TransformerDecoderLayer
    _need_type("layers.0", kind, first)
    config = _layer_config(first, "layers.0.")
    return replace(config, layers=len(module.layers), final_norm=module.norm is not None)


def _attention_options(module: nn.MultiheadAttention, path: str = "") -> dict[str, Any]:
    biases: list[Tensor | None] = [module.bias_k, module.bias_v]
    _need_equal(f"{path}add_bias_kv", False, biases != [None, None])
    _need_equal(f"{path}add_zero_attn", False, module.add_zero_attn)
    remedy = "Here keys and values come from one context."
    _need_equal(f"{path}vdim", module.kdim, module.vdim, remedy)
    return {
        "width": module.embed_dim,
        "heads": module.num_heads,
        "context_width": module.kdim,
        "bias": "in_proj_bias" in dict(module.named_parameters()),
        "dropout": module.dropout,
    }


def _layer_config(layer: Layer, path: str = "") -> StackConfig:
    """A layer as a stack of one without a norm at its end."""
    for name, kind in (
        ("self_attn", nn.MultiheadAttention),
        ("linear1", nn.Linear),
        ("norm1", nn.LayerNorm),
        ("dropout", nn.Dropout),
        ("dropout1", nn.Dropout),
    ):
        _need_type(f"{path}{name}", kind, getattr(layer, name))
    options = _attention_options(layer.self_attn, f"{path}self_attn.")
    return StackConfig(
        width=options["width"],
        heads=options["heads"],
        hidden=layer.linear1.out_features,
        activation=_activation(f"{path}activation", layer.activation),
        norm_eps=layer.norm1.eps,
        residual=PreNorm() if layer.norm_first else PostNorm(),
        bias="bias" in dict(layer.linear1.named_parameters()),
        attention_bias=options["bias"],
        final_norm=False,
        dropout=layer.dropout1.p,
        attention_dropout=options["dropout"],
        hidden_dropout=layer.dropout.p,
    )


def _activation(option: str, found: Any) -> Activation:
    approximate = None
    if type(found) is nn.GELU:
        approximate = found.approximate
    elif isinstance(found, partial) and found.func is functional.gelu and not found.args:
        approximate = found.keywords.get("approximate", "none")
    known: dict[Any, Activation] = {nn.ReLU: "relu", nn.SiLU: "silu"}
    known |= {function: name for name, function in _ACTIVATIONS.items()}
    known |= {"none": "gelu", "tanh": "gelu_tanh"}
    for each, name in known.items():
        if each in (type(found), approximate) or each is found:
            return name
    name = getattr(found, "__name__", type(found).__name__)
    raise ValueError(
        f"from_torch(): {option} must be relu, gelu or silu; got {name}. regard.nn has no "
        "counterpart of other activations."
    )


def _need_equal(option: str, expected: object, found: object, remedy: str = "") -> None:
    """Raise ValueError if an option of theirs is not what it must be for us to have one."""
    if found != expected:
        raise ValueError(
            f"from_torch(): {option} must be {expected!r}; got {found!r}. "
            f"{remedy or 'regard.nn has no counterpart.'}"
        )


def _need_type(option: str, expected: type, found: object) -> None:
    """Raise TypeError if a part of theirs is of another type: it may compute something else."""
    if type(found) is not expected:
        raise WrongType(
            f"from_torch(): {option} must be a {expected.__name__}; got "
            f"{type(found).__name__}. regard.nn has no counterpart."
        )


# ── reading ours ──────────────────────────────────────────────────────────────────────────────


def options_of_ours(module: nn.Module) -> Options:
    """What a module of ours was made with. Raises ValueError for what PyTorch has not.

    Whether its parts are still of these options is seen by comparing it with a twin.
    """
    own: Any = module if isinstance(module, MultiHeadAttention) else module.config
    heads, head_width = own.heads, own.head_width
    must: list[tuple[str, str, bool, object]] = [
        ("kv_heads", f"{heads}, as many as heads", own.kv_heads == heads, own.kv_heads),
        ("head_width", "width / heads", head_width * heads == own.width, head_width),
        (
            "value_width",
            f"{head_width}, as head_width",
            own.value_width == head_width,
            own.value_width,
        ),
        ("split", "'whole'", own.split == "whole", own.split),
        ("value_rank", "None", own.value_rank is None, own.value_rank),
    ]
    if isinstance(module, MultiHeadAttention):
        must += [
            ("output", "True", module.w_o is not None, False),
            ("scale", "None, which is 1/√d_k", own.scale is None, own.scale),
        ]
    else:
        joined = isinstance(own.residual, PostNorm | PreNorm)
        known = own.activation in _ACTIVATIONS
        must += [
            ("norm", "'layer'", own.norm == "layer", own.norm),
            ("activation", f"one of {', '.join(_ACTIVATIONS)}", known, own.activation),
            ("residual", "PostNorm() or PreNorm()", joined, own.residual),
            ("attention_bias", f"{own.bias}, as bias", own.attention_bias == own.bias, False),
            ("window", "None", own.window is None, own.window),
        ]
    if isinstance(module, DecoderLayer | Decoder):
        must.append(("cross", "True", bool(module.cross), False))
    if not isinstance(module, EncoderLayer | DecoderLayer):
        has_none = type(module.positions) is Positions
        must.append(("position", "NoPosition()", has_none, own.position))
    for name, expected, holds, found in must:
        if not holds:
            raise ValueError(
                f"to_torch(): {name} must be {expected}; got {found!r}. PyTorch has no counterpart."
            )
    if isinstance(module, MultiHeadAttention):
        names = ("width", "heads", "context_width", "dropout")
        return {name: getattr(module, name) for name in names} | {
            "bias": module.w_q.bias is not None
        }
    return own


# ── making either ─────────────────────────────────────────────────────────────────────────────


def ours_with(kind: type[nn.Module], options: Any, causal: bool = True) -> Any:
    """A module of ours with these options."""
    if kind is MultiHeadAttention:
        return MultiHeadAttention(**options)
    more: dict[str, bool] = {"causal": causal} if kind in (Decoder, DecoderLayer) else {}
    if kind in (Encoder, Decoder):
        more["adds_position"] = False
    return kind(options, **more)


def theirs_with(kind: type[nn.Module], options: Any, like: Any = None) -> Any:
    """A module of PyTorch with these options; `like` is another, for what ours have no word for.

    Nothing in an encoder turns padding into nested tensors.
    """
    if kind is nn.MultiheadAttention:
        return nn.MultiheadAttention(
            options["width"],
            options["heads"],
            dropout=options["dropout"],
            bias=options["bias"],
            kdim=options["context_width"],
            vdim=options["context_width"],
            batch_first=like is None or like.batch_first,
        )
    if issubclass(kind, Layer):
        return _their_layer(kind, options, like)
    first = None if like is None else like.layers[0]
    norm = None
    if options.final_norm:
        norm = nn.LayerNorm(options.width, eps=options.norm_eps, bias=options.bias)
    if kind is nn.TransformerEncoder:
        layer = _their_layer(nn.TransformerEncoderLayer, options, first)
        return nn.TransformerEncoder(layer, options.layers, norm, enable_nested_tensor=False)
    layer = _their_layer(nn.TransformerDecoderLayer, options, first)
    return nn.TransformerDecoder(layer, options.layers, norm)


def _their_layer(kind: Any, config: StackConfig, like: Any) -> Any:
    activation = _ACTIVATIONS[config.activation] if like is None else like.activation
    if isinstance(activation, nn.Module):
        theirs, activation = activation, type(activation)()
        for name in ("approximate", "inplace"):
            if hasattr(theirs, name):
                setattr(activation, name, getattr(theirs, name))
    layer = kind(
        config.width,
        config.heads,
        config.hidden,
        config.dropout,
        activation,
        config.norm_eps,
        like is None or like.self_attn.batch_first,
        isinstance(config.residual, PreNorm),
        config.bias,
    )
    for part in layer.children():
        if isinstance(part, nn.MultiheadAttention) and config.attention_dropout is not None:
            part.dropout = config.attention_dropout
    if config.hidden_dropout is not None:
        layer.dropout.p = config.hidden_dropout
    return layer
