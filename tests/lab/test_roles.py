"""The experiment on W_Q = W_K: what it measures, and that its verdict can turn."""

import copy
from typing import Any

import numpy as np
import pytest

import regard.lab
from regard.lab import Result
from regard.lab.roles import judge


@pytest.fixture(scope="module")
def quick() -> Result:
    return regard.lab.run("roles", quick=True, tokens=13, width=29, head_width=17)


def outcomes(result: Result) -> list[str]:
    return [finding.outcome for finding in result.verdict.findings]


def test_one_matrix_makes_symmetric_scores_and_tokens_that_like_themselves(quick: Result) -> None:
    same, separate = quick.data["ways"]["same"], quick.data["ways"]["separate"]
    assert max(same["asymmetry"]) < 1e-12 < 0.5 < min(separate["asymmetry"])
    assert 0.9 < np.mean(same["itself"]["drawn"]) < 1.0
    assert np.mean(separate["itself"]["drawn"]) == pytest.approx(1 / 13, abs=0.04)
    assert outcomes(quick) == ["holds", "holds", "holds"]
    assert quick.verdict.answer == "mostly"


def test_it_is_said_that_it_does_not_always_hold(quick: Result) -> None:
    notes = quick.document()["verdict"]["notes"]
    assert "“Always”, as it is often told, would be too strong" in notes[0]
    assert quick.data["ways"]["same"]["longer"] > 1.0


def test_it_is_sure_with_queries_and_keys_of_length_1(quick: Result) -> None:
    assert min(quick.data["ways"]["same"]["itself"]["one"]) == 1.0


def test_a_token_likes_itself_more_often_the_wider_keys_are(quick: Result) -> None:
    means = [mean for mean, _, _ in quick.data["by_width"]["same"]]
    assert means[0] < 0.6 < 0.95 < means[-1]


def test_separate_matrices_make_it_false() -> None:
    result = regard.lab.run("roles", quick=True, false=True)
    assert outcomes(result) == ["fails", "holds", "fails"]
    assert result.verdict.answer == "chance"
    result.document()


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([0.6, 0.7, 0.65], "holds"), ([0.2, 0.3, 0.25], "fails"), ([0.2, 0.8, 0.5], "open")],
)
def test_how_often_is_judged_with_its_interval(
    quick: Result, shares: list[float], expected: str
) -> None:
    data: Any = copy.deepcopy(quick.data)
    data["ways"]["same"]["itself"]["drawn"] = shares
    verdict = judge(data)
    assert verdict.findings[2].outcome == expected
    verdict.document("en")


def test_scores_that_stay_symmetric_with_two_matrices_break_the_claim(quick: Result) -> None:
    data: Any = copy.deepcopy(quick.data)
    data["ways"]["separate"]["asymmetry"] = [0.01, 0.02, 0.03]
    assert judge(data).outcome == "fails"
    data["ways"]["separate"]["asymmetry"] = [0.0, 0.1, 0.5]
    assert judge(data).outcome == "open"


def test_the_same_seed_draws_the_same(quick: Result) -> None:
    again = regard.lab.run("roles", quick=True, tokens=13, width=29, head_width=17)
    other = regard.lab.run("roles", quick=True, tokens=13, width=29, head_width=17, seed=1)
    assert again.data == quick.data != other.data
