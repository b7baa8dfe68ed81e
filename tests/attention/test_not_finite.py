"""A NaN or an infinity that a query may attend to is never hidden; any other has no effect."""

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
    assert_same,
    assert_same_bits,
    numbers,
    on_each_backend,
    parts,
    problems,
    sights,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard import reference

NOT_FINITE = (math.nan, math.inf, -math.inf)
HUGE = (*NOT_FINITE, 1e38, -1e38)


def seen_by_the_reference(problem: Problem, sight: Sight) -> dict[str, Any]:
    step = problem.truth()
    position = problem.options.get("position")
    with np.errstate(invalid="ignore"):
        return {
            "output": step.output,
            "lse": step.lse,
            "entropy": reference.entropy(step.weights),
            "distance": reference.distance(step.weights, position),
            "received": reference.received(step.weights, sight.queries),
            "map": reference.pooled_map(
                step.weights, sight.map, allowed=step.allowed, queries=sight.queries
            ),
            "top_weights": reference.top(step.weights, sight.top, step.allowed)[1],
        }


def assert_shown(problem: Problem, backend: str, sight: Sight, clean: Problem) -> None:
    """Not finite exactly where the reference is not, within a row; rows that are, as if clean."""
    found = parts(*problem.observe(backend, sight.see))
    before = parts(*clean.observe(backend, sight.see))
    for name, expected in seen_by_the_reference(problem, sight).items():
        bad, shown = ~np.isfinite(expected), ~np.isfinite(numbers(found[name]))
        if name == "lse":
            bad, shown = np.isnan(expected), np.isnan(numbers(found[name]))
        assert shown[bad].all(), f"{name} hides it"
        if name == "output":  # of a row that is spoilt, other columns may be finite
            bad, shown = bad.any(axis=-1), shown.any(axis=-1)
        assert not shown[~bad].any(), f"{name} shows what the query may not attend to"
    spoilt = ~np.isfinite(problem.truth().output).all(axis=-1)
    spoilt |= np.isnan(problem.truth().lse)
    for name in ("output", "lse", "entropy", "distance", "top_weights"):
        whole = torch.from_numpy(~spoilt)
        assert_same(backend, found[name][whole], before[name][whole], clean)


@on_each_backend
@given(data=st.data())
def test_exactly_the_queries_that_may_see_a_key_that_is_not_finite_show_it(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    content, which = data.draw(st.sampled_from(NOT_FINITE)), data.draw(st.sampled_from("kv"))
    j = data.draw(st.integers(0, problem.n_keys - 1))
    x = getattr(problem, which).clone()
    b, h = (data.draw(st.integers(0, n - 1)) for n in x.shape[:2])
    column = data.draw(st.integers(0, x.shape[3] - 1))
    x[b, h, j, column] = content
    assert_shown(replace(problem, **{which: x}), backend, sight, problem)


@on_each_backend
@given(data=st.data())
def test_exactly_a_query_that_is_not_finite_and_has_a_key_shows_it(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    q = problem.q.clone()
    place = tuple(data.draw(st.integers(0, n - 1)) for n in q.shape)
    q[place] = data.draw(st.sampled_from(NOT_FINITE))
    assert_shown(replace(problem, q=q), backend, sight, problem)


@on_each_backend
@given(data=st.data())
def test_exactly_the_queries_that_add_a_bias_that_is_not_finite_show_it(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    clean = problem.with_options(bias=problem.normal(*problem.square))
    bias = clean.options["bias"].clone()
    place = tuple(data.draw(st.integers(0, n - 1)) for n in bias.shape)
    bias[place] = data.draw(st.sampled_from((math.nan, math.inf)))
    assert_shown(clean.with_options(bias=bias), backend, sight, clean)


@on_each_backend
@pytest.mark.parametrize(
    ("n_queries", "n_keys"), [(1, 300), (3, 17), (4, 2300), (7, 300), (97, 33)]
)
def test_every_place_of_what_is_not_finite_is_shown(
    backend: str, n_queries: int, n_keys: int
) -> None:
    random = np.random.default_rng(2)
    q, k, v = (
        torch.from_numpy(random.normal(size=(1, 1, n, 3))).float()
        for n in (n_queries, n_keys, n_keys)
    )
    ways: list[dict[str, Any]] = [{}, {"causal": True}, {"window": (2, 1)}]
    for j in {0, 1, 15, 16, 255, 256, 257, 2047, 2048, n_keys - 1} & set(range(n_keys)):
        for content in NOT_FINITE:
            for name in ("k", "v"):
                inputs: dict[str, Any] = {"q": q, "k": k, "v": v}
                inputs[name] = inputs[name].clone()
                inputs[name][0, 0, j] = content
                for options in ways:
                    output = regard.attention(**inputs, backend=backend, **options)
                    shown = ~output[0, 0].isfinite().all(dim=-1).numpy()
                    sees = reference.allowed_keys(n_queries, n_keys, **options)[:, j]
                    np.testing.assert_array_equal(shown, sees)


@on_each_backend
@given(data=st.data())
def test_a_key_that_no_query_may_see_may_hold_anything(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    content = data.draw(st.sampled_from(HUGE))
    # In segments positions are counted anew: no key is the last one for all.
    ways = ("mask", "bias", "lengths") + ("causal",) * ("segments" not in problem.options)
    way = data.draw(st.sampled_from(ways))
    hidden = problem.flags(problem.n_keys, share=0.4)
    if way == "mask":
        problem = problem.with_options(mask=~hidden & problem.options.get("mask", True))
    elif way == "bias":
        bias = torch.where(hidden, -math.inf, problem.options.get("bias", torch.zeros(())))
        problem = problem.with_options(bias=bias)
    elif way == "lengths":
        real = data.draw(st.integers(0, problem.n_keys))
        hidden = torch.arange(problem.n_keys) >= real
        problem = problem.with_options(lengths=torch.full((problem.batch,), real))
    else:
        last = data.draw(st.integers(-1, problem.n_keys - 1))
        hidden = torch.arange(problem.n_keys) > last
        position = last - problem.n_queries + 1
        problem = problem.with_options(causal=True, position=position)
    k, v = (x.clone() for x in (problem.k, problem.v))
    k[:, :, hidden], v[:, :, hidden] = content, content
    after = parts(*replace(problem, k=k, v=v).observe(backend, sight.see))
    before = parts(*problem.observe(backend, sight.see))
    for name in before:
        if backend == "native" or name == "top_keys":
            assert_same_bits(after[name], before[name])
        else:
            assert_same(backend, after[name], before[name], problem)


@on_each_backend
@given(data=st.data())
def test_a_query_without_a_key_may_hold_anything(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    lonely = problem.flags(problem.n_queries, share=0.4)
    own = problem.options.get("mask", True)
    problem = problem.with_options(mask=~lonely[:, None] & own)
    q = problem.q.clone()
    q[:, :, lonely] = data.draw(st.sampled_from(HUGE))
    after = parts(*replace(problem, q=q).observe(backend, sight.see))
    before = parts(*problem.observe(backend, sight.see))
    for name in before:
        assert torch.equal(after[name], before[name]) or backend == "torch", name
        assert not after[name].isnan().any(), name
    assert_nothing_was_seen(after, lonely)


def assert_nothing_was_seen(found: dict[str, Tensor], lonely: Tensor) -> None:
    for name in ("output", "entropy", "distance", "top_weights"):
        assert not found[name][:, :, lonely].any(), name
    assert found["lse"][:, :, lonely].isneginf().all()
    assert (found["top_keys"][:, :, lonely] == -1).all()


@on_each_backend
@pytest.mark.parametrize("n_queries", [1, 4, 7, 97])
def test_a_query_without_a_key_gets_nothing_and_never_nan(backend: str, n_queries: int) -> None:
    q, k, v = (torch.randn(2, 3, n, 5) for n in (n_queries, 17, 17))
    sight = Sight(4, (3, 5), None)
    nothing = torch.zeros(17, dtype=torch.bool)
    ways: list[dict[str, Any]] = [
        {"mask": nothing},
        {"mask": nothing, "sinks": torch.ones(3)},
        {"bias": torch.full((17,), -math.inf)},
        {"lengths": torch.zeros(2, dtype=torch.int64)},
        {"causal": True, "position": -n_queries},
        {"window": (0, 0), "position": 100},
        {"window": (3, 5), "position": -200},
        {"mask": torch.arange(17) >= 9, "lengths": torch.tensor([9, 1])},
    ]
    for way in ways:
        found = parts(*regard.attention(q, k, v, see=sight.see, backend=backend, **way))
        assert_nothing_was_seen(found, torch.ones(n_queries, dtype=torch.bool))
        assert not found["received"].any()
        assert not found["map"].any()
