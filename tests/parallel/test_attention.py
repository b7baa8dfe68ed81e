"""One sequence on one to four ranks: what one process finds, to the bit or as right as that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_gradients import assert_gradients_are_right
from helpers.attention_problems import (
    Problem,
    assert_close,
    assert_observation_is_right,
    assert_output_is_right,
    assert_same_bits,
    problems,
    sights,
)
from helpers.parallel_jobs import alone, attend, attend_in_pieces
from helpers.ranks import Ranks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard.observation import FIELDS

LAYOUTS = st.sampled_from(["contiguous", "zigzag"])
SIZES = (0, 1, 2, 3, 4, 5, 7, 11, 13, 17, 31, 37, 97)
few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def given_to_ranks(problem: Problem) -> tuple[Any, dict[str, Any]]:
    options = {
        name: x.contiguous() if isinstance(x, torch.Tensor) else x
        for name, x in problem.options.items()
    }
    return (problem.q.contiguous(), problem.k.contiguous(), problem.v.contiguous()), options


def flowing_into(problem: Problem) -> torch.Tensor:
    return problem.normal(*problem.square[:3], problem.v.shape[3])


def gradients_of(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    names = ("q", "k", "v", "bias", "sinks")
    return {name: found[f"d{name}"] for name in names if f"d{name}" in found}


def observation(found: dict[str, torch.Tensor], problem: Problem) -> regard.Observation:
    return regard.Observation(
        n_keys=problem.n_keys,
        **{name: found[name] for name in FIELDS if name in found},  # pyright: ignore[reportArgumentType]
    )


@few
@given(data=st.data(), layout=LAYOUTS)
def test_by_heads_everything_is_that_of_one_process_to_the_bit(
    ranks: Ranks, data: st.DataObject, layout: str
) -> None:
    problem = data.draw(problems(sizes=SIZES))
    count = data.draw(st.integers(1, min(4, problem.k.shape[1])))
    sight, flowing = (
        data.draw(sights(problem)),
        problem.normal(*problem.square[:3], problem.v.shape[3]),
    )
    given = given_to_ranks(problem)
    expected = alone(*given, sight.see, flowing)
    for found in ranks.run(count, attend, *given, sight.see, layout, "heads", flowing):
        assert found.keys() == expected.keys()
        for name, x in expected.items():
            if name == "dbias" and count > 1:  # summed over heads, in another order
                assert_close(found[name], x, problem, float(flowing.abs().sum()))
            else:
                assert_same_bits(found[name], x)


@few
@given(data=st.data(), layout=LAYOUTS, count=st.integers(2, 4))
def test_where_keys_travel_everything_is_as_right_as_in_one_process(
    ranks: Ranks, data: st.DataObject, layout: str, count: int
) -> None:
    problem = data.draw(problems(sizes=SIZES[1:]))
    sight, flowing = (
        data.draw(sights(problem)),
        problem.normal(*problem.square[:3], problem.v.shape[3]),
    )
    by = data.draw(st.sampled_from(["ring", None]))
    all_found = ranks.run(count, attend, *given_to_ranks(problem), sight.see, layout, by, flowing)
    for found in all_found:
        assert_output_is_right(problem, found["out"])
        assert_observation_is_right(problem, observation(found, problem), sight)
        gradients = {
            name[1:]: x for name, x in found.items() if name[1:] in ["q", "k", "v", "bias", "sinks"]
        }
        assert_gradients_are_right(problem, gradients, flowing)
    for name, x in all_found[0].items():
        assert_same_bits(all_found[-1][name], x)


@few
@given(data=st.data(), layout=LAYOUTS, count=st.integers(2, 4))
def test_where_keys_travel_the_bits_are_the_same_every_time(
    ranks: Ranks, data: st.DataObject, layout: str, count: int
) -> None:
    problem = data.draw(problems(sizes=SIZES[5:]))
    sight, flowing = (
        data.draw(sights(problem)),
        problem.normal(*problem.square[:3], problem.v.shape[3]),
    )
    arguments = (*given_to_ranks(problem), sight.see, layout, "ring", flowing)
    first, second = (ranks.run(count, attend, *arguments)[0] for _ in range(2))
    for name, x in first.items():
        assert_same_bits(second[name], x)


@few
@given(data=st.data(), layout=LAYOUTS, count=st.integers(2, 4))
def test_what_is_seen_changes_no_bit_of_the_output(
    ranks: Ranks, data: st.DataObject, layout: str, count: int
) -> None:
    problem = data.draw(problems(sizes=SIZES))
    given, by = given_to_ranks(problem), data.draw(st.sampled_from(["ring", None]))
    seen = ranks.run(count, attend, *given, data.draw(sights(problem)).see, layout, by)
    blind = ranks.run(count, attend, *given, None, layout, by)
    assert_same_bits(blind[0]["out"], seen[0]["out"])


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (5, 2)}])
def test_rows_and_keys_that_are_computed_in_pieces_are_the_whole(
    ranks: Ranks, options: dict[str, Any], layout: str
) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 41, 5) for _ in range(3))
    see = regard.See(True, 4, (3, 7), True, True, max_logit=True, contribution=3)
    expected = alone((q, k, v), options, see, v)
    given = ((q, k, v), options, see, layout, "ring", v)
    found = ranks.run(3, attend_in_pieces, 5, 3, *given)[0]
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        torch.testing.assert_close(found[name], x, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize("by", ["heads", "ring", None])
def test_keys_that_move_the_output_most_by_norms_that_are_given(
    ranks: Ranks, by: str | None, layout: str
) -> None:
    """Each rank has the norms of its own keys; on four ranks three key heads make a ring, too."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 6, 29, 5), torch.randn(2, 3, 29, 5), torch.randn(2, 3, 29, 7)
    norms = torch.rand(2, 6, 29) ** 3
    see = regard.See(contribution=5, norms=norms, spans=torch.arange(29) % 4 - 1, max_logit=True)
    expected = alone((q, k, v), {"causal": True}, see)
    count = 3 if by == "heads" else 4
    found = ranks.run(count, attend, (q, k, v), {"causal": True}, see, layout, by)[0]
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        torch.testing.assert_close(found[name], x, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@settings(parent=few, max_examples=6)
@given(data=st.data(), layout=LAYOUTS, count=st.integers(2, 4))
def test_other_types_are_as_right(
    ranks: Ranks, dtype: torch.dtype, data: st.DataObject, layout: str, count: int
) -> None:
    problem = data.draw(problems(sizes=SIZES[1:], dtype=dtype))
    sight, flowing = (
        data.draw(sights(problem)),
        problem.normal(*problem.square[:3], problem.v.shape[3]),
    )
    found = ranks.run(count, attend, *given_to_ranks(problem), sight.see, layout, None, flowing)[0]
    assert_output_is_right(problem, found["out"])
    assert_observation_is_right(problem, observation(found, problem), sight)
    gradients = {
        name[1:]: x for name, x in found.items() if name[1:] in ["q", "k", "v", "bias", "sinks"]
    }
    assert_gradients_are_right(problem, gradients, flowing)


@pytest.mark.parametrize("by", ["heads", "ring"])
def test_what_no_query_may_attend_to_has_no_effect(ranks: Ranks, by: str) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 13, 5) for _ in range(3))
    flowing, mask = torch.randn(2, 3, 13, 5), torch.ones(13, dtype=torch.bool)
    mask[[4, 11]] = False
    options = {"mask": mask, "causal": True}
    see = regard.See(True, 2, (3, 4), True, True)
    expected = ranks.run(3, attend, (q, k, v), options, see, "zigzag", by, flowing)[0]
    k, v = k.clone(), v.clone()
    k[:, :, 4], v[:, :, 11] = torch.nan, 1e38
    found = ranks.run(3, attend, (q, k, v), options, see, "zigzag", by, flowing)[0]
    for name, x in expected.items():
        assert_same_bits(found[name], x)


@pytest.mark.parametrize("by", ["heads", "ring"])
def test_a_nan_that_a_query_may_attend_to_is_never_hidden(ranks: Ranks, by: str) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 3, 13, 5) for _ in range(3))
    k[0, 1, 7] = torch.nan
    found = ranks.run(3, attend, (q, k, v), {"causal": True}, None, "zigzag", by)[0]
    spoilt = found["out"].isnan().any(-1)
    assert spoilt[0, 1].tolist() == [False] * 7 + [True] * 6
    assert not spoilt[0, [0, 2]].any()


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize("by", ["heads", "ring"])
def test_dropout_drops_its_share_in_every_head_and_can_be_repeated(
    ranks: Ranks, by: str, layout: str
) -> None:
    """v = 1 gives Σ of the weights that are left; with q = 0 these are all equal."""
    q, k, v = (torch.zeros(1, 3, 1009, 4), torch.zeros(1, 3, 1009, 4), torch.ones(1, 3, 1009, 1))
    flowing = torch.ones(1, 3, 1009, 1)
    arguments = ((q, k, v), {"dropout": 0.25}, None, layout, by, flowing)
    first, same, other = (ranks.run(3, attend, *arguments, seed=seed)[0] for seed in (7, 7, 8))
    assert_same_bits(first["out"], same["out"])
    assert_same_bits(first["dv"], same["dv"])
    assert not torch.equal(first["out"], other["out"])
    # Each row keeps 1009 weights with a chance of 3/4: the mean of its sum is 1, ± 0.018.
    np.testing.assert_allclose(first["out"].mean(2).numpy(), 1.0, atol=0.005)
    assert 0.014 < float(first["out"].std()) < 0.023
    # dv is what each key gave: the same weights are dropped on the way back.
    np.testing.assert_allclose(first["dv"].sum().item(), first["out"].sum().item(), rtol=1e-5)
    patterns = first["out"][0, :, :, 0]
    correlation = torch.corrcoef(patterns)[~torch.eye(3, dtype=torch.bool)]
    assert correlation.abs().max() < 0.15  # heads drop in ways of their own
