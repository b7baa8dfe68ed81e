"""PyTorch's own samples for its attention: ours is as right as its own, gradients included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard


def samples(dtype: torch.dtype) -> list[tuple[Any, dict[str, Any]]]:
    from torch.testing._internal.common_methods_invocations import op_db

    name = "nn.functional.scaled_dot_product_attention"
    (info,) = (each for each in op_db if each.name == name)
    given = info.sample_inputs("cpu", dtype, requires_grad=True)
    return [((sample.input, *sample.args), dict(sample.kwargs)) for sample in given]


def computed(
    attend: Any, tensors: tuple[Tensor, ...], options: dict[str, Any], dtype: torch.dtype
) -> list[Tensor]:
    """The output and the gradients of all that wants one, computed from numbers of this type."""

    def as_leaf(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        return x.detach().to(dtype).requires_grad_(x.requires_grad)

    q, k, v = (as_leaf(x) for x in tensors)
    options = {name: as_leaf(x) for name, x in options.items()}
    output = attend(q, k, v, **options)
    wanted = [x for x in (q, k, v, *options.values()) if isinstance(x, Tensor) and x.requires_grad]
    flowing = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view(output.shape)
    return [output.detach(), *torch.autograd.grad(output, wanted, flowing.to(output.dtype))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_sample_is_as_right_as_pytorchs_own_attention(dtype: torch.dtype) -> None:
    given = samples(dtype)
    assert len(given) > 10
    for tensors, options in given:
        if options.get("dropout_p"):
            output = regard.scaled_dot_product_attention(*tensors, **options)
            assert output.shape == scaled_dot_product_attention(*tensors, **options).shape
            options["dropout_p"] = 0.0
        found = computed(regard.scaled_dot_product_attention, tensors, options, dtype)
        peer = computed(scaled_dot_product_attention, tensors, options, dtype)
        truth = computed(scaled_dot_product_attention, tensors, options, torch.float64)
        # An error of a score's last digit is one of its weight that is as many times larger.
        q, k = (x.detach().double() for x in tensors[:2])
        largest = float(q.norm(dim=-1).max() * k.norm(dim=-1).max() * q.shape[-1] ** -0.5)
        for ours, theirs, exact in zip(found, peer, truth, strict=True):
            assert ours.dtype == theirs.dtype
            size = max(float(exact.abs().max()), 1.0)
            limit = 2 * float((theirs.double() - exact).abs().max())
            limit += torch.finfo(dtype).eps * size * (4 + largest)
            assert float((ours.double() - exact).abs().max()) <= limit
