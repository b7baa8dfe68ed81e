"""The experiment on tokens that do not matter: what it measures, and that its verdict can turn."""

import copy
from typing import Any

import numpy as np
import pytest

import regard.lab
from regard.lab import Asked, Result
from regard.lab.focus import EXPERIMENT, _crowd, judge


@pytest.fixture(scope="module")
def quick() -> Result:
    return regard.lab.run("focus", quick=True)


def outcomes(result: Result) -> list[str]:
    return [finding.outcome for finding in result.verdict.findings]


def test_many_tokens_that_do_not_matter_get_most_of_the_weight(quick: Result) -> None:
    means = [np.mean(row["masses"]) for row in quick.data["rows"]]
    assert means == sorted(means)
    assert means[0] < 0.1 < 0.95 < means[-1] < 1.0
    assert outcomes(quick) == ["holds", "holds", "holds"]
    assert quick.verdict.answer == "most"


def test_what_is_measured_is_what_theory_says(quick: Result) -> None:
    for row in quick.data["rows"]:
        assert np.mean(row["masses"]) == pytest.approx(row["theory"], abs=0.05)
    exact = regard.lab.run("focus", quick=True, spread=0.0, draws=3, most=32)
    for row in exact.data["rows"]:
        n = row["others"]
        assert row["masses"] == pytest.approx([n / (n + np.exp(4.0))] * 3)
        assert row["theory"] == pytest.approx(n / (n + np.exp(4.0)))
        assert row["needed"] == pytest.approx(np.log(n), abs=1e-6)
        assert row["least"] == pytest.approx(1 / (n + np.exp(4.0)))


def test_scores_are_those_that_were_drawn() -> None:
    values = EXPERIMENT.values({"draws": 7, "spread": 2.0})
    crowd = _crowd(Asked(values), 1013, 0)
    scores = (crowd.q @ crowd.keys(3.0).mT)[:, 0, 0] / crowd.q.shape[-1] ** 0.5
    assert scores[:, -1].tolist() == pytest.approx([3.0] * 7)
    assert float(scores[:, :-1].std()) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("way", ["top", "window"])
def test_looking_at_few_keys_makes_it_false(way: str) -> None:
    result = regard.lab.run("focus", quick=True, false=True, way=way, draws=7)
    assert outcomes(result) == ["fails", "fails", "fails"]
    assert result.verdict.answer == "little"
    masses = [np.mean(row["masses"]) for row in result.data["rows"]]
    assert masses[-1] < 0.4
    result.document()


def test_a_margin_that_is_large_enough_keeps_the_weight() -> None:
    result = regard.lab.run("focus", quick=True, margin=15.0, draws=5)
    assert outcomes(result) == ["holds", "fails", "holds"]
    assert result.verdict.answer == "little"


def test_float32_gives_0_where_theory_does_not(quick: Result) -> None:
    assert 80 <= quick.data["vanishes"] <= 110


@pytest.mark.parametrize(
    ("masses", "expected"),
    [([0.6, 0.7, 0.65], "holds"), ([0.1, 0.2, 0.15], "fails"), ([0.1, 0.9, 0.5], "open")],
)
def test_the_weight_is_judged_with_its_interval(
    quick: Result, masses: list[float], expected: str
) -> None:
    data: Any = copy.deepcopy(quick.data)
    data["rows"][-1]["masses"] = masses
    verdict = judge(data)
    assert verdict.findings[1].outcome == expected
    verdict.document("en")


@pytest.mark.parametrize(
    ("needed", "expected"),
    [(lambda n: np.log(n), "holds"), (lambda n: 0.5 * np.log(n), "fails"), (None, "open")],
)
def test_the_margin_is_judged_with_its_interval(quick: Result, needed: Any, expected: str) -> None:
    data: Any = copy.deepcopy(quick.data)
    noise = np.random.default_rng(0).standard_normal(len(data["rows"]))
    for row, by_chance in zip(data["rows"], noise, strict=True):
        n = row["others"]
        row["needed"] = float(needed(n) if needed else np.log(n) + 2 * by_chance)
    verdict = judge(data)
    assert verdict.findings[2].outcome == expected
    verdict.document("en")
