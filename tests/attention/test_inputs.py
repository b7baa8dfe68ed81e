"""Inputs are never changed, and no result is a view of them."""

from __future__ import annotations

from typing import Any

import torch
from helpers.attention_problems import Problem, numbers, on_each_backend, parts, problems, sights
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from torch import Tensor

import regard


def every_tensor(problem: Problem, queries: Tensor | None) -> list[Tensor]:
    given: list[Any] = [problem.q, problem.k, problem.v, queries, *problem.options.values()]
    return [x for x in given if isinstance(x, Tensor)]


def memory(x: Tensor) -> tuple[int, Any]:
    """The version of a tensor and everything in its memory, that between its numbers too."""
    everything = torch.as_strided(x.detach(), (x.untyped_storage().size() // x.itemsize,), (1,), 0)
    return x._version, numbers(everything).copy()


@on_each_backend
@given(data=st.data())
def test_inputs_are_never_changed(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    tensors = every_tensor(problem, sight.queries)
    before = [memory(x) for x in tensors]
    problem.attend(backend)
    _, seen = problem.observe(backend, sight.see)
    regard.weights(problem.q, problem.k, lse=seen.lse, backend=backend, **problem.options)
    regard.pooled(problem.q, problem.k, shape=(3, 2), backend=backend, **problem.options)
    q, k, v = (x.detach().requires_grad_() for x in (problem.q, problem.k, problem.v))
    output = Problem(q, k, v, problem.options, problem.random).attend(backend)
    flowing = problem.normal(*output.shape)
    flowing_before = flowing.clone()
    torch.autograd.grad(output, (q, k, v), flowing)
    assert torch.equal(flowing, flowing_before)
    for x, (version, content) in zip(tensors, before, strict=True):
        assert x._version == version
        assert_array_equal(memory(x)[1], content)


@on_each_backend
@given(data=st.data())
def test_results_share_no_memory_with_the_inputs_or_with_each_other(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    taken = {x.untyped_storage().data_ptr() for x in every_tensor(problem, sight.queries)}
    results = parts(*problem.observe(backend, sight.see))
    for name, found in results.items():
        place = found.untyped_storage().data_ptr()
        assert place not in taken, name
        taken.add(place)
    plain = problem.attend(backend)
    assert plain.untyped_storage().data_ptr() not in taken


@on_each_backend
@given(data=st.data())
def test_joining_the_heads_of_the_output_copies_nothing(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    output = problem.attend(backend)
    joined = output.transpose(1, 2).reshape(problem.batch, problem.n_queries, -1)
    assert joined.data_ptr() == output.data_ptr()
