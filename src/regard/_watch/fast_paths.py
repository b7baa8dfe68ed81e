"""What PyTorch's fast paths do otherwise than the slow ones, which a watched model takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from regard._attention.eager import PLAIN
from regard._watch.modules import Function, Hook, Modules

_KINDS = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
_signature = cache(inspect.signature)


def fast_paths(modules: Modules, watch: TorchFunctionMode) -> Iterator[Hook]:
    """Hooks that have PyTorch's encoders, layers and attention compute what they would on a fast
    path. `watch` is our own mode, which alone keeps them from it."""
    for module in (each.module for each in modules.by_id.values()):
        kind = next((kind for kind in _KINDS if isinstance(module, kind)), None)
        if kind is not None and type(module).forward is kind.forward:
            hook = _without_padding if kind is nn.TransformerEncoder else _without_hint
            yield module, partial(hook, watch)


def _without_hint(watch: TorchFunctionMode, run: Function, /, *args: Any, **kwargs: Any) -> Any:
    """Around a layer or attention: `is_causal` is not followed by a fast path, which goes by the
    mask alone."""
    if kwargs.get("is_causal") or len(args) > 4:
        given = _arguments(*args, **kwargs)
        if given.get("is_causal") and _goes_fast(given, watch):
            return run(given.pop("self"), **{**given, "is_causal": False})
    return run(*args, **kwargs)


def _without_padding(watch: TorchFunctionMode, run: Function, /, *args: Any, **kwargs: Any) -> Any:
    """Around an encoder: what it packs away as padding is 0 behind the last layer, and what the
    norm there makes of that."""
    given = _arguments(*args, **kwargs)
    left_out = _left_out(given, watch) if given else None
    if left_out is None:
        return run(*args, **kwargs)
    encoder = given["self"]
    out: Tensor = run(encoder, given["src"], src_key_padding_mask=left_out)
    nothing = out.new_zeros(1, 1, out.shape[2])
    if encoder.norm is not None:
        nothing = encoder.norm.forward(nothing)
    return torch.where(left_out[..., None], nothing, out)


def _arguments(module: nn.Module, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """By name; none if they are wrong, which the call itself says better."""
    try:
        return _signature(type(module).forward).bind(module, *args, **kwargs).arguments
    except TypeError:
        return {}


def _left_out(given: dict[str, Any], watch: TorchFunctionMode) -> Tensor | None:
    """The places (B, N) that an encoder leaves out if nobody watches; None if it computes them all.

    Then PyTorch packs the real tokens into a nested tensor, which attention has no padding in, and
    fills up with 0 before the last norm.
    """
    encoder, src, mask = given["self"], given["src"], given.get("src_key_padding_mask")
    if not isinstance(src, Tensor) or not isinstance(mask, Tensor):
        return None
    if (
        not getattr(encoder, "use_nested_tensor", False)
        or src.is_nested
        or given.get("mask") is not None
        or mask.shape != src.shape[:2]
        or not _may_go_fast(encoder.layers[0], src, watch)
    ):
        return None
    padded = mask if mask.dtype == torch.bool else mask != 0
    counts = (~padded).sum(1, keepdim=True)
    behind = torch.arange(src.shape[1], device=src.device) >= counts
    if getattr(encoder, "mask_check", True) and not torch.equal(behind, padded):
        return None
    return behind


def _goes_fast(given: dict[str, Any], watch: TorchFunctionMode) -> bool:
    """Does PyTorch take a fast path for these arguments of a layer, or of attention?"""
    module = given["self"]
    is_layer = isinstance(module, nn.TransformerEncoderLayer)
    x, attention = (given["src"], module.self_attn) if is_layer else (given["query"], module)
    if (
        attention.training
        or attention.num_heads % 2
        or not attention.batch_first
        or attention.in_proj_bias is None
        or not attention._qkv_same_embed_dim
        or not _may_go_fast(module, x, watch)
    ):
        return False
    if is_layer:
        has_hooks = any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
        is_same = module.norm1.eps == module.norm2.eps
        return bool(module.activation_relu_or_gelu) and is_same and not has_hooks
    masks = (given.get("attn_mask"), given.get("key_padding_mask"))
    return (
        x is given["key"] is given["value"]
        and not any(mask is not None and mask.is_floating_point() for mask in masks)
        and attention.bias_k is None
        and not attention.add_zero_attn
    )


def _may_go_fast(module: nn.Module, x: Tensor, watch: TorchFunctionMode) -> bool:
    """Are fast paths on, with no gradient wanted and nobody who looks but us?"""
    tensors = (x, *module.parameters())
    return (
        torch.backends.mha.get_fastpath_enabled()
        and not module.training
        and x.dim() == 3
        and not torch.is_autocast_enabled()
        and not (torch.is_grad_enabled() and any(each.requires_grad for each in tensors))
        and all(mode is watch for mode in _get_current_function_mode_stack())
        and all(type(each) in PLAIN for each in tensors)
    )
