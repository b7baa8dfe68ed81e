"""`regard.scaled_dot_product_attention` lies in memory as PyTorch's output does."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import regard

ORDERS = ["".join(order) for order in permutations("BHND")]


def laid(order: str, sizes: tuple[int, int, int, int]) -> Tensor:
    """(B, H, N, D) of these sizes, whose axes lie in memory in this order."""
    size = dict(zip("BHND", sizes, strict=True))
    x = torch.randn([size[axis] for axis in order])
    return x.permute([order.index(axis) for axis in "BHND"])


def must_lie_alike(*args: Tensor, **options: object) -> None:
    expected = F.scaled_dot_product_attention(*args, **options)  # pyright: ignore[reportArgumentType]
    found = regard.scaled_dot_product_attention(*args, **options)  # pyright: ignore[reportArgumentType]
    assert found.stride() == expected.stride()
    if not options.get("dropout_p"):
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_the_output_lies_as_pytorchs_does(order: str) -> None:
    q = laid(order, (2, 3, 5, 8))
    k, v = torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    must_lie_alike(q, k, v)
    must_lie_alike(q, k, v, is_causal=True)
    must_lie_alike(q, k, v, attn_mask=torch.randn(5, 7))
    must_lie_alike(q, k, v, attn_mask=torch.randn(2, 1, 1, 7) > 0)
    must_lie_alike(q, k, v, attn_mask=torch.randn(3, 5, 7))
    must_lie_alike(q, k, v, attn_mask=torch.randn(5, 7, requires_grad=True))
    must_lie_alike(q, k, v, dropout_p=0.5)
    must_lie_alike(q, k, v[..., :4])
    must_lie_alike(q, k, torch.randn(2, 3, 8, 7).mT)
    must_lie_alike(q, k[:, :1], v[:, :1], enable_gqa=True)
    must_lie_alike(q, k[:, :1], v[:, :1])
    must_lie_alike(q[:1], k, v)
    must_lie_alike(q[:, :, :1], k, v)
    must_lie_alike(q[..., :1], k[..., :1], v[..., :1])
    must_lie_alike(q[0], k[0], v[0])
    must_lie_alike(q.double(), k.double(), v.double())
    must_lie_alike(q.detach().requires_grad_(), k, v)
    with sdpa_kernel(SDPBackend.MATH):
        must_lie_alike(q, k, v)


def test_what_has_gaps_or_repeats_lies_as_pytorchs_does() -> None:
    whole = torch.randn(2, 5, 9, 3, 16)
    for q in (
        whole[..., 0, :8],
        whole[:, ::2, ::3, 1, :7],
        whole[:, :1, :, 0].expand(-1, 5, -1, -1),
        whole[:1, :, :, 0].expand(2, -1, -1, -1),
        whole[:, :, :1, 0].expand(-1, -1, 9, -1),
    ):
        must_lie_alike(q, q, q)
        must_lie_alike(q, q.contiguous(), q.contiguous(), is_causal=True)


@pytest.mark.parametrize("order", ["BHND", "BNHD", "NBHD", "HBND"])
def test_gradients_flow_through_every_layout(order: str) -> None:
    q = laid(order, (2, 3, 5, 8)).requires_grad_()
    k, v = (torch.randn(2, 3, 7, 8, requires_grad=True) for _ in range(2))
    grad = torch.randn(2, 3, 5, 8)
    found = torch.autograd.grad(regard.scaled_dot_product_attention(q, k, v), (q, k, v), grad)
    expected = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), (q, k, v), grad)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_compiled_code_sees_the_same_layout() -> None:
    def join(q: Tensor) -> Tensor:
        out = regard.scaled_dot_product_attention(q, q, q)
        return out.view(2, -1)  # what lies otherwise cannot be seen so

    q = torch.randn(2, 3, 5, 8)
    compiled = torch.compile(join, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(q), join(q), atol=1e-6)


def test_a_watched_model_may_view_what_sdpa_gives_as_it_does_unwatched() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, is_causal=True).view(2, 15, 8)

    model, x = Model(), torch.randn(2, 3, 5, 8)
    expected = model(x)
    with regard.watch(model) as run:
        found = model(x)
    assert torch.allclose(found, expected, atol=1e-5)
    assert len(run.layers) == 1


@pytest.mark.parametrize("order", ORDERS)
def test_sdpa_inside_a_watched_model_lies_as_pytorchs_does(order: str) -> None:
    strides: list[tuple[int, ...]] = []

    class Model(torch.nn.Module):
        def forward(self, *args: Tensor, **options: object) -> Tensor:
            out = F.scaled_dot_product_attention(*args, **options)  # pyright: ignore[reportArgumentType]
            strides.append(out.stride())
            return out

    q, model = laid(order, (2, 3, 5, 8)), Model()
    k, v = torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    for args, options in (
        ((q, k, v), {}),
        ((q, k, v[..., :4]), {}),
        ((q, k, v), {"attn_mask": torch.randn(3, 5, 7)}),
        ((q.detach().requires_grad_(), k, v), {}),
        ((q[0], k[0], v[0]), {}),
        ((q, k[:, :1], v[:, :1]), {}),
    ):
        expected = model(*args, **options)
        with regard.watch(model):
            found = model(*args, **options)
        assert torch.allclose(found, expected, atol=1e-5)
        assert strides[-1] == strides[-2]
        if expected.requires_grad:
            a, b = (torch.autograd.grad(x.square().sum(), args[0])[0] for x in (found, expected))
            assert torch.allclose(a, b, atol=1e-5)
