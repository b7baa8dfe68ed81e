"""Options of PyTorch's modules and of ours: read from either, refused, and made into either."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from regard.nn._places import Positions
from regard.nn.attention import LowRankValue, MultiHeadAttention
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
    """What a module of PyTorch was made with. Raises ValueError or TypeError for what ours lack."""
    match module:
        case nn.MultiheadAttention():
            return _attention_options(module)
        case nn.TransformerEncoder():
            return _stack_config(module, nn.TransformerEncoderLayer)
        case nn.TransformerDecoder():
            return _stack_config(module, nn.TransformerDecoderLayer)
        case _:
            assert isinstance(module, Layer)
            return _layer_config(module)


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
    attentions, norms = ["self_attn"], ["norm1", "norm2"]
    dropouts = ["dropout1", "dropout2"]
    if isinstance(layer, nn.TransformerDecoderLayer):
        attentions.append("multihead_attn")
        norms.append("norm3")
        dropouts.append("dropout3")
    for names, kind in (
        (attentions, nn.MultiheadAttention),
        (["linear1", "linear2"], nn.Linear),
        (norms, nn.LayerNorm),
        (["dropout", *dropouts], nn.Dropout),
    ):
        for name in names:
            _need_type(f"{path}{name}", kind, getattr(layer, name))
    width, eps = layer.self_attn.embed_dim, layer.norm1.eps
    options = _attention_options(layer.self_attn, f"{path}self_attn.")
    for name in attentions:
        found = _attention_options(getattr(layer, name), f"{path}{name}.")
        _need_equal(f"{path}{name}.kdim", width, found["context_width"])
        for option in ("width", "heads", "bias", "dropout"):
            _need_equal(f"{path}{name}: its {option}", options[option], found[option])
    for name in norms:
        _check_norm(f"{path}{name}", getattr(layer, name), width, eps)
    for name in dropouts:
        _need_equal(f"{path}{name}.p", layer.dropout1.p, getattr(layer, name).p)
    return StackConfig(
        width=width,
        heads=layer.self_attn.num_heads,
        hidden=layer.linear1.out_features,
        activation=_activation(f"{path}activation", layer.activation),
        norm_eps=eps,
        residual=PreNorm() if layer.norm_first else PostNorm(),
        bias="bias" in dict(layer.linear1.named_parameters()),
        attention_bias=options["bias"],
        final_norm=False,
        dropout=layer.dropout1.p,
        attention_dropout=layer.self_attn.dropout,
        hidden_dropout=layer.dropout.p,
    )


def _stack_config(
    stack: nn.TransformerEncoder | nn.TransformerDecoder, kind: type[Layer]
) -> StackConfig:
    """A stack: all its layers are alike, and there may be a norm at its end."""
    if not stack.layers:
        raise ValueError("from_torch(): layers must be at least one; got none.")
    found: list[StackConfig] = []
    for n, layer in enumerate(stack.layers):
        _need_type(f"layers.{n}", kind, layer)
        assert isinstance(layer, Layer)
        found.append(_layer_config(layer, f"layers.{n}."))
    first = found[0]
    for n, other in enumerate(found):
        for name in (field.name for field in fields(first)):
            wanted, value = getattr(first, name), getattr(other, name)
            _need_equal(f"layers.{n}: its {name}", wanted, value, "All layers must be alike.")
    if stack.norm is not None:
        _check_norm("norm", stack.norm, first.width, first.norm_eps)
    return replace(first, layers=len(found), final_norm=stack.norm is not None)


def _check_norm(option: str, norm: object, width: int, eps: float) -> None:
    _need_type(option, nn.LayerNorm, norm)
    assert isinstance(norm, nn.LayerNorm)
    _need_equal(f"{option}.normalized_shape", (width,), tuple(norm.normalized_shape))
    _need_equal(f"{option}.eps", eps, norm.eps, "All norms must be alike.")
    _need_equal(f"{option}.elementwise_affine", True, norm.elementwise_affine)


def _activation(option: str, found: Any) -> Activation:
    if type(found) in (nn.ReLU, nn.SiLU):
        return "relu" if type(found) is nn.ReLU else "silu"
    approximate = None
    if type(found) is nn.GELU:
        approximate = found.approximate
    elif isinstance(found, partial) and found.func is functional.gelu and not found.args:
        approximate = found.keywords.get("approximate", "none")
    if approximate is not None:
        if approximate != "tanh":
            _need_equal(f"{option}.approximate", "none", approximate)
        return "gelu" if approximate == "none" else "gelu_tanh"
    for name, known in _ACTIVATIONS.items():
        if found is known:
            return name
    name = getattr(found, "__name__", type(found).__name__)
    raise ValueError(
        f"from_torch(): {option} must be relu, gelu or silu; got {name}. regard.nn has no "
        "counterpart of other activations."
    )


# ── reading ours ──────────────────────────────────────────────────────────────────────────────


def options_of_ours(module: nn.Module) -> Options:
    """What a module of ours was made with. Raises ValueError for what PyTorch has not."""
    match module:
        case MultiHeadAttention():
            _check_attention(module, "", module.heads)
            return {
                "width": module.width,
                "heads": module.heads,
                "context_width": module.context_width,
                "bias": module.w_q.bias is not None,
                "dropout": module.dropout,
            }
        case Encoder() | Decoder():
            adds_nothing = type(module.positions) is Positions
            _need_of_ours("position", "NoPosition()", adds_nothing, module.config.position)
            kind = EncoderLayer if isinstance(module, Encoder) else DecoderLayer
            for n, layer in enumerate(module.layers):
                found = type(layer)
                _need_of_ours(f"layers.{n}", f"a {kind.__name__}", found is kind, found.__name__)
                options_of_ours(layer)
            return module.config
        case _:
            assert isinstance(module, EncoderLayer | DecoderLayer)
            if isinstance(module, DecoderLayer):
                _need_of_ours("cross", "True", module.cross is not None, False)
            _check_config(module.config)
            _check_attention(module.attention, "", module.config.heads)
            if isinstance(module, DecoderLayer) and module.cross is not None:
                _check_attention(module.cross, "cross.", module.config.heads)
            return module.config


def _check_attention(module: MultiHeadAttention, path: str, heads: int) -> None:
    width, head_width = module.width, module.head_width
    position = getattr(module.positions, "position", module.positions)
    for name, expected, holds, found in (
        ("heads", f"{heads}, as in the configuration", module.heads == heads, module.heads),
        ("kv_heads", f"{heads}, as many as heads", module.kv_heads == heads, module.kv_heads),
        ("head_width", "width / heads", head_width * heads == width, head_width),
        (
            "value_width",
            f"{head_width}, as head_width",
            module.value_width == head_width,
            module.value_width,
        ),
        ("split", "'whole'", module.split == "whole", module.split),
        ("value_rank", "None", not isinstance(module.w_v, LowRankValue), "a rank"),
        ("output", "True", module.w_o is not None, False),
        ("position", "NoPosition()", type(module.positions) is Positions, position),
        ("scale", "None, which is 1/√d_k", module.scale is None, module.scale),
    ):
        _need_of_ours(path + name, expected, holds, found)


def _check_config(config: StackConfig) -> None:
    for name, expected, holds in (
        ("norm", "'layer'", config.norm == "layer"),
        ("activation", f"one of {', '.join(_ACTIVATIONS)}", config.activation in _ACTIVATIONS),
        ("residual", "PostNorm() or PreNorm()", isinstance(config.residual, PostNorm | PreNorm)),
        ("attention_bias", f"{config.bias}, as bias", config.attention_bias == config.bias),
        ("window", "None", config.window is None),
    ):
        _need_of_ours(name, expected, holds, getattr(config, name))


# ── what must hold ────────────────────────────────────────────────────────────────────────────


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
        raise TypeError(
            f"from_torch(): {option} must be a {expected.__name__}; got "
            f"{type(found).__name__}. regard.nn has no counterpart."
        )


def _need_of_ours(option: str, expected: str, holds: bool, found: object) -> None:
    if not holds:
        raise ValueError(
            f"to_torch(): {option} must be {expected}; got {found!r}. PyTorch has no counterpart."
        )


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
