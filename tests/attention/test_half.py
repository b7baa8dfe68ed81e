"""bfloat16 and float16 in the kernel: converted where they are read and written, all else float32.

So what it finds is what it finds of the same numbers in float32, to the last bit; but for
bfloat16 by AMX, whose products of tiles are sums in an order of their own.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.attention_problems import (
    Problem,
    Sight,
    assert_observation_is_right,
    assert_output_is_right,
    problems,
    threads,
    unit_variance,
)
from helpers.kernels import KERNELS, on_each_kernel, using
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard import _native
from regard._attention.native import multiply

HALVES = (torch.bfloat16, torch.float16)
on_each_half = pytest.mark.parametrize("dtype", HALVES, ids=str)


def in_float32(problem: Problem) -> Problem:
    return replace(problem, q=problem.q.float(), k=problem.k.float(), v=problem.v.float())


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal, and NaN where the other is."""
    return a.dtype == b.dtype and torch.equal(a.nan_to_num(7.25), b.nan_to_num(7.25))


def is_by_tiles(problem: Problem) -> bool:
    """Whether AMX serves: bfloat16, and more queries than are read without packing the keys."""
    few = problem.n_queries <= 4
    return _native.kernel() == "amx" and problem.q.dtype == torch.bfloat16 and not few


def assert_near(problem: Problem, sight: Sight, **changed: Any) -> None:
    """As right as float32 in what is seen; in the output, before it is rounded, to a weight's 16
    digits."""
    problem = replace(problem, options=problem.options | changed)
    whole = in_float32(problem)
    output, seen = problem.observe("native", sight.see)
    assert_output_is_right(problem, output)
    assert_observation_is_right(whole, seen, sight)
    expected = whole.attend("native")
    rounding = expected.abs() * 2.0**-8 + float(problem.v.abs().max()) * 2.0**-16
    assert bool(((output.float() - expected).abs() <= rounding).all())


def assert_same(problem: Problem, sight: Sight, **changed: Any) -> None:
    if not is_by_tiles(problem):
        assert_same_as_float32(problem, sight, **changed)
        return
    if all(bool(x.isfinite().all()) for x in (problem.q, problem.k, problem.v)):
        assert_near(problem, sight, **changed)
    with using("avx512"):
        assert_same_as_float32(problem, sight, **changed)


def assert_same_as_float32(problem: Problem, sight: Sight, **changed: Any) -> None:
    output, seen = problem.observe("native", sight.see, **changed)
    expected, all_seen = in_float32(problem).observe("native", sight.see, **changed)
    assert same_bits(output, expected.to(problem.q.dtype))
    for name in ("lse", "entropy", "top_keys", "top_weights", "map", "received", "distance"):
        assert same_bits(getattr(seen, name), getattr(all_seen, name)), name


@on_each_half
@given(data=st.data())
def test_what_is_seen_of_halves_is_what_is_seen_of_them_in_float32(
    dtype: torch.dtype, data: st.DataObject
) -> None:
    problem = data.draw(problems(dtype=dtype))
    assert_same(problem, Sight(3, (5, 7), None))
    options = problem.options
    with using("avx512") if is_by_tiles(problem) else nullcontext():
        tile = regard.weights(problem.q, problem.k, backend="native", **options)
        expected = regard.weights(problem.q.float(), problem.k.float(), backend="native", **options)
    assert same_bits(tile, expected)


@on_each_half
@on_each_kernel
@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 2311), (3, 67), (4, 4099), (131, 1031)])
def test_few_queries_and_many_are_read_alike_by_every_kernel(
    dtype: torch.dtype, kernel: str, n_queries: int, n_keys: int
) -> None:
    whole = unit_variance(n_queries, n_keys, 37, 19)
    problem = replace(whole, q=whole.q.to(dtype), k=whole.k.to(dtype), v=whole.v.to(dtype))
    for count in (1, 3):
        with threads(count), using(kernel):
            assert_same(problem, Sight(2, (3, 4), None), causal=True)


@on_each_half
@pytest.mark.parametrize("n_queries", [2, 23])
def test_what_is_not_finite_is_found_in_halves(dtype: torch.dtype, n_queries: int) -> None:
    whole = unit_variance(n_queries, 61, 11, 13)
    for name, value in (("k", math.nan), ("v", math.inf), ("v", math.nan), ("q", -math.inf)):
        tensors = {part: getattr(whole, part).to(dtype).clone() for part in "qkv"}
        tensors[name][0, 0, 1, 5] = value
        problem = replace(whole, **tensors)
        assert_same(problem, Sight(2, (2, 3), None))
        # A key that is forbidden has no effect.
        mask = torch.ones(61, dtype=torch.bool)
        mask[1] = name == "q"
        assert_same(problem, Sight(2, (2, 3), None), mask=mask)


@on_each_half
def test_a_number_is_rounded_to_the_nearest_half(dtype: torch.dtype) -> None:
    """The mean of two values, for every pair of neighbours among all finite numbers of the type."""
    bits = torch.arange(-(2**15), 2**15).to(torch.int16)
    values = bits.view(dtype)
    values = values[values.isfinite() & (values.abs() < torch.finfo(dtype).max / 4)]
    pairs = torch.stack([values[:-1], values[1:]])[None, None]  # one row of V for each key
    q = torch.zeros(1, 1, 1, 1, dtype=dtype)
    k = torch.zeros(1, 1, 2, 1, dtype=dtype)
    for kernel in KERNELS:
        with using(kernel):
            found = regard.attention(q, k, pairs, backend="native")
            few = regard.attention(q.expand(1, 1, 5, 1), k, pairs, backend="native")
        expected = (pairs[0, 0].double().sum(0) / 2).to(torch.float32).to(dtype)
        assert torch.equal(found[0, 0, 0], expected)
        assert torch.equal(few[0, 0, 4], expected)


@on_each_half
@on_each_kernel
def test_numbers_that_overflow_and_those_that_vanish_are_written_as_pytorch_does(
    dtype: torch.dtype, kernel: str
) -> None:
    """What is added up lies beyond the type, between its numbers, or is not one."""
    most = torch.finfo(dtype).max
    values = torch.tensor([most, -most, most / 2, 3.0, 1e-7, -6e-8, math.inf, math.nan, 0.0])
    pair = values.to(dtype).expand(1, 1, 2, -1)
    q = torch.zeros(1, 1, 7, 2, dtype=dtype)
    k = torch.zeros(1, 1, 2, 2, dtype=dtype)
    sinks = torch.tensor([-1.0])
    with using(kernel):
        found = regard.attention(q, k, pair, sinks=sinks, backend="native")
        exact = regard.attention(q.float(), k.float(), pair.float(), sinks=sinks, backend="native")
    assert same_bits(found, exact.to(dtype))


@on_each_half
@pytest.mark.parametrize("n_keys", [97, 2500])
def test_gradients_of_halves_are_right_and_have_the_same_bits_in_any_number_of_threads(
    dtype: torch.dtype, n_keys: int
) -> None:
    whole = unit_variance(53, n_keys, 24, 17)
    tensors = [x.to(dtype).requires_grad_() for x in (whole.q, whole.k, whole.v)]
    flowing = whole.normal(*whole.q.shape[:3], 17).to(dtype)
    found: list[tuple[Tensor, ...]] = []
    for count in (1, 2, 5):
        with threads(count):
            output = regard.attention(*tensors, causal=True, backend="native")
            found.append(torch.autograd.grad(output, tensors, flowing))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    exact = [x.detach().double().requires_grad_() for x in tensors]
    output = regard.attention(*exact, causal=True)
    expected = torch.autograd.grad(output, exact, flowing.double())
    unit = torch.finfo(dtype).eps
    for gradient, truth in zip(found[0], expected, strict=True):
        assert gradient.dtype == dtype
        error = (gradient.double() - truth).abs()
        assert float(error.max()) <= unit * float(truth.abs().max())


@on_each_half
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 67, 31), (5, 8, 13), (16, 129, 7)])
def test_a_linear_map_of_halves_is_that_of_float32_rounded(
    dtype: torch.dtype, has_bias: bool, rows: int, inputs: int, outputs: int
) -> None:
    generator = torch.Generator().manual_seed(rows)
    x, weight, bias = (
        torch.randn(shape, generator=generator).to(dtype)
        for shape in ((rows, inputs), (outputs, inputs), (outputs,))
    )
    added = bias if has_bias else None
    found = torch.empty(rows, outputs, dtype=dtype)
    assert _native.linear(x, ((weight, added, found),), 2)
    exact = torch.empty(rows, outputs)
    added = bias.float() if has_bias else None
    assert _native.linear(x.float(), ((weight.float(), added, exact),), 2)
    assert torch.equal(found, exact.to(dtype))


@on_each_half
def test_tensors_of_two_types_are_not_read(dtype: torch.dtype) -> None:
    x, half = torch.randn(3, 5), torch.randn(3, 5).to(dtype)
    assert not _native.linear(x, ((half, None, torch.empty(3, 3)),), 1)
    assert not _native.linear(half, ((half, None, torch.empty(3, 3)),), 1)
    y = torch.empty(3, 3, dtype=dtype)
    assert not _native.linear(half, ((half, torch.zeros(3), y),), 1)
    with pytest.raises(RuntimeError, match="cannot read"):
        multiply(half[None, None], half.t()[None, None])
