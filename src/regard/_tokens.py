"""Each token's vector by itself: the RMS norm, the turn of rotary positions, the gate of SwiGLU.

On the CPU they are computed by `regard._native`, with gradients or without: their bits depend on
neither that, nor the number of threads, nor the other vectors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function

from regard._attention.eager import PLAIN, has_function_mode, is_eager
from regard._attention.native import core as _native

# Looked up once: the smallest call is measured in microseconds.
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_WIDE = (torch.float32, torch.float64)
_get_num_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled
_is_autocast_enabled = torch.is_autocast_enabled
_empty_like = torch.empty_like


def _are_readable(x: Tensor, *others: Tensor) -> bool:
    """May these be taken as memory of one type? The rest is for the native part to look at."""
    return (
        _native is not None
        and type(x) in PLAIN
        and x.dtype in _TYPES
        and not x.is_nested
        and x.layout is torch.strided
        and all(type(other) in PLAIN and other.dtype == x.dtype for other in others)
        and not _is_autocast_enabled("cpu")
    )


# ── the RMS norm ──────────────────────────────────────────────────────────────────────────────


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / √(mean(x²) + eps) · weight, over the last axis; x (…, width), weight (width,).

    Numbers of two bytes are computed in float32, and rounded before the product and after it.

    >>> rms_norm(torch.tensor([3.0, 4.0]), torch.ones(2), 1e-5)
    tensor([0.8485, 1.1314])
    """
    if not is_eager():
        # What a mode lets pass keeps its bits.
        if has_function_mode():
            return handle_torch_function(rms_norm, (), x, weight, eps)
        return _rms_norm_by_torch(x, weight, eps)
    if not _are_readable(x, weight):
        return _rms_norm_by_torch(x, weight, eps)
    if _is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return _RmsNorm.apply(x, weight, eps)
    return _rms_norm(x, weight, eps)


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    x = x.contiguous()
    y = _empty_like(x)
    done = _native.rms_norm(x, weight, eps, y, _get_num_threads())
    return y if done else _rms_norm_by_torch(x, weight, eps)


def _rms_norm_by_torch(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide, root = _root(x, eps)
    return (wide * root).to(x.dtype) * weight


def _root(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x in float32 at least, and 1 / √(mean(x²) + eps)."""
    wide = x if x.dtype in _WIDE else x.float()
    return wide, (wide.square().mean(-1, keepdim=True) + eps).rsqrt()


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return _rms_norm(x, weight, eps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, _ = ctx.needs_input_grad
        wide, root = _root(x, ctx.eps)
        normed, grad = wide * root, grads[0].to(wide.dtype)
        dx = dweight = None
        if of_x:
            through = grad * weight
            mean = (through * normed).mean(-1, keepdim=True)
            dx = (root * (through - normed * mean)).to(x.dtype)
        if of_weight:
            rows = (grad * normed).reshape(-1, len(weight))
            dweight = rows.sum(0).to(weight.dtype)
        return dx, dweight, None


# ── the turn ──────────────────────────────────────────────────────────────────────────────────


def turn(x: Tensor, cosine: Tensor, sine: Tensor, pairing: str) -> Tensor:
    """x (B, H, N, D), each pair of its first numbers turned: x · cosine + partner(x) · sine.

    `cosine` and `sine` are (1 or B, 1, N, turned width). With the `pairing` "halves" partners are
    half of that width apart, with "neighbours" side by side.

    >>> quarter = torch.tensor([[[[0.0, 0.0]]]]), torch.tensor([[[[-1.0, 1.0]]]])
    >>> turn(torch.tensor([[[[3.0, 4.0, 5.0]]]]), *quarter, "halves").tolist()
    [[[[-4.0, 3.0, 5.0]]]]
    """
    if not is_eager():
        if has_function_mode():
            return handle_torch_function(turn, (), x, cosine, sine, pairing)
        return _turn_by_torch(x, cosine, sine, pairing)
    if not _are_readable(x, cosine, sine) or cosine.requires_grad or sine.requires_grad:
        return _turn_by_torch(x, cosine, sine, pairing)
    if _is_grad_enabled() and x.requires_grad:
        return _Turn.apply(x, cosine, sine, pairing)
    return _turn(x, cosine, sine, pairing)


def _turn(x: Tensor, cosine: Tensor, sine: Tensor, pairing: str) -> Tensor:
    y = _empty_like(x)
    done = _native.turn(x, cosine, sine, pairing == "halves", y, _get_num_threads())
    return y if done else _turn_by_torch(x, cosine, sine, pairing)


def _turn_by_torch(x: Tensor, cosine: Tensor, sine: Tensor, pairing: str) -> Tensor:
    width = cosine.shape[-1]
    turned = x if width == x.shape[-1] else x[..., :width]
    # Under autocast x may be of fewer bits than the angles.
    turned = torch.addcmul(turned * cosine, _partner(turned, pairing), sine).to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat([turned, x[..., width:]], -1)


def _partner(x: Tensor, pairing: str) -> Tensor:
    if pairing == "halves":
        return x.roll(x.shape[-1] // 2, -1)
    return x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


class _Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor, pairing: str) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        ctx.pairing = pairing
        return _turn(x, cosine, sine, pairing)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # y = x · cosine + P x · sine, P being its own inverse: so P sine is what comes back.
        cosine, sine = ctx.saved_tensors
        back = _partner(sine, ctx.pairing)
        return turn(grads[0], cosine, back, ctx.pairing), None, None, None


# ── the gate ──────────────────────────────────────────────────────────────────────────────────


def gated(gate: Tensor, hidden: Tensor) -> Tensor:
    """silu(gate) ⊙ hidden, both of one shape; silu(g) = g / (1 + exp(−g)).

    Numbers of two bytes are computed in float32, and rounded before the product and after it.

    >>> gated(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0]))
    tensor([0.0000, 2.1932])
    """
    if not is_eager():
        if has_function_mode():
            return handle_torch_function(gated, (), gate, hidden)
        return functional.silu(gate) * hidden
    if not _are_readable(gate, hidden):
        return functional.silu(gate) * hidden
    if _is_grad_enabled() and (gate.requires_grad or hidden.requires_grad):
        return _Gated.apply(gate, hidden)
    return _gated(gate, hidden)


def _gated(gate: Tensor, hidden: Tensor) -> Tensor:
    gate, hidden = gate.contiguous(), hidden.contiguous()
    y = _empty_like(gate)
    done = _native.gated(gate, hidden, y, _get_num_threads())
    return y if done else functional.silu(gate) * hidden


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, hidden: Tensor) -> Tensor:
        ctx.save_for_backward(gate, hidden)
        return _gated(gate, hidden)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gate, hidden = ctx.saved_tensors
        of_gate, of_hidden = ctx.needs_input_grad
        wide = gate if gate.dtype in _WIDE else gate.float()
        share = wide.sigmoid()
        dgate = dhidden = None
        if of_gate:
            slope = share * (1 + wide * (1 - share))
            dgate = (grads[0] * hidden * slope).to(gate.dtype)
        if of_hidden:
            dhidden = (grads[0] * (wide * share)).to(hidden.dtype)
        return dgate, dhidden
