"""Derivatives of other kinds: batched gradients work, forward-mode ones are refused everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

import regard

# What PyTorch imports to compile such a function warns of itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

BACKENDS = ["eager", "aot_eager", "inductor"]


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.randn(2, 3, n, 7, dtype=dtype, requires_grad=True) for n in (5, 11, 11))
    return q, k, v


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"softcap": 3.0}, {"dropout": 0.3}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batched_gradients_are_those_of_one_after_the_other(
    options: dict[str, Any], dtype: torch.dtype
) -> None:
    q, k, v = inputs(dtype)
    out = regard.attention(q, k, v, **options)
    grads = torch.randn(13, *out.shape, dtype=dtype)
    found = torch.autograd.grad(out, (q, k, v), grads, is_grads_batched=True, retain_graph=True)
    for n, grad in enumerate(grads):
        one = torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)
        for a, b in zip(found, one, strict=True):
            assert torch.equal(a[n], b)


def test_a_vectorised_jacobian_is_that_of_pytorch() -> None:
    q, k, v = (x.detach() for x in inputs())

    def jacobian(attend: Callable[..., Tensor]) -> Tensor:
        def summed(x: Tensor) -> Tensor:
            return attend(x, k, v).sum(-1)

        return torch.autograd.functional.jacobian(summed, q, vectorize=True)  # pyright: ignore[reportReturnType]

    found = jacobian(regard.scaled_dot_product_attention)
    assert torch.allclose(found, jacobian(F.scaled_dot_product_attention), atol=1e-5)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # as with PyTorch's
def test_vmap_of_a_backward_pass_is_that_of_one_after_the_other() -> None:
    q, k, v = inputs()
    out = regard.attention(q, k, v)
    grads = torch.randn(3, *out.shape)

    def pull(grad: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)

    for a, b in zip(torch.vmap(pull)(grads), zip(*map(pull, grads), strict=True), strict=True):
        assert torch.equal(a, torch.stack(b))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("attend", [regard.attention, regard.scaled_dot_product_attention])
def test_jvp_inside_compiled_code_is_refused(backend: str, attend: Callable[..., Tensor]) -> None:
    def pushed(x: Tensor) -> tuple[Any, ...]:
        return torch.func.jvp(lambda y: attend(y, y, y), (x,), (torch.ones_like(x),))

    torch.compiler.reset()
    with pytest.raises(RuntimeError, match="forward-mode derivatives are not implemented"):
        torch.compile(pushed, backend=backend)(torch.randn(1, 2, 5, 7))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("attend", [regard.attention, regard.scaled_dot_product_attention])
def test_a_dual_tensor_into_compiled_code_is_refused(
    backend: str, attend: Callable[..., Tensor]
) -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda y: attend(y, y, y) * 2.0, backend=backend)
    x = torch.randn(1, 2, 5, 7)
    assert torch.allclose(compiled(x), attend(x, x, x) * 2.0)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(RuntimeError, match="forward-mode derivatives are not implemented"):
            compiled(dual)
