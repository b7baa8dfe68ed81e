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
_float32 = torch.float32
_strided = torch.strided
_get_num_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled
_is_autocast_enabled = torch.is_autocast_enabled
_torch_linear = functional.linear


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`: y = x · weightᵀ + bias, on the last axis of x.

    x is (…, n_in), weight (n_out, n_in), bias (n_out,), y (…, n_out). Up to `MOST_ROWS` rows of
    float32 on the CPU are computed by `regard._native`, a row's bits then depending on neither the
    number of threads nor the other rows; all else is PyTorch's.

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
        or not (x.is_cpu and weight.is_cpu)
        or not (x.dtype is weight.dtype is _float32)
        or not (x.layout is weight.layout is _strided)
        or _is_autocast_enabled("cpu")
        or x.is_neg()
        or weight.is_neg()
        or x.is_nested
    ):
        return _torch_linear(x, weight, bias)
    shape, weight_shape = x.shape, weight.shape
    if not shape or len(weight_shape) != 2:
        return _torch_linear(x, weight, bias)
    outputs, inputs = weight_shape
    rows = x.numel() // inputs if inputs else 0
    if (
        shape[-1] != inputs
        or not 0 < rows <= MOST_ROWS
        or (weight.stride(1) != 1 and inputs > 1)
        or not weight.data_ptr()
    ):
        return _torch_linear(x, weight, bias)
    if bias is not None:
        if (
            type(bias) not in PLAIN
            or not bias.is_cpu
            or bias.dtype is not _float32
            or bias.layout is not _strided
            or bias.is_neg()
            or bias.shape != (outputs,)
            or not bias.is_contiguous()
        ):
            return _torch_linear(x, weight, bias)
        if not bias.data_ptr():
            return _torch_linear(x, weight, bias)
    x = x.contiguous()
    if not x.data_ptr():
        return _torch_linear(x, weight, bias)
    if _is_grad_enabled() and (
        x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    ):
        return _FewRows.apply(x, weight, bias)
    return _few_rows(x, weight, bias)


def _few_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    outputs, inputs = weight.shape
    shape = list(x.shape)
    shape[-1] = outputs
    y = x.new_empty(shape)
    _native.linear(
        x.data_ptr(),
        inputs,
        weight.data_ptr(),
        weight.stride(0),
        0 if bias is None else bias.data_ptr(),
        y.data_ptr(),
        x.numel() // inputs,
        inputs,
        outputs,
        _get_num_threads(),
    )
    return y


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
