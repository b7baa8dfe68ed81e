"""Sizes of 0 and 1, and observations that are larger than what there is to observe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_problems import (
    Problem,
    Sight,
    assert_observation_is_right,
    assert_output_is_right,
    on_each_backend,
    parts,
)

import regard

# B, H, Hkv, Nq, Nk
EMPTY = {
    "no query": (2, 3, 3, 0, 7),
    "no key": (2, 3, 1, 5, 0),
    "no key, many queries": (2, 3, 1, 101, 0),
    "no key, one query": (2, 3, 1, 1, 0),
    "no sequence": (0, 3, 1, 5, 7),
    "no head": (2, 0, 0, 5, 7),
    "no query head": (2, 0, 2, 5, 7),
    "nothing": (0, 0, 0, 0, 0),
}
empty = pytest.mark.parametrize("sizes", EMPTY.values(), ids=list(EMPTY))


def inputs(
    sizes: tuple[int, ...], width: int = 3, value_width: int = 5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch, heads, kv_heads, n_queries, n_keys = sizes
    return (
        torch.randn(batch, heads, n_queries, width),
        torch.randn(batch, kv_heads, n_keys, width),
        torch.randn(batch, kv_heads, n_keys, value_width),
    )


@on_each_backend
@empty
@pytest.mark.parametrize("causal", [False, True])
def test_sizes_of_zero_give_well_shaped_results(
    backend: str, sizes: tuple[int, ...], causal: bool
) -> None:
    batch, heads, _, n_queries, n_keys = sizes
    options: dict[str, Any] = {
        "mask": torch.ones(batch, 1, 1, n_keys, dtype=torch.bool),
        "lengths": torch.full((batch,), n_keys),
        "sinks": torch.zeros(heads),
    }
    sight = Sight(4, (3, 7), torch.ones(batch, n_queries, dtype=torch.bool))
    for given in ({}, options):
        answer = regard.attention(
            *inputs(sizes), causal=causal, see=sight.see, backend=backend, **given
        )
        found = parts(*answer)
        shapes = {
            "output": (batch, heads, n_queries, 5),
            "lse": (batch, heads, n_queries),
            "entropy": (batch, heads, n_queries),
            "distance": (batch, heads, n_queries),
            "top_keys": (batch, heads, n_queries, 4),
            "top_weights": (batch, heads, n_queries, 4),
            "map": (batch, heads, 3, 7),
            "received": (batch, heads, n_keys),
        }
        for name, shape in shapes.items():
            assert tuple(found[name].shape) == shape, name
        assert found["lse"].isneginf().all()
        assert (found["top_keys"] == -1).all()
        for name in ("output", "entropy", "distance", "top_weights", "map", "received"):
            assert not found[name].any(), name


@on_each_backend
@empty
def test_sizes_of_zero_have_gradients_of_zero(backend: str, sizes: tuple[int, ...]) -> None:
    q, k, v = (x.requires_grad_() for x in inputs(sizes))
    output = regard.attention(q, k, v, backend=backend)
    for x, gradient in zip((q, k, v), torch.autograd.grad(output.sum(), (q, k, v)), strict=True):
        assert gradient.shape == x.shape
        assert not gradient.any()


@on_each_backend
@empty
def test_tiles_and_pictures_of_nothing_are_well_shaped(
    backend: str, sizes: tuple[int, ...]
) -> None:
    batch, heads, _, n_queries, n_keys = sizes
    q, k, _ = inputs(sizes)
    tile = regard.weights(q, k, backend=backend)
    assert tuple(tile.shape) == (batch, heads, n_queries, n_keys)
    picture = regard.pooled(q, k, shape=(3, 7), backend=backend)
    assert tuple(picture.shape) == (batch, heads, 3, 7)
    assert not picture.any()


@on_each_backend
@pytest.mark.parametrize("n_queries", [1, 5, 13, 97])
@pytest.mark.parametrize("n_keys", [1, 2, 17])
def test_one_number_a_key_is_enough(backend: str, n_queries: int, n_keys: int) -> None:
    random = np.random.default_rng(1)
    q, k, v = inputs((2, 3, 3, n_queries, n_keys), width=1, value_width=1)
    problem = Problem(q, k, v, {}, random)
    assert_output_is_right(problem, problem.attend(backend))


@on_each_backend
@pytest.mark.parametrize("n_queries", [1, 5, 97])
def test_more_keys_may_be_asked_for_than_there_are_and_larger_maps(
    backend: str, n_queries: int
) -> None:
    random = np.random.default_rng(1)
    for causal in (False, True):
        problem = Problem(*inputs((2, 3, 1, n_queries, 7)), {"causal": causal}, random)
        sight = Sight(11, (n_queries * 2 + 1, 17), None)
        output, seen = problem.observe(backend, sight.see)
        assert_output_is_right(problem, output)
        assert_observation_is_right(problem, seen, sight)


@on_each_backend
def test_many_more_keys_may_be_asked_for_than_a_register_holds(backend: str) -> None:
    problem = Problem(*inputs((1, 2, 1, 7, 300)), {}, np.random.default_rng(1))
    for top in (33, 64, 100, 300, 301):
        sight = Sight(top, (1, 1), None)
        output, seen = problem.observe(backend, sight.see)
        assert_output_is_right(problem, output)
        assert_observation_is_right(problem, seen, sight)
