"""`linear`: a linear map, which for few rows on the CPU is as fast as its weights can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch  # before regard._native, which shares its OpenMP runtime
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function

from regard._attention.eager import PLAIN, has_function_mode, is_eager

if TYPE_CHECKING:
    from regard import _native
else:
    try:
        from regard import _native
    except ImportError:
        _native = None

MOST_ROWS = 16  # with more, PyTorch's product is the faster one where a cache holds the weights

# Looked up once: the smallest call is measured in microseconds.
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_get_num_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled
_is_autocast_enabled = torch.is_autocast_enabled
_torch_linear = functional.linear


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`: y = x · weightᵀ + bias, on the last axis of x.

    x is (…, n_in), weight (n_out, n_in), bias (n_out,), y (…, n_out). Up to `MOST_ROWS` rows of
    float32, bfloat16 or float16 on the CPU are computed by `regard._native`, in float32, a row's
    bits then depending on neither the number of threads nor the other rows; all else is PyTorch's.

    >>> linear(torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([11., 17.])
    """
    if not is_eager():
        # A mode is handed the call, as it is PyTorch's, and what it lets pass keeps its bits.
        if has_function_mode():
            return handle_torch_function(linear, (), x, weight, bias)
        return _torch_linear(x, weight, bias)
    if (
        _native is None
        or type(x) not in PLAIN
        or type(weight) not in PLAIN
        or (bias is not None and type(bias) not in PLAIN)
        or x.dtype not in _TYPES
        or x.is_nested
        or x.layout is not torch.strided
        or x.is_neg()
        or weight.dim() != 2
        or weight.shape[0] == 0
        or (bias is not None and bias.shape != weight.shape[:1])
        or not 0 < x.numel() <= MOST_ROWS * weight.shape[1]
        or _is_autocast_enabled("cpu")
    ):
        return _torch_linear(x, weight, bias)
    x = x.contiguous()
    if _is_grad_enabled() and (
        x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    ):
        return _FewRows.apply(x, weight, bias)
    return _few_rows(x, weight, bias)


def _few_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    shape = list(x.shape)
    shape[-1:] = weight.shape[:1]
    y = x.new_empty(shape)
    done = _native.linear(x, weight, bias, y, _get_num_threads())
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
