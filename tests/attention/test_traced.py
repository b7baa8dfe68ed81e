"""Traced or exported once, called with other lengths: what was decided from sizes is not kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard


def inputs(n_queries: int, n_keys: int, batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    q = torch.randn(batch, 3, n_queries, 7)
    return q, torch.randn(batch, 3, n_keys, 7), torch.randn(batch, 3, n_keys, 7)


class Sdpa(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return regard.scaled_dot_product_attention(q, k, v, **self.options)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("first", [(5, 5), (5, 11)])
def test_what_was_traced_is_right_for_other_lengths(
    is_causal: bool, first: tuple[int, int]
) -> None:
    traced: Any = torch.jit.trace(Sdpa(is_causal=is_causal), inputs(*first), check_trace=False)
    for lengths in ((5, 5), (7, 7), (3, 13), (13, 3), (1, 4)):
        given = inputs(*lengths, batch=3)
        expected = F.scaled_dot_product_attention(*given, is_causal=is_causal)
        found = traced(*given)
        assert found.stride() == expected.stride()
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True])
def test_what_was_exported_takes_lengths_that_are_independent(is_causal: bool) -> None:
    n_queries, n_keys = torch.export.Dim("queries", min=2), torch.export.Dim("keys", min=2)
    exported = torch.export.export(
        Sdpa(is_causal=is_causal),
        inputs(5, 11),
        dynamic_shapes=({2: n_queries}, {2: n_keys}, {2: n_keys}),
    ).module()
    for lengths in ((5, 5), (7, 7), (3, 13), (13, 3)):
        given = inputs(*lengths)
        expected = F.scaled_dot_product_attention(*given, is_causal=is_causal)
        assert torch.allclose(exported(*given), expected, atol=1e-5)


def test_attention_that_was_exported_takes_lengths_that_are_independent() -> None:
    class Attention(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return regard.attention(q, k, v, causal=True, window=(4, None))

    n_queries, n_keys = torch.export.Dim("queries", min=2), torch.export.Dim("keys", min=2)
    exported = torch.export.export(
        Attention(), inputs(5, 11), dynamic_shapes=({2: n_queries}, {2: n_keys}, {2: n_keys})
    ).module()
    for lengths in ((5, 5), (3, 13), (13, 3)):
        given = inputs(*lengths)
        expected = regard.attention(*given, causal=True, window=(4, None))
        assert torch.allclose(exported(*given), expected, atol=1e-6)


@pytest.mark.parametrize("attend", [regard.attention, regard.scaled_dot_product_attention])
@pytest.mark.parametrize("strict", [False, True])
def test_self_attention_that_was_exported_takes_any_batch_heads_and_length(
    attend: Callable[..., Tensor], strict: bool
) -> None:
    class Own(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return attend(x, x, x)

    sizes = {axis: torch.export.Dim(f"axis{axis}", min=2) for axis in range(3)}
    x = torch.randn(3, 5, 7, 11)
    exported = torch.export.export(Own(), (x,), dynamic_shapes=(sizes,), strict=strict).module()
    for given in (x, torch.randn(5, 2, 13, 11), torch.randn(2, 7, 2, 11)):
        assert torch.equal(exported(given), attend(given, given, given))


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@pytest.mark.parametrize("way", ["export", "strict export", "compile"])
def test_masks_of_a_batch_that_only_the_numbers_tell_are_traced_with_gradients(way: str) -> None:
    class Kept(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factors = torch.nn.Parameter(torch.linspace(-1, 2, 11))

        def forward(self, x: Tensor) -> Tensor:
            q = x[x.sum((1, 2, 3)) != 0] * self.factors
            bias = (q @ q.mT).detach()  # (kept, 3, 5, 5)
            shared = bias.new_ones(1, 1, 5, 1) > 0
            return (
                regard.scaled_dot_product_attention(q, q, q, bias)
                + regard.scaled_dot_product_attention(q, q, q, shared)
                + regard.attention(q, q, q, mask=bias[:, :1, :1] < 2)
            )

    model, x = Kept(), torch.randn(7, 3, 5, 11)
    x[2] = 0
    if way == "compile":
        torch.compiler.reset()
        traced: Any = torch.compile(model, backend="aot_eager", fullgraph=True)
    else:
        traced = torch.export.export(model, (x,), strict=way == "strict export").module()
    factors = model.factors if way == "compile" else traced.factors
    for n_kept in (6, 2, 1, 0):
        x[n_kept:] = 0
        out, expected = traced(x), model(x)
        assert torch.equal(out, expected)
        gradients = (
            torch.autograd.grad(found.square().sum(), [of])[0]
            for found, of in ((out, factors), (expected, model.factors))
        )
        torch.testing.assert_close(*gradients)


def test_packed_attention_that_was_exported_takes_any_batch_and_lengths() -> None:
    class Packed(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, of_q: Tensor, of_k: Tensor) -> Tensor:
            return regard.attention(q, k, v, causal=True, segments=(of_q, of_k))

    def packed(batch: int, n_queries: int, n_keys: int) -> tuple[Tensor, ...]:
        ids = (torch.randint(3, (batch, n)).sort(-1).values for n in (n_queries, n_keys))
        return *inputs(n_queries, n_keys, batch), *ids

    batch, n_queries, n_keys = (torch.export.Dim(name, min=2) for name in ("B", "Nq", "Nk"))
    of_keys = {0: batch, 2: n_keys}
    shapes = (
        {0: batch, 2: n_queries},
        of_keys,
        of_keys,
        {0: batch, 1: n_queries},
        {0: batch, 1: n_keys},
    )
    exported = torch.export.export(Packed(), packed(2, 5, 11), dynamic_shapes=shapes).module()
    for sizes in ((2, 5, 11), (3, 7, 7), (5, 13, 3)):
        given = packed(*sizes)
        assert torch.equal(exported(*given), Packed()(*given))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_was_scripted_and_saved_is_what_it_was(tmp_path: Path) -> None:
    attend = regard.scaled_dot_product_attention

    def step(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return attend(q, k, v, mask, 0.0, False, 0.5) + attend(q, k, v, is_causal=True)

    torch.jit.save(torch.jit.script(step), str(tmp_path / "step.pt"))
    scripted: Any = torch.jit.load(str(tmp_path / "step.pt"))
    for lengths in ((5, 11), (7, 3), (1, 1)):
        q, k, v = given = tuple(x.requires_grad_() for x in inputs(*lengths))
        mask = torch.rand(lengths) < 0.7
        expected, found = step(q, k, v, mask), scripted(q, k, v, mask)
        assert torch.equal(found, expected)
        gradients = (torch.autograd.grad(x.square().sum(), given) for x in (found, expected))
        assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
