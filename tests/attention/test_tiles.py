"""`weights` and `pooled`: any rectangle of the weights, exact, without the whole."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from helpers.attention_problems import (
    Problem,
    assert_right,
    assert_same_bits,
    error,
    exponent_size,
    numbers,
    on_each_backend,
    on_each_backend_and_dtype,
    problems,
    score_size,
    threads,
    unit,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import regard

Array = NDArray[np.float64]
Reduce = Literal["mean", "max"]


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    """A part of `size` things: often a proper one, sometimes empty, open or counted from behind."""
    start, stop = sorted(draw(st.integers(0, size)) for _ in range(2))
    kind = draw(st.sampled_from(("closed", "closed", "open", "behind", "beyond")))
    if kind == "open":
        return slice(None, stop) if draw(st.booleans()) else slice(start, None)
    if kind == "behind" and start > 0:
        return slice(start - size or None, stop - size or None)
    return slice(start, stop + 5 if kind == "beyond" and stop == size else stop)


def given_lse(problem: Problem, backend: str, data: st.DataObject) -> Tensor | None:
    if data.draw(st.booleans()):
        return None
    return problem.observe(backend, regard.See())[1].lse


def picture(weights: Array, shape: tuple[int, int], reduce: Reduce) -> Array:
    """(…, R, C): cell (i, j) falls in pixel (⌊i·R/rows⌋, ⌊j·C/keys⌋); 0 where none falls."""
    for axis, count in zip((-2, -1), shape, strict=True):
        size = weights.shape[axis]
        bin_of = np.arange(size) * count // max(size, 1)
        bins = [np.compress(bin_of == n, weights, axis=axis) for n in range(count)]
        # All rows of a picture are means of full rows, so that the mean of means is the mean.
        bands = [
            getattr(band, reduce)(axis=axis)
            if band.shape[axis]
            else np.zeros_like(weights.sum(axis=axis))
            for band in bins
        ]
        weights = np.stack(bands, axis=axis)
    return weights


@on_each_backend_and_dtype
@given(data=st.data())
def test_any_tile_of_the_weights_is_right(
    backend: str, dtype: torch.dtype, data: st.DataObject
) -> None:
    problem = data.draw(problems(dtype=dtype))
    rows, keys = data.draw(slices(problem.n_queries)), data.draw(slices(problem.n_keys))
    found = regard.weights(
        problem.q,
        problem.k,
        rows=rows,
        keys=keys,
        lse=given_lse(problem, backend, data),
        backend=backend,
        **problem.options,
    )
    step, peer = problem.truth(), problem.eager.weights
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert found.dtype == wide
    # The whole of eager's error is the measure: a tile may be a single number.
    allowance = 4 * unit(wide) * exponent_size(problem) + 2 * error(peer, step.weights)
    assert_right("tile", found, step.weights[..., rows, keys], peer[..., rows, keys], allowance)
    assert not found[torch.from_numpy(~step.allowed[..., rows, keys])].any()


@on_each_backend_and_dtype
@pytest.mark.parametrize("reduce", ["mean", "max"])
@given(data=st.data())
def test_any_picture_of_a_rectangle_is_right(
    backend: str, dtype: torch.dtype, reduce: Reduce, data: st.DataObject
) -> None:
    problem = data.draw(problems(dtype=dtype))
    rows, keys = data.draw(slices(problem.n_queries)), data.draw(slices(problem.n_keys))
    side = st.sampled_from((1, 2, 3, 7, 16))
    shape = (data.draw(side), data.draw(side))
    found = regard.pooled(
        problem.q,
        problem.k,
        rows=rows,
        keys=keys,
        shape=shape,
        reduce=reduce,
        lse=given_lse(problem, backend, data),
        backend=backend,
        **problem.options,
    )
    step, peer = problem.truth(), problem.eager.weights
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert found.dtype == wide
    expected = picture(step.weights[..., rows, keys], shape, reduce)
    limit = 4 * unit(wide) * exponent_size(problem) + 2 * error(peer, step.weights)
    assert error(found, expected) <= limit


@on_each_backend
@pytest.mark.parametrize("reduce", ["mean", "max"])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(97, 257), (193, 31), (5, 521), (257, 263)])
def test_pictures_at_the_edges_of_blocks_are_right(
    backend: str, reduce: Reduce, n_queries: int, n_keys: int
) -> None:
    random = np.random.default_rng(n_queries)
    q, k = (
        torch.from_numpy(random.normal(size=shape)).float()
        for shape in ((1, 2, n_queries, 8), (1, 1, n_keys, 8))
    )
    for causal in (False, True):
        problem = Problem(q, k, k, {"causal": causal}, random)
        step = problem.truth()
        for rows in (slice(0, n_queries), slice(3, n_queries - 1), slice(95, 98)):
            for keys in (slice(0, n_keys), slice(15, 18), slice(5, 258)):
                for shape in ((1, 1), (16, 16), (300, 37)):
                    found = regard.pooled(
                        q,
                        k,
                        rows=rows,
                        keys=keys,
                        shape=shape,
                        reduce=reduce,
                        causal=causal,
                        backend=backend,
                    )
                    expected = picture(step.weights[..., rows, keys], shape, reduce)
                    assert error(found, expected) <= 2e-6


@on_each_backend
@given(data=st.data())
def test_a_picture_with_a_pixel_for_each_cell_is_the_tile(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sizes=(1, 2, 3, 5, 7, 13, 17)))
    shape = (problem.n_queries, problem.n_keys)
    tile = regard.weights(problem.q, problem.k, backend=backend, **problem.options)
    for reduce in ("mean", "max"):
        found = regard.pooled(
            problem.q, problem.k, shape=shape, reduce=reduce, backend=backend, **problem.options
        )
        torch.testing.assert_close(found, tile, rtol=1e-6, atol=1e-7)


@on_each_backend
@given(data=st.data())
def test_weights_times_values_are_the_output(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    tile = regard.weights(problem.q, problem.k, backend=backend, **problem.options)
    v = problem.v.repeat_interleave(problem.heads // problem.v.shape[1], dim=1)
    size = score_size(problem, problem.truth())
    torch.testing.assert_close(
        tile @ v, problem.attend(backend), rtol=0, atol=64 * unit(torch.float32) * size * 5
    )


@on_each_backend
@pytest.mark.parametrize("count", [1, 2, 4])
def test_tiles_and_pictures_do_not_depend_on_threads(backend: str, count: int) -> None:
    random = np.random.default_rng(4)
    q, k = (torch.from_numpy(random.normal(size=(2, 3, n, 17))).float() for n in (101, 263))

    def look() -> list[Tensor]:
        part: dict[str, Any] = {"rows": slice(5, 99), "keys": slice(7, 261), "backend": backend}
        return [
            regard.weights(q, k, **part),
            regard.pooled(q, k, shape=(16, 16), reduce="mean", **part),
            regard.pooled(q, k, shape=(16, 16), reduce="max", **part),
        ]

    with threads(2):
        expected = look()
    with threads(count):
        for one, other in zip(look(), expected, strict=True):
            if backend == "native":
                assert_same_bits(one, other)
            else:
                torch.testing.assert_close(one, other)


@on_each_backend
@given(data=st.data())
def test_tiles_show_what_is_not_finite_where_the_reference_does(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    j = data.draw(st.integers(0, problem.n_keys - 1))
    k = problem.k.clone()
    k[:, :, j] = data.draw(st.sampled_from((math.nan, math.inf, -math.inf)))
    spoilt = replace(problem, k=k)
    step = spoilt.truth()
    found = regard.weights(spoilt.q, spoilt.k, backend=backend, **spoilt.options)
    np.testing.assert_array_equal(np.isfinite(numbers(found)), np.isfinite(step.weights))
    clean = regard.weights(problem.q, problem.k, backend=backend, **problem.options)
    whole = torch.from_numpy(np.isfinite(step.weights).all(axis=-1))
    if backend == "native":
        assert_same_bits(found[whole], clean[whole])
    else:
        torch.testing.assert_close(found[whole], clean[whole], rtol=1e-5, atol=1e-6)
    expected = picture(step.weights, (3, 2), "max")
    pooled = regard.pooled(
        spoilt.q, spoilt.k, shape=(3, 2), reduce="max", backend=backend, **spoilt.options
    )
    np.testing.assert_array_equal(np.isfinite(numbers(pooled)), np.isfinite(expected))
