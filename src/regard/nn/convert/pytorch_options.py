"""What PyTorch's modules were made with, as descriptions of ours; what is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from regard.nn.config import StackConfig
from regard.nn.feed_forward import Activation
from regard.nn.residual import PostNorm, PreNorm

__all__ = ["attention_options", "layer_config", "need", "stack_config"]

Layer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer

# Functions, and classes of modules that have no options.
_ACTIVATIONS: list[tuple[Any, Activation]] = [
    (functional.relu, "relu"),
    (nn.ReLU, "relu"),
    (functional.gelu, "gelu"),
    (functional.silu, "silu"),
    (nn.SiLU, "silu"),
]


def need(option: str, expected: object, found: object, remedy: str = "") -> None:
    """Raise ValueError if an option is not what it must be for us to have a counterpart."""
    if found != expected:
        raise ValueError(
            f"from_torch(): {option} must be {expected!r}; got {found!r}. "
            f"{remedy or 'regard.nn has no counterpart.'}"
        )


def need_type(option: str, expected: type, found: object) -> None:
    """Raise TypeError if a part is of another type: it may compute something else."""
    if type(found) is not expected:
        raise TypeError(
            f"from_torch(): {option} must be a {expected.__name__}; got "
            f"{type(found).__name__}. regard.nn has no counterpart."
        )


def attention_options(module: nn.MultiheadAttention, path: str = "") -> dict[str, Any]:
    """What `MultiHeadAttention` is made with; `path` is where the module is, for errors."""
    need_type(path.rstrip(".") or "module", nn.MultiheadAttention, module)
    biases: list[Tensor | None] = [module.bias_k, module.bias_v]
    need(f"{path}add_bias_kv", False, biases != [None, None])
    need(f"{path}add_zero_attn", False, module.add_zero_attn)
    need(f"{path}vdim", module.kdim, module.vdim, "Here keys and values come from one context.")
    return {
        "width": module.embed_dim,
        "heads": module.num_heads,
        "context_width": module.kdim,
        "bias": "in_proj_bias" in dict(module.named_parameters()),
        "dropout": module.dropout,
    }


def layer_config(layer: Layer, path: str = "") -> StackConfig:
    """What a layer is made with, as a stack of one without a norm at its end."""
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
            need_type(f"{path}{name}", kind, getattr(layer, name))
    width, eps = layer.self_attn.embed_dim, layer.norm1.eps
    options = attention_options(layer.self_attn, f"{path}self_attn.")
    for name in attentions:
        found = attention_options(getattr(layer, name), f"{path}{name}.")
        need(f"{path}{name}.kdim", width, found["context_width"])
        for option in ("width", "heads", "bias", "dropout"):
            need(f"{path}{name}: its {option}", options[option], found[option])
    for name in norms:
        check_norm(f"{path}{name}", getattr(layer, name), width, eps)
    for name in dropouts:
        need(f"{path}{name}.p", layer.dropout1.p, getattr(layer, name).p)
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


def stack_config(
    stack: nn.TransformerEncoder | nn.TransformerDecoder, kind: type[Layer]
) -> StackConfig:
    """What a stack is made with: all its layers are alike, and there may be a norm at its end."""
    if not stack.layers:
        raise ValueError("from_torch(): layers must be at least one; got none.")
    found: list[StackConfig] = []
    for n, layer in enumerate(stack.layers):
        need_type(f"layers.{n}", kind, layer)
        assert isinstance(layer, Layer)
        found.append(layer_config(layer, f"layers.{n}."))
    first = found[0]
    for n, other in enumerate(found):
        for name in (field.name for field in fields(first)):
            wanted, value = getattr(first, name), getattr(other, name)
            need(f"layers.{n}: its {name}", wanted, value, "All layers must be alike.")
    if stack.norm is not None:
        check_norm("norm", stack.norm, first.width, first.norm_eps)
    return replace(first, layers=len(found), final_norm=stack.norm is not None)


def check_norm(option: str, norm: object, width: int, eps: float) -> None:
    """Raise TypeError or ValueError for a norm that is not like the first."""
    need_type(option, nn.LayerNorm, norm)
    assert isinstance(norm, nn.LayerNorm)
    need(f"{option}.normalized_shape", (width,), tuple(norm.normalized_shape))
    need(f"{option}.eps", eps, norm.eps, "All norms must be alike.")
    need(f"{option}.elementwise_affine", True, norm.elementwise_affine)


def _activation(option: str, found: object) -> Activation:
    for known, name in _ACTIVATIONS:
        if found is known or type(found) is known:
            return name
    if type(found) is nn.GELU:
        return _gelu(option, found.approximate)
    if isinstance(found, partial) and found.func is functional.gelu and not found.args:
        return _gelu(option, found.keywords.get("approximate", "none"))
    name = getattr(found, "__name__", type(found).__name__)
    raise ValueError(
        f"from_torch(): {option} must be relu, gelu or silu; got {name}. regard.nn has no "
        "counterpart of other activations."
    )


def _gelu(option: str, approximate: str) -> Activation:
    if approximate not in ("none", "tanh"):
        need(f"{option}.approximate", "none", approximate)
    return "gelu" if approximate == "none" else "gelu_tanh"
