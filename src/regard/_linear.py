"""`linear`: a linear map, which for few rows on the CPU is as fast as its weights can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

__all__ = ["MOST_ROWS", "linear"]

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
    float32 on the CPU that want no gradient are computed by `regard._native`, a row's bits then
    depending on neither the number of threads nor the other rows; all else is PyTorch's.

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
        or (_is_grad_enabled() and (x.requires_grad or weight.requires_grad))
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
    weight_step, last = weight.stride()
    rows = x.numel() // inputs if inputs else 0
    weight_data = weight.data_ptr()
    if (
        shape[-1] != inputs
        or not 0 < rows <= MOST_ROWS
        or (last != 1 and inputs > 1)
        or not weight_data
    ):
        return _torch_linear(x, weight, bias)
    bias_data = 0
    if bias is not None:
        if (
            type(bias) not in PLAIN
            or not bias.is_cpu
            or bias.dtype is not _float32
            or bias.layout is not _strided
            or (bias.requires_grad and _is_grad_enabled())
            or bias.is_neg()
            or bias.shape != (outputs,)
            or not bias.is_contiguous()
        ):
            return _torch_linear(x, weight, bias)
        bias_data = bias.data_ptr()
        if not bias_data:
            return _torch_linear(x, weight, bias)
    x = x.contiguous()
    x_data = x.data_ptr()
    if not x_data:
        return _torch_linear(x, weight, bias)
    y_shape = list(shape)
    y_shape[-1] = outputs
    y = x.new_empty(y_shape)
    _native.linear(
        x_data,
        inputs,
        weight_data,
        weight_step,
        bias_data,
        y.data_ptr(),
        rows,
        inputs,
        outputs,
        _get_num_threads(),
    )
    return y
