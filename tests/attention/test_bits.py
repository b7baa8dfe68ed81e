"""The same bits, whatever surrounds the numbers: threads, repeats, the batch, sight, training."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_problems import (
    Problem,
    Sight,
    assert_close,
    assert_same,
    assert_same_bits,
    laid_out,
    largest,
    on_each_backend,
    parts,
    problems,
    sights,
    threads,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard

SHAPES = [(1, 5003), (4, 2501), (7, 61), (97, 257), (193, 101)]


def some_problem(
    n_queries: int, n_keys: int, heads: tuple[int, int] = (3, 1), **options: Any
) -> Problem:
    random = np.random.default_rng(n_queries * 1009 + n_keys)
    q, k, v = (
        torch.from_numpy(random.normal(size=shape)).float()
        for shape in (
            (2, heads[0], n_queries, 17),
            (2, heads[1], n_keys, 17),
            (2, heads[1], n_keys, 5),
        )
    )
    return Problem(q, k, v, options, random)


def gradients(problem: Problem, backend: str) -> tuple[Tensor, ...]:
    inputs = [x.detach().clone().requires_grad_() for x in (problem.q, problem.k, problem.v)]
    output = regard.attention(*inputs, backend=backend, **problem.options)
    random = torch.Generator().manual_seed(5)
    return torch.autograd.grad(output, inputs, torch.randn(output.shape, generator=random))


@on_each_backend
@pytest.mark.parametrize(("n_queries", "n_keys"), SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_one_two_and_four_threads_give_the_same(
    backend: str, n_queries: int, n_keys: int, causal: bool
) -> None:
    problem = some_problem(n_queries, n_keys, causal=causal)
    found: list[dict[str, Tensor]] = []
    for count in (1, 2, 4):
        with threads(count):
            found.append(parts(*problem.observe(backend, Sight(8, (16, 16), None).see)))
    for other in found[1:]:
        assert_same(backend, other["output"], found[0]["output"], problem)
        if backend == "native":
            for name in other:
                assert_same_bits(other[name], found[0][name])


@given(data=st.data())
def test_threads_change_no_bit_of_any_problem(data: st.DataObject) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    found: list[dict[str, Tensor]] = []
    for count in (1, 2, 4):
        with threads(count):
            found.append(parts(*problem.observe("native", sight.see)))
    for other in found[1:]:
        for name in other:
            assert_same_bits(other[name], found[0][name])


@on_each_backend
@pytest.mark.parametrize(("n_queries", "n_keys"), SHAPES)
def test_one_two_and_four_threads_give_the_same_gradients(
    backend: str, n_queries: int, n_keys: int
) -> None:
    problem = some_problem(n_queries, n_keys, causal=True)
    found: list[tuple[Tensor, ...]] = []
    for count in (1, 2, 4):
        with threads(count):
            found.append(gradients(problem, backend))
    for other in found[1:]:
        for one, first in zip(other, found[0], strict=True):
            if backend == "native":
                assert_same_bits(one, first)
            else:
                assert_close(one, first, problem, largest(first))


@pytest.mark.parametrize(("backend", "repeats"), [("native", 250), ("torch", 20)])
def test_any_number_of_repeats_gives_the_same_bits(backend: str, repeats: int) -> None:
    see = Sight(8, (16, 16), None).see
    ways = [some_problem(4, 2501, causal=True), some_problem(97, 61, causal=True)]

    def everything(problem: Problem) -> Tensor:
        found = parts(*problem.observe(backend, see))
        return torch.cat([x.double().flatten() for x in found.values()])

    with threads(2):
        first = [everything(problem) for problem in ways]
        for n in range(repeats):
            assert torch.equal(everything(ways[n % 2]), first[n % 2])


@on_each_backend
@given(data=st.data())
def test_looking_changes_no_bit_of_the_output(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    plain = problem.attend(backend)
    sight = data.draw(sights(problem))
    looks: list[dict[str, Any]] = [
        {},
        {"entropy": True},
        {"distance": True},
        {"received": True},
        {"top": sight.top},
        {"map": sight.map, "queries": sight.queries},
    ]
    for see in (sight.see, *(regard.See(**look) for look in looks)):
        output, _ = problem.observe(backend, see)
        assert_same_bits(output, plain)


@on_each_backend
@given(data=st.data())
def test_training_changes_no_bit_of_the_output_or_of_what_is_seen(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    plain, seen = problem.attend(backend), parts(*problem.observe(backend, sight.see))
    which = data.draw(st.integers(1, 7))
    q, k, v = (
        x.detach().requires_grad_(bool(which >> n & 1))
        for n, x in enumerate((problem.q, problem.k, problem.v))
    )
    training = Problem(q, k, v, problem.options, problem.random)
    output = training.attend(backend)
    assert output.requires_grad
    assert_same_bits(output, plain)
    observed = parts(*training.observe(backend, sight.see))
    assert observed["output"].requires_grad
    for name, found in observed.items():
        assert_same_bits(found, seen[name])
        assert name == "output" or not found.requires_grad
    with torch.no_grad():
        assert_same_bits(training.attend(backend), plain)
    with torch.inference_mode():
        assert_same_bits(training.attend(backend), plain)


@on_each_backend
@given(data=st.data())
def test_what_else_is_in_the_batch_changes_no_gradient(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(batch=2, by_key=False, layouts=False))
    b = data.draw(st.integers(0, 1))
    whole = gradients(problem, backend)
    # The gradient of the output is drawn for the whole batch, so that of one is a part of it.
    inputs = [x[b : b + 1].clone().requires_grad_() for x in (problem.q, problem.k, problem.v)]
    output = regard.attention(*inputs, backend=backend, **problem.options)
    random = torch.Generator().manual_seed(5)
    shape = (2, *output.shape[1:])
    flowing = torch.randn(shape, generator=random)[b : b + 1]
    alone = torch.autograd.grad(output, inputs, flowing)
    for one, of_whole in zip(alone, whole, strict=True):
        if backend == "native":
            assert_same_bits(one, of_whole[b : b + 1])
        else:
            assert_close(one, of_whole[b : b + 1], problem, largest(of_whole))


@on_each_backend
@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 5003), (3, 4099), (211, 521)])
def test_more_keys_than_a_block_change_nothing_of_all_this(
    backend: str, n_queries: int, n_keys: int
) -> None:
    problem = some_problem(n_queries, n_keys, mask=torch.arange(n_keys) % 7 != 3)
    sight = Sight(8, (5, 16), None)
    whole = parts(*problem.observe(backend, sight.see))

    def assert_part(posed: Problem, expected: dict[str, Tensor]) -> None:
        assert_same(backend, posed.attend(backend), expected["output"], problem)
        found = parts(*posed.observe(backend, sight.see))
        assert_same(backend, found["output"], expected["output"], problem)
        if backend == "native":
            for name, x in expected.items():
                assert_same_bits(found[name], x)

    alone = replace(problem, q=problem.q[1:, 2:], k=problem.k[1:], v=problem.v[1:])
    assert_part(alone, {name: x[1:, 2:] for name, x in whole.items()})

    k, v = problem.k.clone(), problem.v.clone()
    k[:, :, 3::7], v[:, :, 3::7] = math.nan, math.inf
    assert_part(replace(problem, k=k, v=v), whole)

    q, k, v = (laid_out(x, "stepped") for x in (problem.q, problem.k, problem.v))
    assert_part(replace(problem, q=q, k=k, v=v), whole)

    order = torch.from_numpy(problem.random.permutation(n_queries))
    by_query = ("output", "lse", "entropy", "top_keys", "top_weights")
    permuted = replace(problem, q=problem.q[:, :, order])
    assert_part(permuted, {name: whole[name][:, :, order] for name in by_query})
