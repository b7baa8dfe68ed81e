"""What PyTorch's fast paths do otherwise than the slow ones, which a watched model takes."""

from __future__ import annotations

import inspect
import threading
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from regard._watch.modules import Hooks, ModuleCall

_SIGNATURES: dict[type[nn.Module], inspect.Signature] = {
    kind: inspect.signature(kind.forward)
    for kind in (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
}


class _Padding(threading.local):
    """What an encoder leaves out (B, N), by the id of the norm behind its layers."""

    def __init__(self) -> None:
        self.of: dict[int, Tensor] = {}


def add_fast_paths(hooks: Hooks, model: nn.Module, watch: TorchFunctionMode) -> None:
    """Have PyTorch's encoders, layers and attention compute what they would on a fast path.

    `watch` is our own mode, which alone keeps them from it.
    """
    padding = _Padding()
    for module in model.modules():
        kind = next((kind for kind in _SIGNATURES if isinstance(module, kind)), None)
        if kind is None or type(module).forward is not kind.forward:
            continue
        if kind is not nn.TransformerEncoder:
            hooks.add(module, partial(_without_hint, watch, kind))
            continue
        norm: nn.Module | None = getattr(module, "norm", None)
        hooks.add(module, partial(_without_padding, watch, padding))
        if norm is not None:
            hooks.add(norm, partial(_norm_of_zeros, padding))


def _arguments(kind: type[nn.Module], call: ModuleCall) -> dict[str, Any] | None:
    """By name; None if they are wrong, which the call itself says better."""
    try:
        return _SIGNATURES[kind].bind(call.module, *call.args, **call.kwargs).arguments
    except TypeError:
        return None


def _without_hint(watch: TorchFunctionMode, kind: type[nn.Module], call: ModuleCall) -> Any:
    """Around a layer or attention: `is_causal` is not followed by a fast path, which goes by the
    mask alone."""
    if call.kwargs.get("is_causal") or len(call.args) > 3:
        given = _arguments(kind, call)
        if given is not None and given.get("is_causal") and _goes_fast(given, watch):
            del given["self"]
            call.args, call.kwargs = (), {**given, "is_causal": False}
    return call.run()


def _without_padding(watch: TorchFunctionMode, padding: _Padding, call: ModuleCall) -> Any:
    """Around an encoder: what it packs away as padding is 0 behind the last layer."""
    given = _arguments(nn.TransformerEncoder, call)
    left_out = None if given is None else _left_out(given, watch)
    if given is None or left_out is None:
        return call.run()
    norm = given["self"].norm
    call.args, call.kwargs = (given["src"],), {"src_key_padding_mask": left_out}
    if norm is None:
        return call.run().masked_fill(left_out[..., None], 0.0)
    try:
        padding.of[id(norm)] = left_out
        return call.run()
    finally:
        padding.of.pop(id(norm), None)


def _norm_of_zeros(padding: _Padding, call: ModuleCall) -> Any:
    left_out = padding.of.pop(id(call.module), None)
    if left_out is not None:
        call.args = call.args[0].masked_fill(left_out[..., None], 0.0), *call.args[1:]
    return call.run()


def _left_out(given: dict[str, Any], watch: TorchFunctionMode) -> Tensor | None:
    """The places (B, N) that an encoder leaves out if nobody watches; None if it computes them all.

    Then PyTorch packs the real tokens into a nested tensor, which attention has no padding in, and
    fills up with 0 before the last norm.
    """
    encoder, src, mask = given["self"], given["src"], given.get("src_key_padding_mask")
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
        or not _takes((src, *_weights(first)), watch)
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
        not torch.backends.mha.get_fastpath_enabled()
        or x.dim() != 3
        or module.training
        or attention.training
        or attention.num_heads % 2
        or not attention.batch_first
        or attention.in_proj_bias is None
        or not attention._qkv_same_embed_dim
        or torch.is_autocast_enabled()
        or not _takes((x, *_weights(module)), watch)
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


def _weights(module: Any) -> tuple[Any, ...]:
    """The parameters of a layer, or of attention, that a fast path is given."""
    attention, parts = module, ()
    if isinstance(module, nn.TransformerEncoderLayer):
        attention = module.self_attn
        parts = (module.norm1, module.norm2, module.linear1, module.linear2)
    others = (x for part in (attention.out_proj, *parts) for x in (part.weight, part.bias))
    return attention.in_proj_weight, attention.in_proj_bias, *others


def _takes(tensors: tuple[Any, ...], watch: TorchFunctionMode) -> bool:
    """Does a fast path take these: without a gradient, and with nobody who looks but us?"""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return False
    if any(mode is not watch for mode in _get_current_function_mode_stack()):
        return False
    return all(type(x) is Tensor or type(x) is nn.Parameter for x in tensors)
