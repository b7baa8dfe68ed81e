"""What PyTorch's fast paths do otherwise than the slow ones, which a watched model takes."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

__all__ = ["left_out", "without_hint"]

_ENCODER = inspect.signature(nn.TransformerEncoder.forward)
_LAYER = inspect.signature(nn.TransformerEncoderLayer.forward)
_ATTENTION = inspect.signature(nn.MultiheadAttention.forward)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def without_hint(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], watch: TorchFunctionMode
) -> Arguments:
    """What a layer or attention is called with, without `is_causal` if a fast path is for it, which
    goes by the mask alone.

    `watch` is our own mode, which alone keeps it from that path.
    """
    is_layer = isinstance(module, nn.TransformerEncoderLayer)
    kind = nn.TransformerEncoderLayer if is_layer else nn.MultiheadAttention
    if type(module).forward is not kind.forward:
        return args, kwargs
    if not (kwargs.get("is_causal") or len(args) > (3 if is_layer else 7)):
        return args, kwargs
    given = (_LAYER if is_layer else _ATTENTION).bind(module, *args, **kwargs).arguments
    goes = _layer_goes(module, given["src"], watch) if is_layer else _attention_goes(given, watch)
    if not goes:
        return args, kwargs
    del given["self"]
    return (), {**given, "is_causal": False}


def _attention_goes(given: dict[str, Any], watch: TorchFunctionMode) -> bool:
    attention, query = given["self"], given["query"]
    masks = (given.get("attn_mask"), given.get("key_padding_mask"))
    return (
        query is given["key"] is given["value"]
        and not any(x is not None and x.is_floating_point() for x in masks)
        and attention.bias_k is None
        and not attention.add_zero_attn
        and _goes(attention, query, (), watch)
    )


def _layer_goes(layer: Any, src: Tensor, watch: TorchFunctionMode) -> bool:
    weights = (
        layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias,
        layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias,
    )  # fmt: skip
    return (
        bool(layer.activation_relu_or_gelu)
        and layer.norm1.eps == layer.norm2.eps
        and not any(m._forward_hooks or m._forward_pre_hooks for m in layer.modules())
        and not layer.training
        and _goes(layer.self_attn, src, weights, watch)
    )


def _goes(
    attention: Any, query: Tensor, weights: tuple[Any, ...], watch: TorchFunctionMode
) -> bool:
    """What the fast paths of a layer and of attention ask for both."""
    own = (
        query, attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight,
        attention.out_proj.bias,
    )  # fmt: skip
    return (
        torch.backends.mha.get_fastpath_enabled()
        and query.dim() == 3
        and not attention.training
        and attention.num_heads % 2 == 0
        and attention.batch_first
        and attention.in_proj_bias is not None
        and attention._qkv_same_embed_dim
        and not torch.is_autocast_enabled()
        and _may_go((*own, *weights), watch)
    )


def _may_go(tensors: tuple[Any, ...], watch: TorchFunctionMode) -> bool:
    """Does the fast path take these: without a gradient, and with nobody who looks but us?"""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return False
    if any(mode is not watch for mode in _get_current_function_mode_stack()):
        return False
    return all(type(x) is Tensor or type(x) is nn.Parameter for x in tensors)


def left_out(
    encoder: nn.TransformerEncoder,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    watch: TorchFunctionMode,
) -> Tensor | None:
    """The places (B, N) that a call leaves out if nobody watches; None if it computes them all.

    Then PyTorch packs the real tokens into a nested tensor, which attention has no padding in, and
    fills up with 0 before the last norm.
    """
    if type(encoder).forward is not nn.TransformerEncoder.forward:
        return None
    try:
        given = _ENCODER.bind(encoder, *args, **kwargs).arguments
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
    ):
        return None
    weights = (
        src, first.self_attn.in_proj_weight, first.self_attn.in_proj_bias,
        first.self_attn.out_proj.weight, first.self_attn.out_proj.bias, first.norm1.weight,
        first.norm1.bias, first.norm2.weight, first.norm2.bias, first.linear1.weight,
        first.linear1.bias, first.linear2.weight, first.linear2.bias,
    )  # fmt: skip
    if not _may_go(weights, watch):
        return None
    padded = mask if mask.dtype == torch.bool else mask != 0
    counts = (~padded).sum(1, keepdim=True)
    behind = torch.arange(src.shape[1], device=src.device) >= counts
    if getattr(encoder, "mask_check", True) and not torch.equal(behind, padded):
        return None
    return behind
