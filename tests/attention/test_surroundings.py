"""What surrounds a call must not change it: default types, masks made of the lowest float, zeros
that were never written down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional

import regard

BACKENDS = ("native", "torch")


@pytest.fixture(params=[torch.float64, torch.bfloat16], ids=str)
def another_default(request: pytest.FixtureRequest) -> Iterator[None]:
    torch.set_default_dtype(request.param)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("another_default")
def test_results_are_of_the_type_of_the_inputs_whatever_the_default_is() -> None:
    q, k, v = (torch.randn(2, 3, 7, 11, dtype=torch.float32) for _ in range(3))
    out = regard.attention(q, k, v)
    assert out.dtype == torch.float32
    expected = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=5e-6)
    tile = regard.weights(q, k)
    assert tile.dtype == torch.float32
    torch.testing.assert_close(tile @ v, expected, atol=1e-5, rtol=5e-6)
    picture = regard.pooled(q, k, shape=(7, 7))
    torch.testing.assert_close(picture, tile, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_lowest_float_is_a_number_not_a_mask(backend: str, sign: int) -> None:
    q, k, v = (torch.randn(1, 2, 5, 7) for _ in range(3))
    bias = torch.full((5, 5), sign * torch.finfo(torch.float32).max)
    out = regard.attention(q, k, v, bias=bias, backend=backend)
    torch.testing.assert_close(out, v.mean(-2, keepdim=True).expand_as(out))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("score", [-88.9, 88.9, -180.0])
def test_a_block_of_keys_that_is_masked_adds_nothing_to_the_map(backend: str, score: float) -> None:
    mask = torch.arange(512) >= 256
    for queries in (3, 7):  # few, and many
        q, k = torch.full((1, 1, queries, 1), score), torch.ones(1, 1, 512, 1)
        _, seen = regard.attention(
            q, k, k, mask=mask, scale=1.0, see=regard.See(map=(1, 4)), backend=backend
        )
        assert seen.map is not None
        assert seen.map.flatten().tolist() == pytest.approx([0.0, 0.0, 0.5, 0.5], abs=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_that_fall_below_the_floats_weigh_nothing_and_hide_nothing(backend: str) -> None:
    q, v = torch.tensor([[[[1e20]]]]), torch.tensor([[[[1.0], [2.0], [3.0]]]])
    k = torch.tensor([[[[-1e20], [0.0], [1e-20]]]])
    expected = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(regard.attention(q, k, v, backend=backend), expected)
    k[0, 0, 0] = -torch.inf
    assert not regard.attention(q, k, v, backend=backend).isfinite().any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_zeros_without_memory_are_zeros(backend: str) -> None:
    q, v = torch.randn(1, 2, 5, 7), torch.randn(1, 2, 11, 3)
    k = torch._efficientzerotensor((1, 2, 11, 7))  # pyright: ignore[reportPrivateImportUsage]
    out = regard.attention(q, k, v, backend=backend)
    torch.testing.assert_close(out, v.mean(-2, keepdim=True).expand_as(out))


def test_what_was_seen_does_not_change_with_the_sinks_it_came_from() -> None:
    q, sinks = torch.randn(1, 3, 5, 7), torch.zeros(3)
    _, seen = regard.attention(q, q, q, sinks=sinks, see=regard.See())
    sinks.add_(5)
    assert seen.sinks is not None
    assert not seen.sinks.any()


def test_a_named_backend_is_used_or_refused_for_tiles_too() -> None:
    class Other(torch.Tensor):
        pass

    q = torch.randn(1, 1, 5, 7).as_subclass(Other)
    with pytest.raises(ValueError, match="native"):
        regard.weights(q, q, backend="native")
