"""Attention without options, the short way: small calls are measured in microseconds."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard._attention import native
from regard._attention.eager import PLAIN, is_batched, is_eager, is_plain
from regard._attention.operator import flow_back
from regard._attention.options import Options
from regard._attention.problem import computed_in, new_gradient, new_observation, new_output
from regard.observation import Observation, See

# Looked up once.
_get_num_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled
_isfinite = math.isfinite
_full, _causal = Options(), Options(causal=True)
_LSE = See()

# Options, scale, where query 0 stands, no dropout, no seed; the shapes of output and scores.
_Call = tuple[Options, float, int, float, int]
_Shapes = tuple[tuple[int, int, int, int], tuple[int, int, int, int]]


def short_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None,
    see: See | None = None,
    layout: str = "joined",
) -> tuple[Tensor, Observation | None] | None:
    """Attention without options, the short way; None if these arguments need the long one.

    The long way checks all over again, and says what is wrong. So here every doubt is a None.
    """
    if (
        native.missing
        or not is_eager()
        or type(q) not in PLAIN
        or type(k) not in PLAIN
        or type(v) not in PLAIN
        or q.dtype not in native.TYPES
        or q.is_nested
        or v.is_nested
        or (causal is not True and causal is not False)
        or (see is not None and (type(see) is not See or bool(see.tensors)))
    ):
        return None
    q_shape, v_shape = q.shape, v.shape
    if len(q_shape) != 4 or len(v_shape) != 4:
        return None
    batch, heads, rows, width = q_shape
    n_keys, value_width = v_shape[2:]
    if layout == "query" and (
        width != value_width
        # Of wider rows the kernel itself asks that their numbers lie side by side.
        or (width == 1 and not q.stride(3) == k.stride(-1) == v.stride(3) == 1)
    ):
        layout = "contiguous"
    options = _causal if causal else _full
    if scale is None:
        scale = options.factor(width)
    elif type(scale) is not float or not _isfinite(scale):
        return None
    position = options.offset(rows, n_keys)
    shapes = (batch, heads, rows, value_width), (batch, heads, rows, n_keys)
    call = options, scale, position, 0.0, 0
    if _is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _Short.apply(q, k, v, call, shapes, layout, see) if value_width else None
    return _attend(q, k, v, call, shapes, layout, see)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, call: _Call, shapes: _Shapes, layout: str, see: See | None
) -> tuple[Tensor, Observation | None] | None:
    """The output, and what was asked for in `see`, if the kernel can read these."""
    out, seen = new_output(q, shapes[0], layout), None
    if see is not None:
        seen = new_observation(see, shapes[1], computed_in(q.dtype), "cpu", call[2])
    done = native.core.attention((q, k, v, *call), out, seen, native.NOTHING, _get_num_threads())
    return (out, seen) if done else None


class _Short(torch.autograd.Function):
    """The same with gradients; what its backward pass doubts goes the long way, too."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Observation | None] | None:
        q, k, v, call, shapes, layout, see = arguments
        found = _attend(q, k, v, call, shapes, layout, see or _LSE)
        if found is None:
            return None
        out, seen = found
        assert seen is not None
        ctx.save_for_backward(out, seen.lse, q, k, v)
        ctx.call, ctx.layout = call, layout
        ctx.set_materialize_grads(False)
        return out, None if see is None else seen

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        nothing, grad = (None, None, None, None), grads[0]
        if grad is None:
            return None, None, None, *nothing
        out, lse, q, k, v = saved = ctx.saved_tensors
        wanted, options = ctx.needs_input_grad[:3], ctx.call[0]
        if not _is_grad_enabled() and not is_batched(grad) and is_plain((grad, *saved)):
            dq, dk, dv = (
                new_gradient(x, x.dtype, True) if want else None
                for x, want in zip((q, k, v), wanted, strict=True)
            )
            call, threads = (q, k, v, *ctx.call), _get_num_threads()
            if native.core.attention_backward(call, out, lse, grad, dq, dk, dv, threads):
                return dq, dk, dv, *nothing
        numbers = options.causal, None, None, None, ctx.call[1], None, 0.0, ctx.layout
        others = (None,) * 7  # the operator's other tensors
        made = flow_back(grad, (*saved, *others), numbers, [*wanted, False, False], "native")[:3]
        return *(x if want else None for x, want in zip(made, wanted, strict=True)), *nothing
