"""The experiment on dot products: what it measures, and that its verdict can turn."""

import copy
from typing import Any

import numpy as np
import pytest

import regard.lab
from regard.lab import Result, statistics
from regard.lab.geometry import judge


@pytest.fixture(scope="module")
def quick() -> Result:
    return regard.lab.run("geometry", quick=True)


def outcomes(result: Result) -> list[str]:
    return [finding.outcome for finding in result.verdict.findings]


def test_the_sign_goes_by_the_angle_and_the_product_grows_with_length(quick: Result) -> None:
    assert outcomes(quick) == ["holds", "holds"]
    assert quick.verdict.answer == "dot"
    assert quick.data["vectors"] == pytest.approx(
        {"angle": 36.8699, "q_length": 5**0.5, "k_length": 5**0.5, "dot": 4.0, "cosine": 0.8}
    )
    stretched = quick.data["stretched"]
    assert stretched[4]["dot"] == pytest.approx(16 * stretched[0]["dot"])
    assert stretched[4]["cosine"] == pytest.approx(stretched[0]["cosine"])
    assert 0.8 < quick.data["random"]["more_parallel"] / quick.data["random"]["pairs"] < 0.95


def test_the_angle_of_the_drawing_is_that_of_the_cosine(quick: Result) -> None:
    for pair in quick.data["turned"]:
        assert np.cos(np.radians(pair["angle"])) == pytest.approx(pair["cosine"], abs=1e-12)


def test_vectors_of_length_1_make_it_false() -> None:
    result = regard.lab.run("geometry", quick=True, false=True)
    assert outcomes(result) == ["holds", "fails"]
    assert result.verdict.answer == "neither"
    assert result.data["random"]["more_parallel"] == result.data["random"]["pairs"]


@pytest.mark.parametrize(
    ("k_x", "k_y", "expected"), [(-1.0, 2.0, ["holds", "open"]), (0.0, 0.0, ["open", "open"])]
)
def test_nothing_is_said_of_growth_where_nothing_can_grow(
    k_x: float, k_y: float, expected: list[str]
) -> None:
    result = regard.lab.run("geometry", quick=True, k_x=k_x, k_y=k_y)
    assert outcomes(result) == expected
    assert result.verdict.answer is None
    result.document()


def test_figures_in_which_the_claim_is_false_are_judged_so(quick: Result) -> None:
    data: Any = copy.deepcopy(quick.data)
    data["random"]["signs"] -= 1
    assert judge(data).findings[0].outcome == "fails"
    data = copy.deepcopy(quick.data)
    data["turned"][6]["dot"] = 0.01
    assert judge(data).findings[0].outcome == "fails"
    data = copy.deepcopy(quick.data)
    for pair, times in zip(data["stretched"], (1, 2, 4, 8, 16), strict=True):
        pair["cosine"] /= times
    assert judge(data).findings[1].outcome == "fails"


def head(by_cosine: list[float], by_length: list[float]) -> dict[str, Any]:
    rest = {"same_choice": [0.5, 0.5, 0.5], "spread": [0.1, 0.1, 0.1]}
    found = {"by_cosine": by_cosine, "by_length": by_length, **rest}
    heads = {name: [[float(np.mean(values))]] for name, values in found.items()}
    return {"head": {"layer": 1, "head": 3} | found, "heads": heads}


@pytest.mark.parametrize(
    ("by_cosine", "by_length", "expected"),
    [
        ([0.9, 0.8, 0.9], [0.1, -0.1, 0.2], "holds"),
        ([0.2, 0.1, 0.1], [0.9, 0.8, 0.9], "fails"),
        ([0.2, 0.1, 0.1], [-0.9, -0.8, -0.9], "fails"),
        ([0.9, 0.1, 0.5], [0.1, 0.9, 0.5], "open"),
    ],
)
def test_a_head_is_judged_by_what_orders_its_keys(
    quick: Result, by_cosine: list[float], by_length: list[float], expected: str
) -> None:
    verdict = judge(dict(quick.data) | head(by_cosine, by_length))
    assert verdict.findings[2].outcome == expected
    verdict.document("en")


def test_in_a_real_head_direction_says_more_than_length() -> None:
    result = regard.lab.run("geometry", quick=True, model="minilm", layer=1, head=7)
    found = result.data["head"]
    assert (found["layer"], found["head"], len(found["by_cosine"])) == (1, 7, 24)
    assert result.data["heads"]["by_cosine"][1][7] == pytest.approx(np.mean(found["by_cosine"]))
    assert np.shape(result.data["heads"]["by_length"]) == (6, 12)
    assert outcomes(result) == ["holds", "holds", "holds"]
    assert np.mean(found["by_cosine"]) < 0.999
    result.document()


def test_rank_correlation_shares_ranks_of_equal_numbers() -> None:
    x = np.array([[1.0, 2.0, 2.0, 3.0, 5.0], [5.0, 3.0, 2.0, 1.0, 0.0], [7.0] * 5])
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    # Ranks 1, 2.5, 2.5, 4, 5 against 1 to 5.
    expected = np.corrcoef([1, 2.5, 2.5, 4, 5], y)[0, 1]
    assert statistics.rank_correlation(x, y) == pytest.approx([expected, -1.0, 0.0])
