"""Blocks of weights: exact to the edges, at every level."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch

import regard
from regard.run import Layer, Options
from regard.run.atlas import blocks, levels


def _layer(n_queries: int = 37, n_keys: int = 53, **options: Any) -> Layer:
    torch.manual_seed(0)
    q, k = torch.randn(2, 6, n_queries, 5), torch.randn(2, 3, n_keys, 5)
    _, seen = regard.attention(q, k, k, see=regard.See(), **options)
    return Layer("a", seen, Options(**options), q=q, k=k)


@pytest.mark.parametrize("options", [{}, {"causal": True}], ids=["all", "causal"])
@pytest.mark.parametrize("level", range(7))
@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_a_block_is_what_its_weights_are(
    level: int, reduce: Literal["mean", "max"], options: dict[str, Any]
) -> None:
    layer = _layer(**options)
    size = 1 << level
    rows, columns = -(-37 // size), -(-53 // size)
    found = blocks(layer, None, level, (0, rows), (0, columns), reduce)
    weights = layer.weights().double()
    assert found.shape == (2, 6, rows, columns)
    for r in range(rows):
        for c in range(columns):
            tile = weights[..., r * size : (r + 1) * size, c * size : (c + 1) * size]
            expected = tile.mean((-2, -1)) if reduce == "mean" else tile.amax((-2, -1))
            torch.testing.assert_close(found[..., r, c].double(), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "columns"), [((0, 1), (2, 5)), ((3, 5), (0, 7)), ((4, 5), (6, 7)), ((1, 3), (1, 2))]
)
def test_a_part_of_the_picture_is_that_part(
    rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    layer = _layer()
    whole = blocks(layer, 4, 3, (0, 5), (0, 7))
    found = blocks(layer, 4, 3, rows, columns)
    assert torch.equal(found, whole[:, slice(*rows), slice(*columns)])


@pytest.mark.parametrize(("length", "level"), [(256, 0), (257, 1), (8192, 5), (100_000, 9)])
def test_the_coarsest_level_is_the_first_that_fits_a_tile(length: int, level: int) -> None:
    lse = torch.zeros(1, 1, length)
    seen = regard.Observation(lse=lse, n_keys=length)
    assert levels(Layer("a", seen)) == level
