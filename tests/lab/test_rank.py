"""The experiment on values of low rank: what it measures, and that its verdict can turn."""

import copy
from typing import Any

import numpy as np
import pytest

import regard.lab
from regard.lab import Result
from regard.lab.rank import _figures, judge


@pytest.fixture(scope="module")
def quick() -> Result:
    return regard.lab.run("rank", quick=True)


def outcomes(result: Result) -> list[str]:
    return [finding.outcome for finding in result.verdict.findings]


def test_half_the_parameters_lose_much_of_a_random_matrix(quick: Result) -> None:
    assert quick.data["parameters"] == {"thin": 2 * 32 * 128, "whole": 128 * 128}
    for found in quick.data["random"]:
        assert 0.5 < found["lost"] < 0.7
        assert found["lost"] == pytest.approx(found["error"], abs=0.05)  # as X has no direction
        assert found["errors"] == sorted(found["errors"], reverse=True)
        assert found["errors"][-1] < 1e-12
        assert found["enough"] > 0.5
    assert outcomes(quick) == ["holds", "holds"]
    assert quick.verdict.answer == "much"


def test_a_matrix_that_is_a_product_makes_it_false() -> None:
    result = regard.lab.run("rank", quick=True, false=True)
    assert outcomes(result) == ["holds", "fails"]
    assert result.verdict.answer == "little"
    assert max(found["lost"] for found in result.data["random"]) < 1e-12
    result.document()


def test_nothing_is_saved_from_half_the_width_on() -> None:
    result = regard.lab.run("rank", quick=True, share=0.5, width=23, matrices=2)
    assert result.data["parameters"] == {"thin": 2 * 12 * 23, "whole": 23 * 23}
    assert outcomes(result)[0] == "fails"
    result.document()


def test_the_error_is_the_least_of_its_rank() -> None:
    random = np.random.default_rng(0)
    x, w_v = random.standard_normal((31, 13)), random.standard_normal((13, 13))
    found = _figures(x, w_v, 3 / 13)
    values = x @ w_v
    for _ in range(20):
        basis = np.linalg.qr(random.standard_normal((13, 3)))[0]
        other = w_v @ basis @ basis.T  # the best that these three directions can do
        assert np.linalg.norm(other - w_v) / np.linalg.norm(w_v) >= found["error"]
        best = values @ basis @ basis.T
        assert np.linalg.norm(best - values) / np.linalg.norm(values) >= found["least"]
    assert found["least"] <= found["lost"]


@pytest.mark.parametrize(
    ("losses", "expected", "answer"),
    [
        ([0.48, 0.5, 0.49], "holds", "much"),
        ([0.2, 0.21, 0.2], "holds", "some"),
        ([0.05, 0.06, 0.05], "fails", "little"),
        ([0.01, 0.2, 0.1], "open", None),
    ],
)
def test_the_loss_is_judged_with_its_interval(
    quick: Result, losses: list[float], expected: str, answer: str | None
) -> None:
    data: Any = copy.deepcopy(quick.data)
    data["random"] = [data["random"][0] | {"lost": lost} for lost in losses]
    verdict = judge(data)
    assert (verdict.findings[1].outcome, verdict.answer) == (expected, answer)
    verdict.document("en")


def test_the_matrices_of_minilm_are_judged_as_well() -> None:
    settings: dict[str, Any] = {"model": "minilm", "width": 31, "matrices": 2}
    result = regard.lab.run("rank", quick=True, **settings)
    assert len(result.data["minilm"]["layers"]) == 6
    assert [outcomes(result)[2], result.data["minilm"]["rank"]] == ["holds", 96]
    for found in result.data["minilm"]["layers"]:
        assert 0.1 < found["least"] < found["lost"] < 0.7
    result.document()
    false = regard.lab.run("rank", quick=True, false=True, **settings)
    assert outcomes(false) == ["holds", "fails", "fails"]  # a head has a rank of 32 of 384
    assert all(found["errors"][2] < 1e-12 < 0.1 < found["errors"][1] for found in layers(false))
    false.document()


def layers(result: Result) -> list[dict[str, Any]]:
    return result.data["minilm"]["layers"]
