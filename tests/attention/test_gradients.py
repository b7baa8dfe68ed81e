"""Gradients: against autograd through eager float64, and what they may never do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_gradients import assert_gradients_are_right
from helpers.attention_problems import (
    SMALL,
    Problem,
    assert_same,
    largest,
    on_each_backend,
    on_each_backend_and_dtype,
    problems,
    score_size,
    sights,
    unit,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard

GRADIENT_SIZES = SMALL * 9 + (16, 17, 33, 95, 97, 257)


def of_backend(
    problem: Problem, backend: str, flowing: Tensor, see: regard.See | None = None
) -> dict[str, Tensor]:
    inputs = {name: getattr(problem, name).detach() for name in ("q", "k", "v")}
    for name in ("bias", "sinks"):
        if name in problem.options:
            inputs[name] = problem.options[name].detach()
    inputs = {name: x.requires_grad_() for name, x in inputs.items()}
    changed = {name: x for name, x in inputs.items() if name in problem.options}
    copied = Problem(inputs["q"], inputs["k"], inputs["v"], problem.options, problem.random)
    if see is None:
        output = copied.attend(backend, **changed)
    else:
        output, _ = copied.observe(backend, see, **changed)
    found = torch.autograd.grad(output, list(inputs.values()), flowing)
    return dict(zip(inputs, found, strict=True))


def flowing_into(problem: Problem) -> Tensor:
    return problem.normal(*problem.square[:3], problem.v.shape[-1])


@on_each_backend_and_dtype
@given(data=st.data())
def test_gradients_are_as_right_as_those_of_the_eager_computation(
    backend: str, dtype: torch.dtype, data: st.DataObject
) -> None:
    problem = data.draw(problems(dtype=dtype, sizes=GRADIENT_SIZES))
    flowing = flowing_into(problem)
    see = data.draw(st.none() | sights(problem).map(lambda sight: sight.see))
    found = of_backend(problem, backend, flowing, see)
    assert_gradients_are_right(problem, found, flowing)


@on_each_backend
@given(data=st.data())
def test_keys_that_no_query_may_see_get_a_gradient_of_exactly_zero(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sizes=GRADIENT_SIZES))
    mask = problem.flags(problem.n_keys, share=0.6)
    content = data.draw(st.sampled_from((0.5, 1e38, math.nan, math.inf, -math.inf)))
    k, v = (x.clone() for x in (problem.k, problem.v))
    k[:, :, ~mask], v[:, :, ~mask] = content, content
    hidden = replace(problem, k=k, v=v)
    own = problem.options.get("mask", True)
    found = of_backend(hidden.with_options(mask=mask & own), backend, flowing_into(problem))
    for name in ("k", "v"):
        assert not found[name][:, :, ~mask].any(), name
    for name, gradient in found.items():
        assert gradient.isfinite().all(), name


@on_each_backend
@given(data=st.data())
def test_what_a_hidden_key_holds_changes_no_gradient(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(sizes=GRADIENT_SIZES))
    mask = problem.flags(problem.n_keys, share=0.6)
    content = data.draw(st.sampled_from((1e38, math.nan, math.inf, -math.inf)))
    k, v = (x.clone() for x in (problem.k, problem.v))
    k[:, :, ~mask], v[:, :, ~mask] = content, content
    own = problem.options.get("mask", True)
    before = problem.with_options(mask=mask & own)
    after = replace(before, k=k, v=v)
    flowing = flowing_into(problem)
    found, expected = (of_backend(x, backend, flowing) for x in (after, before))
    size = {name: largest(gradient) for name, gradient in expected.items()}
    for name, gradient in found.items():
        assert_same(backend, gradient / size[name], expected[name] / size[name], before)


@on_each_backend
@given(data=st.data())
def test_a_query_without_a_key_gets_and_gives_a_gradient_of_exactly_zero(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sizes=GRADIENT_SIZES))
    lonely = problem.flags(problem.n_queries, share=0.4)
    own = problem.options.get("mask", True)
    problem = problem.with_options(mask=~lonely[:, None] & own)
    flowing = flowing_into(problem)
    found = of_backend(problem, backend, flowing)
    assert not found["q"][:, :, lonely].any()
    flowing[:, :, lonely] = 1e30
    again = of_backend(problem, backend, flowing)
    for name, gradient in found.items():
        assert torch.equal(gradient, again[name]), name


@on_each_backend
def test_no_query_with_a_key_gives_gradients_of_zero(backend: str) -> None:
    q, k, v = (torch.randn(2, 3, n, 5, requires_grad=True) for n in (7, 11, 11))
    ways: list[dict[str, Any]] = [
        {"mask": torch.zeros(11, dtype=torch.bool)},
        {"lengths": torch.zeros(2, dtype=torch.int64)},
        {"bias": torch.full((7, 11), -math.inf)},
        {"causal": True, "position": -20},
        {"lengths": torch.zeros(2, dtype=torch.int64), "sinks": torch.ones(3)},
    ]
    for options in ways:
        output = regard.attention(q, k, v, backend=backend, **options)
        assert not output.any()
        for gradient in torch.autograd.grad(output.sum(), (q, k, v)):
            assert not gradient.any()


@on_each_backend
@given(data=st.data())
def test_gradients_of_a_row_of_scores_sum_to_zero(backend: str, data: st.DataObject) -> None:
    # The gradient of the scores is that of a bias of their shape.
    problem = data.draw(problems(sizes=GRADIENT_SIZES, sinks=False))
    problem = problem.with_options(bias=problem.normal(*problem.square))
    found = of_backend(problem, backend, flowing_into(problem))["bias"]
    tolerance = 64 * unit(torch.float32) * problem.n_keys * largest(found)
    assert found.double().sum(dim=-1).abs().max() <= tolerance
    assert not found[torch.from_numpy(~problem.truth().allowed)].any()


@on_each_backend
@given(data=st.data())
def test_gradients_of_the_values_sum_to_what_flows_into_rows_with_a_key(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sizes=GRADIENT_SIZES, sinks=False))
    flowing = flowing_into(problem)
    found = of_backend(problem, backend, flowing)["v"]
    some = torch.from_numpy(problem.truth().allowed.any(axis=-1))
    group = problem.heads // problem.v.shape[1]
    through = (flowing * some[..., None]).double().sum(dim=2)
    expected = through.unflatten(1, (-1, group)).sum(dim=2)
    tolerance = 64 * unit(torch.float32) * score_size(problem, problem.truth())
    wrong = (found.double().sum(dim=2) - expected).abs().max()
    assert wrong <= tolerance * problem.n_queries * problem.heads * largest(flowing)


@on_each_backend
@pytest.mark.parametrize("wanted", ["q", "k", "v", "bias"])
def test_only_the_gradients_that_are_wanted_are_made(backend: str, wanted: str) -> None:
    random = np.random.default_rng(3)
    shapes = {"q": (2, 3, 7, 5), "k": (2, 1, 11, 5), "v": (2, 1, 11, 2), "bias": (3, 1, 11)}
    inputs = {
        name: torch.from_numpy(random.normal(size=shape)).float() for name, shape in shapes.items()
    }
    q, k, v, bias = (inputs[name].requires_grad_() for name in shapes)
    every = torch.autograd.grad(
        regard.attention(q, k, v, bias=bias, backend=backend).square().sum(), (q, k, v, bias)
    )
    alone = {name: x.detach().requires_grad_(name == wanted) for name, x in inputs.items()}
    output = regard.attention(
        alone["q"], alone["k"], alone["v"], bias=alone["bias"], backend=backend
    )
    output.square().sum().backward()
    for name, expected in zip(shapes, every, strict=True):
        gradient = alone[name].grad
        if name == wanted:
            assert gradient is not None
            torch.testing.assert_close(gradient, expected)
        else:
            assert gradient is None


@on_each_backend
@pytest.mark.parametrize("shape", [(11,), (7, 11), (7, 1), (2, 1, 1, 11), (1, 3, 1, 11), (), (1,)])
def test_the_gradient_of_a_bias_is_reduced_over_its_broadcast(
    backend: str, shape: tuple[int, ...]
) -> None:
    random = np.random.default_rng(11)
    q, k, v, bias = (
        torch.from_numpy(np.asarray(random.normal(size=s))).float()
        for s in ((2, 3, 7, 5), (2, 3, 11, 5), (2, 3, 11, 2), shape)
    )
    problem = Problem(q, k, v, {"bias": bias}, random)
    flowing = flowing_into(problem)
    found = of_backend(problem, backend, flowing)["bias"]
    whole = problem.with_options(bias=bias.expand(problem.square).contiguous())
    expected = of_backend(whole, backend, flowing)["bias"].sum_to_size(bias.shape)
    assert found.shape == bias.shape
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"window": (2, 1), "scale": -0.3},
        {"softcap": 1.5},
        {"position": 1, "causal": True},
        {"mask": torch.arange(12).reshape(4, 3) % 5 != 0},
        {"lengths": torch.tensor([0, 2])},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_float64_passes_gradcheck(options: dict[str, Any]) -> None:
    random = torch.Generator().manual_seed(7)

    def normal(*shape: int) -> Tensor:
        x = torch.randn(shape, generator=random, dtype=torch.float64)
        return x.requires_grad_()

    q, k, v, bias = normal(2, 2, 4, 3), normal(2, 1, 3, 3), normal(2, 1, 3, 2), normal(2, 1, 3)

    def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Any:
        return regard.attention(q, k, v, bias=bias, backend="torch", **options)

    assert torch.autograd.gradcheck(attend, (q, k, v, bias))


@on_each_backend
def test_double_backward_is_refused_in_words(backend: str) -> None:
    q, k, v = (torch.randn(1, 2, n, 3, requires_grad=True) for n in (5, 7, 7))
    output = regard.attention(q, k, v, backend=backend)
    (first,) = torch.autograd.grad(output.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"attention\(\): the gradient of its gradient"):
        torch.autograd.grad(first.square().sum(), q)


@on_each_backend
def test_observations_carry_no_gradient(backend: str) -> None:
    q, k, v = (torch.randn(1, 2, n, 3, requires_grad=True) for n in (5, 7, 7))
    see = regard.See(entropy=True, top=2, map=(2, 2), received=True, distance=True)
    output, seen = regard.attention(q, k, v, see=see, backend=backend)
    assert output.requires_grad
    for name in ("lse", "entropy", "top_weights", "map", "received", "distance"):
        assert not getattr(seen, name).requires_grad
