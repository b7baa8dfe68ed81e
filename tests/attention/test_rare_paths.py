"""What is asked rarely, and has a way of its own through the code."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers.attention_problems import on_each_backend
from torch import Tensor

import regard
from regard.run import Options


def random(*shape: int, **options: Any) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).requires_grad_(**options)


def gradients(grad: Tensor, backend: str) -> tuple[Tensor, ...]:
    q, k, v = random(1, 2, 7, 3), random(1, 1, 7, 3), random(1, 1, 7, 5)
    out = regard.attention(q, k, v, causal=True, backend=backend)
    return torch.autograd.grad(out, (q, k, v), grad)


@on_each_backend
@pytest.mark.parametrize("content", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_spoils_what_its_query_sees_and_nothing_else(
    backend: str, content: float
) -> None:
    clean = random(1, 2, 7, 5, requires_grad=False)
    clean[0, 1, 4, 3] = 0.0
    spoilt = clean.clone()
    spoilt[0, 1, 4, 3] = content
    before, after = gradients(clean, backend), gradients(spoilt, backend)
    # One query, all keys that it may attend to, and of their values the one number.
    reached = [torch.zeros_like(x, dtype=torch.bool) for x in before]
    reached[0][0, 1, 4] = True
    reached[1][0, 0, :5] = True
    reached[2][0, 0, :5, 3] = True
    for reach, expected, found in zip(reached, before, after, strict=True):
        assert not found[reach].isfinite().any()
        torch.testing.assert_close(found[~reach], expected[~reach], rtol=1e-5, atol=1e-6)


class Nothing(torch.autograd.Function):
    """Has no gradient, which is not the same as one of 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        return None


@on_each_backend
def test_an_output_that_gets_no_gradient_gives_none(backend: str) -> None:
    q, k, v = random(1, 2, 7, 3), random(1, 1, 7, 3), random(1, 1, 7, 5)
    out = regard.attention(q, k, v, backend=backend)
    (Nothing.apply(out).sum() + v.sum()).backward()
    assert q.grad is None or not q.grad.any()
    assert v.grad is not None
    assert torch.equal(v.grad, torch.ones_like(v))


def test_a_number_is_no_lengths() -> None:
    q = torch.zeros(1, 1, 3, 2)
    with pytest.raises(TypeError, match=r"attention\(\): lengths must be .*; got int\. Give one"):
        regard.attention(q, q, q, lengths=3)  # pyright: ignore[reportArgumentType]


def test_more_keys_than_the_kernel_can_count_are_refused_by_it() -> None:
    q, k = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1).expand(1, 1, 2**31, 1)
    with pytest.raises(ValueError, match=r"less than 2³¹ queries and keys; got \(1, 2147483648\)"):
        regard.attention(q, k, k, backend="native")


def test_no_queries_count_no_keys() -> None:
    options = Options(bias=torch.zeros(1, 1, 1, 11))
    assert options.count((2, 3, 0, 11), torch.device("cpu")).shape == (2, 3, 0)


@pytest.mark.parametrize("grad", [False, True])
def test_queries_that_overlap_in_memory_are_right_however_the_output_lies(grad: bool) -> None:
    """An output as such queries lie has its rows inside; PyTorch's kernel writes them wrongly."""
    q = random(1, 2, 7, requires_grad=False).unfold(2, 5, 1).requires_grad_(grad)
    k, v = random(1, 2, 7, 5), random(1, 2, 7, 5)
    assert q.stride() == (14, 7, 1, 1)
    found = regard.scaled_dot_product_attention(q, k, v)
    exact = (x.detach().double().numpy() for x in (q, k, v))
    truth = torch.from_numpy(regard.reference.attention(*exact).output).float()
    torch.testing.assert_close(found.detach(), truth, rtol=1e-5, atol=1e-6)
    assert found.stride() == torch.empty_like(q).stride()
    assert found.stride(3) != 1
