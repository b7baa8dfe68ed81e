"""Attention and everything it reports against `regard.reference`: any options, sizes and dtypes."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_problems import (
    LAYOUTS,
    WIDTHS,
    Problem,
    Sight,
    assert_observation_is_right,
    assert_output_is_right,
    assert_right,
    error,
    exponent_size,
    laid_out,
    numbers,
    on_each_backend,
    on_each_backend_and_dtype,
    problems,
    sights,
    unit,
    unit_variance,
)
from helpers.kernels import KERNELS, on_each_kernel, using
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard._attention import problem as torch_backend

QUERY_EDGES = (1, 2, 4, 5, 6, 7, 11, 12, 13, 95, 96, 97, 101, 191, 192, 193)
KEY_EDGES = (1, 2, 15, 16, 17, 31, 33, 255, 256, 257, 511, 512, 513)


@on_each_backend_and_dtype
@given(data=st.data())
def test_any_options_together_are_as_right_as_the_eager_computation(
    backend: str, dtype: torch.dtype, data: st.DataObject
) -> None:
    problem = data.draw(problems(dtype=dtype))
    sight = data.draw(sights(problem))
    output, seen = problem.observe(backend, sight.see)
    assert_output_is_right(problem, output)
    assert_observation_is_right(problem, seen, sight)


@on_each_kernel
@given(data=st.data())
def test_every_build_of_the_kernel_is_as_right(kernel: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    with using(kernel):
        output, seen = problem.observe("native", sight.see)
        tile = regard.weights(problem.q, problem.k, backend="native", **problem.options)
    assert_output_is_right(problem, output)
    assert_observation_is_right(problem, seen, sight)
    allowance = 4 * unit(torch.float32) * exponent_size(problem)
    assert_right("tile", tile, problem.truth().weights, problem.eager.weights, allowance)


# Of equal weights each one that is added to a sum would be rounded the same way, and the error
# would grow with the queries. `n_seen` of the keys have the weight 1 / n_seen, the others 0.
EQUAL = [(96, 3, 3), (96, 29, 21), (96, 17, 7), (97, 31, 13), (20011, 7, 7)]
BUILDS = (*KERNELS, "torch")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize(("n_queries", "n_keys", "n_seen"), EQUAL)
def test_equal_weights_of_many_queries_are_added_up_as_well_as_those_of_few(
    build: str,
    dtype: torch.dtype,
    n_queries: int,
    n_keys: int,
    n_seen: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k = (torch.ones(1, 1, n, 1, dtype=dtype) for n in (n_queries, n_keys))
    lengths, backend = torch.tensor([n_seen]), "torch" if build == "torch" else "native"
    weight = np.where(np.arange(n_keys) < n_seen, 1 / n_seen, 0.0)
    monkeypatch.setattr(torch_backend, "_CHUNK", 101 * n_keys)  # many chunks of few queries
    with nullcontext() if build == "torch" else using(build):
        for rows, columns in ((1, 1), (3, 2), (2, n_keys)):
            see = regard.See(map=(rows, columns), received=True)
            _, seen = regard.attention(
                q, k, k, scale=0.0, lengths=lengths, see=see, backend=backend
            )
            picture = np.zeros(columns)
            np.add.at(picture, np.arange(n_keys) * columns // n_keys, weight)
            for found, truth in (
                (seen.received, n_queries * weight),
                (seen.map, np.broadcast_to(picture, (rows, columns))),
            ):
                assert found is not None
                assert error(found[0, 0], truth) <= 8 * unit(found.dtype) * truth.max()


@on_each_backend
@pytest.mark.parametrize("n_queries", QUERY_EDGES)
def test_every_size_at_the_edge_of_a_block_is_right(backend: str, n_queries: int) -> None:
    for n_keys in KEY_EDGES:
        problem = unit_variance(n_queries, n_keys, 8, 3, causal=(n_queries + n_keys) % 3 == 0)
        sight = Sight(8, (5, 7), None)
        output, seen = problem.observe(backend, sight.see)
        assert_output_is_right(problem, output)
        assert_observation_is_right(problem, seen, sight)


# Few queries on parts of 2048 keys each; queries in up to 64 spans; several tiles and blocks.
LARGE = [(1, 2048), (1, 2049), (2, 6151), (4, 4099), (5, 2053), (1153, 67), (449, 263), (131, 1031)]


@on_each_backend
@pytest.mark.parametrize(("n_queries", "n_keys"), LARGE)
def test_every_option_at_larger_sizes_is_right(backend: str, n_queries: int, n_keys: int) -> None:
    problem = unit_variance(n_queries, n_keys, 17, 5)
    ways: list[dict[str, Any]] = [
        {},
        {"causal": True},
        {"window": (n_keys // 3, 5), "softcap": 3.0},
        {"mask": problem.flags(n_keys, share=0.7), "sinks": problem.normal(2)},
        {"mask": problem.flags(n_queries, n_keys, share=0.01), "causal": True},
        {"bias": problem.normal(1, 2, 1, n_keys), "lengths": torch.tensor([n_keys * 2 // 3])},
    ]
    for n, options in enumerate(ways):
        posed = problem.with_options(**options)
        sight = Sight((8, 3, 20)[n % 3], ((37, 41), (128, 5), (1, 1))[n % 3], None)
        output, seen = posed.observe(backend, sight.see)
        assert_output_is_right(posed, output)
        assert_observation_is_right(posed, seen, sight)


@on_each_backend
@pytest.mark.parametrize("width", [*WIDTHS, 2, 15, 16, 128, 130])
def test_every_width_is_right(backend: str, width: int) -> None:
    for value_width, n_queries in itertools.product((*WIDTHS, 16, 128, 130), (1, 19)):
        problem = unit_variance(n_queries, 37, width, value_width)
        assert_output_is_right(problem, problem.attend(backend))


@on_each_backend
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1021), (101, 103), (509, 521), (67, 1031)])
def test_inputs_of_unit_variance_are_right_to_five_digits(
    backend: str, n_queries: int, n_keys: int, causal: bool
) -> None:
    for width in (32, 64, 128):
        problem = unit_variance(n_queries, n_keys, width, 17, causal=causal)
        found, step = problem.attend(backend), problem.truth()
        np.testing.assert_allclose(numbers(found), step.output, rtol=5e-6, atol=1e-5)


@on_each_backend
@pytest.mark.parametrize("layout", LAYOUTS[:5])
def test_a_mask_and_a_bias_of_any_broadcast_shape_and_layout_are_right(
    backend: str, layout: str
) -> None:
    for n_queries, n_keys in ((3, 37), (13, 17), (101, 7)):
        square = (2, 3, n_queries, n_keys)
        random = np.random.default_rng(n_queries)
        q, k, v = (
            torch.from_numpy(random.normal(size=shape)).float()
            for shape in ((2, 3, n_queries, 5), (2, 1, n_keys, 5), (2, 1, n_keys, 2))
        )
        for kept in itertools.product((False, True), repeat=4):
            shape = [size if keep else 1 for size, keep in zip(square, kept, strict=True)]
            problem = Problem(q, k, v, {}, random)
            mask, bias = problem.flags(*shape, share=0.7), problem.normal(*shape)
            for first in range(kept.index(True) + 1 if any(kept) else 4):
                short = shape[first:]
                options = {
                    "mask": laid_out(mask.reshape(short), layout),
                    "bias": laid_out(bias.reshape(short), layout),
                }
                assert_output_is_right(
                    problem.with_options(**options), problem.attend(backend, **options)
                )


@on_each_backend
@given(data=st.data())
def test_a_mask_and_a_bias_that_were_expanded_are_right(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(by_key=False))
    mask = problem.flags(problem.n_keys, share=0.7).expand(problem.square)
    bias = problem.normal(problem.batch, 1, problem.n_queries, 1).expand(problem.square)
    expanded = problem.with_options(mask=mask, bias=bias)
    assert_output_is_right(expanded, expanded.attend(backend))


@on_each_backend
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_bias_and_sinks_of_another_float_type_are_what_they_say(
    backend: str, dtype: torch.dtype
) -> None:
    problem = unit_variance(13, 37, 8, 3)
    options = {"bias": problem.normal(13, 37).to(dtype), "sinks": problem.normal(2).to(dtype)}
    problem = problem.with_options(**options)
    rounded = {name: given.float() for name, given in options.items()}
    assert_output_is_right(problem.with_options(**rounded), problem.attend(backend))


@on_each_backend
@given(data=st.data())
def test_the_sight_of_some_queries_alone_counts_only_those(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    queries = problem.flags(problem.batch, problem.n_queries)
    padding = laid_out(queries, data.draw(st.sampled_from(LAYOUTS[:5])))
    sight = Sight(4, (3, 5), padding)
    output, seen = problem.observe(backend, sight.see)
    assert_output_is_right(problem, output)
    assert_observation_is_right(problem, seen, sight)


@on_each_backend
@given(data=st.data())
def test_each_observation_may_be_asked_for_alone(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    _, everything = problem.observe(backend, Sight(5, (3, 7), None).see)
    alone: dict[str, dict[str, Any]] = {
        "entropy": {"entropy": True},
        "top_weights": {"top": 5},
        "map": {"map": (3, 7)},
        "received": {"received": True},
        "distance": {"distance": True},
        "lse": {},
    }
    for name, asked in alone.items():
        _, seen = problem.observe(backend, regard.See(**asked))
        assert torch.equal(getattr(seen, name), getattr(everything, name))
        assert torch.equal(seen.lse, everything.lse)


@on_each_backend
@given(data=st.data())
def test_a_sink_of_minus_infinity_is_no_sink(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(sinks=False))
    sinks = torch.full((problem.heads,), -torch.inf)
    assert_output_is_right(problem, problem.attend(backend, sinks=sinks))
