"""bfloat16 on every kernel: tiles of AMX flush what is tiny and know no NaN of a single key, and
none of that may be seen."""

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
    assert_observation_is_right,
    assert_output_is_right,
    assert_same_bits,
    numbers,
    parts,
    threads,
    unit_variance,
)
from helpers.kernels import on_each_kernel, using
from torch import Tensor

import regard

SIGHT = Sight(3, (5, 7), None)


def of_bfloat16(problem: Problem, **tensors: Tensor) -> Problem:
    given = {name: getattr(problem, name) for name in "qkv"} | tensors
    return replace(problem, **{name: x.to(torch.bfloat16) for name, x in given.items()})


def seen(problem: Problem, **changed: Any) -> dict[str, Tensor]:
    return parts(*problem.observe("native", SIGHT.see, **changed))


@on_each_kernel
@pytest.mark.parametrize(
    ("n_queries", "n_keys", "width", "value_width"),
    [(5, 1, 1, 1), (17, 31, 33, 3), (33, 67, 65, 47), (61, 521, 128, 64), (37, 1031, 257, 131)],
)
def test_any_width_is_right(
    kernel: str, n_queries: int, n_keys: int, width: int, value_width: int
) -> None:
    problem = of_bfloat16(unit_variance(n_queries, n_keys, width, value_width))
    whole = replace(problem, q=problem.q.float(), k=problem.k.float(), v=problem.v.float())
    with using(kernel):
        output, observation = problem.observe("native", SIGHT.see)
    assert_output_is_right(problem, output)
    assert_observation_is_right(whole, observation, SIGHT)


@on_each_kernel
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(7, 61), (97, 257), (67, 2311)])
def test_the_bits_are_those_of_any_threads_and_of_the_sequence_alone(
    kernel: str, causal: bool, n_queries: int, n_keys: int
) -> None:
    whole = unit_variance(n_queries, n_keys, 37, 19, causal=causal)
    pair = of_bfloat16(
        whole,
        q=torch.cat([whole.q, whole.normal(*whole.q.shape)]),
        k=torch.cat([whole.k, whole.normal(*whole.k.shape)]),
        v=torch.cat([whole.v, whole.normal(*whole.v.shape)]),
    )
    alone = of_bfloat16(whole)
    with using(kernel):
        with threads(1):
            expected = seen(pair)
            by_itself = seen(alone)
        for count in (2, 3):
            with threads(count):
                for name, found in seen(pair).items():
                    assert_same_bits(found, expected[name])
    for name, found in by_itself.items():
        assert_same_bits(found, expected[name][:1])


@on_each_kernel
@pytest.mark.parametrize("size", [2.0**-133, 2.0**-126, 2.0**-63, 2.0**41, 2.0**60])
def test_what_tiles_would_flush_or_overflow_counts_in_the_scores(kernel: str, size: float) -> None:
    """A key of numbers as small as there are, and queries as large as make up for them."""
    whole = unit_variance(41, 71, 23, 11)
    k = whole.k.clone()
    k[..., 5::7, :] = k[..., 5::7, :].sign() * size  # some keys, in some panels
    q = whole.q / size if size > 1 or size >= 2.0**-126 else whole.q * 2.0**126
    problem = of_bfloat16(whole, q=q, k=k).with_options(scale=0.125)
    plain = torch.arange(71) % 7 == 5  # what is left would be far too large beside large queries
    problem = problem.with_options(mask=plain)
    assert float(np.abs(problem.truth().scores[..., plain.numpy()]).max()) > 0.01
    wide = replace(problem, q=problem.q.float(), k=problem.k.float(), v=problem.v.float())
    with using(kernel):
        output, observation = problem.observe("native", SIGHT.see)
    assert_output_is_right(problem, output)
    assert_observation_is_right(wide, observation, SIGHT)


@on_each_kernel
@pytest.mark.parametrize("size", [2.0**-133, 2.0**-126, 2.0**-100, 2.0**-91, 2.0**100])
def test_values_however_small_are_weighed(kernel: str, size: float) -> None:
    whole = unit_variance(29, 43, 13, 17)
    problem = of_bfloat16(whole, v=whole.v.sign() * size)
    with using(kernel):
        found = problem.attend("native").double().numpy()
    truth = problem.truth().output
    unit = max(size * 2.0**-7, 2.0**-133)
    assert np.abs(found - truth).max() <= unit
    assert np.abs(truth).max() >= size / 2


@on_each_kernel
@pytest.mark.parametrize("content", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_is_not_finite_shows_where_it_may_be_seen_and_nowhere_else(
    kernel: str, name: str, content: float
) -> None:
    clean = of_bfloat16(unit_variance(67, 79, 19, 7, causal=True))
    tensors = {part: getattr(clean, part).clone() for part in "qkv"}
    tensors[name][0, 0, 41, 3] = content
    problem = replace(clean, **tensors)
    with using(kernel):
        found, before = seen(problem), seen(clean)
        with np.errstate(invalid="ignore", over="ignore"):
            truth = problem.truth()
    shown = ~np.isfinite(numbers(found["output"]))
    bad = ~np.isfinite(truth.output)
    assert shown[bad].all()
    assert bad.any() or name != "v"
    assert not shown.any(axis=-1)[~bad.any(axis=-1)].any()
    whole = torch.from_numpy(~bad.any(axis=-1) & ~np.isnan(truth.lse))
    for part in ("output", "lse", "entropy", "top_weights"):
        assert_same_bits(found[part][whole], before[part][whole])


@on_each_kernel
@pytest.mark.parametrize("content", [math.nan, 1e38, -1e38, 2.0**-133])
def test_a_masked_key_may_hold_anything(kernel: str, content: float) -> None:
    clean = of_bfloat16(unit_variance(37, 83, 31, 23))
    mask = torch.ones(83, dtype=torch.bool)
    mask[[3, 47]] = False
    k, v = clean.k.clone(), clean.v.clone()
    k[:, :, ~mask] = v[:, :, ~mask] = content
    with using(kernel):
        expected = seen(clean, mask=mask)
        found = seen(replace(clean, k=k, v=v), mask=mask)
    for part, x in expected.items():
        assert_same_bits(found[part], x)


@on_each_kernel
def test_one_key_returns_its_value_and_equal_values_their_own(kernel: str) -> None:
    values = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16)
    values = values[values.isfinite() & (values.abs() < 2.0**120)][: 251 * 13]
    v = values.view(1, 1, 13, 251).expand(3, 1, 13, 251)
    q, k = (torch.randn(3, 1, n, 5).to(torch.bfloat16) for n in (7, 1))
    with using(kernel):
        alone = regard.attention(q, k, v[:, :, 4:5], backend="native")
        k = torch.randn(3, 1, 97, 5).to(torch.bfloat16)
        equal = regard.attention(q, k, v[:, :, 4:5].expand(3, 1, 97, 251), backend="native")
    assert torch.equal(alone, v[:, :, 4:5].expand(3, 1, 7, 251))
    assert torch.equal(equal, v[:, :, 4:5].expand(3, 1, 7, 251))
