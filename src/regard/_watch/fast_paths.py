"""What PyTorch's fast paths do otherwise than the slow ones, which a watched model takes."""

from __future__ import annotations

import inspect
import threading
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from regard._watch.modules import Hooks, ModuleCall

_ENCODER = inspect.signature(nn.TransformerEncoder.forward)
_LAYER = inspect.signature(nn.TransformerEncoderLayer.forward)
_ATTENTION = inspect.signature(nn.MultiheadAttention.forward)


def add_fast_paths(hooks: Hooks, model: nn.Module, watch: TorchFunctionMode) -> None:
    """Have PyTorch's encoders, layers and attention compute what they would on a fast path.

    `watch` is our own mode, which alone keeps them from it.
    """
    padding = _Padding()
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention | nn.TransformerEncoderLayer):
            hooks.add(module, partial(_without_hint, watch))
        if isinstance(module, nn.TransformerEncoder):
            hooks.add(module, partial(_without_padding, watch, padding))
            if module.norm is not None:
                hooks.add(module.norm, partial(_norm_of_zeros, padding))


class _Padding(threading.local):
    """What an encoder leaves out (B, N), by the id of the norm behind its layers."""

    def __init__(self) -> None:
        self.of: dict[int, Tensor] = {}


def _without_hint(watch: TorchFunctionMode, call: ModuleCall) -> Any:
    """Around a layer or attention: `is_causal` is not followed by a fast path, which goes by the
    mask alone."""
    is_layer = isinstance(call.module, nn.TransformerEncoderLayer)
    kind = nn.TransformerEncoderLayer if is_layer else nn.MultiheadAttention
    has_hint = call.kwargs.get("is_causal") or len(call.args) > (3 if is_layer else 7)
    if has_hint and type(call.module).forward is kind.forward:
        signature = _LAYER if is_layer else _ATTENTION
        given = signature.bind(call.module, *call.args, **call.kwargs).arguments
        if _layer_goes(given, watch) if is_layer else _attention_goes(given, watch):
            del given["self"]
            call.args, call.kwargs = (), {**given, "is_causal": False}
    return call.run()


def _without_padding(watch: TorchFunctionMode, padding: _Padding, call: ModuleCall) -> Any:
    """Around an encoder: what it packs away as padding is 0 behind the last layer."""
    left_out = _left_out(call, watch)
    if left_out is None:
        return call.run()
    norm = cast("Any", call.module).norm
    src = call.args[0] if call.args else call.kwargs["src"]
    call.args, call.kwargs = (src,), {"src_key_padding_mask": left_out}
    if norm is None:
        return _emptied(call.run(), left_out)
    try:
        padding.of[id(norm)] = left_out
        return call.run()
    finally:
        padding.of.pop(id(norm), None)


def _norm_of_zeros(padding: _Padding, call: ModuleCall) -> Any:
    left_out = padding.of.pop(id(call.module), None)
    if left_out is not None:
        call.args = _emptied(call.args[0], left_out), *call.args[1:]
    return call.run()


def _emptied(x: Tensor, padding: Tensor) -> Tensor:
    return x.masked_fill(padding[..., None], 0.0)


def _attention_goes(given: dict[str, Any], watch: TorchFunctionMode) -> bool:
    attention, query = given["self"], given["query"]
    masks = (given.get("attn_mask"), given.get("key_padding_mask"))
    return (
        query is given["key"] is given["value"]
        and not any(x is not None and x.is_floating_point() for x in masks)
        and attention.bias_k is None
        and not attention.add_zero_attn
        and _may_attend(attention, query)
        and _may_go((query, *_attention_weights(attention)), watch)
    )


def _layer_goes(given: dict[str, Any], watch: TorchFunctionMode) -> bool:
    layer, src = given["self"], given["src"]
    return (
        bool(layer.activation_relu_or_gelu)
        and layer.norm1.eps == layer.norm2.eps
        and not any(m._forward_hooks or m._forward_pre_hooks for m in layer.modules())
        and not layer.training
        and _may_attend(layer.self_attn, src)
        and _may_go((src, *_layer_weights(layer)), watch)
    )


def _may_attend(attention: Any, query: Tensor) -> bool:
    """What the fast paths of a layer and of attention ask for both."""
    return (
        torch.backends.mha.get_fastpath_enabled()
        and query.dim() == 3
        and not attention.training
        and attention.num_heads % 2 == 0
        and attention.batch_first
        and attention.in_proj_bias is not None
        and attention._qkv_same_embed_dim
        and not torch.is_autocast_enabled()
    )


def _may_go(tensors: tuple[Any, ...], watch: TorchFunctionMode) -> bool:
    """Does a fast path take these: without a gradient, and with nobody who looks but us?"""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return False
    if any(mode is not watch for mode in _get_current_function_mode_stack()):
        return False
    return all(type(x) is Tensor or type(x) is nn.Parameter for x in tensors)


def _attention_weights(attention: Any) -> tuple[Any, ...]:
    projections = attention.in_proj_weight, attention.in_proj_bias
    return *projections, attention.out_proj.weight, attention.out_proj.bias


def _layer_weights(layer: Any) -> tuple[Any, ...]:
    parts = (layer.norm1, layer.norm2, layer.linear1, layer.linear2)
    others = (x for part in parts for x in (part.weight, part.bias))
    return *_attention_weights(layer.self_attn), *others


def _left_out(call: ModuleCall, watch: TorchFunctionMode) -> Tensor | None:
    """The places (B, N) that an encoder leaves out if nobody watches; None if it computes them all.

    Then PyTorch packs the real tokens into a nested tensor, which attention has no padding in, and
    fills up with 0 before the last norm.
    """
    encoder: Any = call.module
    if type(encoder).forward is not nn.TransformerEncoder.forward:
        return None
    try:
        given = _ENCODER.bind(encoder, *call.args, **call.kwargs).arguments
    except TypeError:  # which the call itself says better
        return None
    src, mask = given.get("src"), given.get("src_key_padding_mask")
    if not isinstance(src, Tensor) or not isinstance(mask, Tensor):
        return None
    first: Any = encoder.layers[0]
    if (
        not torch.backends.mha.get_fastpath_enabled()
        or not getattr(encoder, "use_nested_tensor", False)
        or first.training
        or src.dim() != 3
        or src.is_nested
        or given.get("mask") is not None
        or torch.is_autocast_enabled()
        or mask.shape != src.shape[:2]
        or not _may_go((src, *_layer_weights(first)), watch)
    ):
        return None
    padded = mask if mask.dtype == torch.bool else mask != 0
    counts = (~padded).sum(1, keepdim=True)
    behind = torch.arange(src.shape[1], device=src.device) >= counts
    if getattr(encoder, "mask_check", True) and not torch.equal(behind, padded):
        return None
    return behind
