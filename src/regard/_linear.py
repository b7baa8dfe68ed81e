"""`linear`: a linear map, which for few rows on the CPU is as fast as its weights can be read.

Of bfloat16 and float16 for any number of rows, unless PyTorch has the processor's own instructions.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function

from regard._attention.eager import PLAIN, has_function_mode, is_eager
from regard._attention.native import core as _native

MOST_ROWS = 16  # with more, PyTorch's product is the faster one where a cache holds the weights

# How many rows are computed here. PyTorch's product of numbers of two bytes takes four times as
# long, whatever their number, where its library has no instructions for them.
ROWS = {
    torch.float32: MOST_ROWS,
    torch.bfloat16: MOST_ROWS if torch.ops.mkldnn._is_mkldnn_bf16_supported() else sys.maxsize,
    torch.float16: MOST_ROWS if torch.ops.mkldnn._is_mkldnn_fp16_supported() else sys.maxsize,
}

# Looked up once: the smallest call is measured in microseconds.
_get_num_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled
_is_autocast_enabled = torch.is_autocast_enabled
_torch_linear = functional.linear
_strided = torch.strided


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`: y = x · weightᵀ + bias, on the last axis of x.

    x is (…, n_in), weight (n_out, n_in), bias (n_out,), y (…, n_out). Up to `ROWS` rows of its type
    on the CPU are computed by `regard._native`, in float32, a row's bits then depending on neither
    the number of threads nor the other rows; all else is PyTorch's.

    >>> linear(torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([11., 17.])
    """
    if not is_eager():
        # A mode is handed the call, as it is PyTorch's, and what it lets pass keeps its bits.
        if has_function_mode():
            return handle_torch_function(linear, (), x, weight, bias)
        return _torch_linear(x, weight, bias)
    if not (_is_readable(x) and _fits(x, weight, bias)):
        return _torch_linear(x, weight, bias)
    x = x.contiguous()
    if _is_grad_enabled() and (
        x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    ):
        return _FewRows.apply(x, weight, bias)
    return _few_rows(x, weight, bias)


def linears(x: Tensor, maps: Sequence[tuple[Tensor, Tensor | None]]) -> list[Tensor]:
    """`linear` of the same x by each (weight, bias), with the same bits, in one call if it can be.

    >>> linears(torch.tensor([1.0, 2.0]), [(torch.ones(1, 2), None), (torch.ones(3, 2), None)])
    [tensor([3.]), tensor([3., 3., 3.])]
    """
    if is_eager() and not _is_grad_enabled() and _is_readable(x):
        x = x.contiguous()
        given = []
        for weight, bias in maps:
            if not _fits(x, weight, bias):
                break
            given.append((weight, bias, x.new_empty((*x.shape[:-1], weight.shape[0]))))
        else:
            if _native.linear(x, tuple(given), _get_num_threads()):
                return [y for _, _, y in given]
    return [linear(x, weight, bias) for weight, bias in maps]


def _is_readable(x: Tensor) -> bool:
    return not (
        _native is None
        or type(x) not in PLAIN
        or x.dtype not in ROWS
        or x.is_nested
        or x.layout is not _strided
        or x.is_neg()
        or _is_autocast_enabled("cpu")
    )


def _fits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Are these of sizes that are computed here? The rest is for the native part to look at."""
    return (
        type(weight) in PLAIN
        and weight.dim() == 2
        and weight.shape[0] != 0
        and (bias is None or (type(bias) in PLAIN and bias.shape == weight.shape[:1]))
        and 0 < x.numel() <= ROWS[x.dtype] * weight.shape[1]
    )


def _few_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    y = x.new_empty((*x.shape[:-1], weight.shape[0]))
    done = _native.linear(x, ((weight, bias, y),), _get_num_threads())
    return y if done else _torch_linear(x, weight, bias)


class _FewRows(torch.autograd.Function):
    """The same with gradients, so that training and evaluation give the same bits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _few_rows(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        (grad,) = grads
        rows = grad.reshape(-1, grad.shape[-1])
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            grad @ weight if of_x else None,
            rows.t() @ x.reshape(-1, x.shape[-1]) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )
