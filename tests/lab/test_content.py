"""The experiment on where weights come from: what it measures, and that its verdict can turn."""

import copy
from typing import Any

import numpy as np
import pytest

import regard.lab
from regard.lab import Result
from regard.lab.content import _change, _share, judge
from regard.lab.experiment import Asked
from regard.lab.minilm import SENTENCES, read


@pytest.fixture(scope="module")
def quick() -> Result:
    return regard.lab.run("content", quick=True)


def outcomes(result: Result) -> list[str]:
    return [finding.outcome for finding in result.verdict.findings]


def test_attention_changes_with_the_sentence_and_parameters_do_not(quick: Result) -> None:
    assert min(found["change"] for found in quick.data["attention"]) > 0.1
    assert max(found["change"] for found in quick.data["fixed"]) == 0.0
    assert all(found["share"] > 0.5 for found in quick.data["attention"])
    assert all(found["share"] < 1e-12 for found in quick.data["fixed"])
    assert outcomes(quick) == ["holds", "holds"]
    assert quick.verdict.answer == "much"


def test_queries_of_0_make_it_false() -> None:
    result = regard.lab.run("content", quick=True, false=True)
    assert outcomes(result) == ["fails", "fails"]
    assert result.verdict.answer == "stay"
    result.document()


@pytest.mark.parametrize(("places", "expected"), [(0.0, 1.0), (0.1, 0.5), (0.2, 0.2)])
def test_the_share_is_that_of_the_variances_that_weights_are_made_of(
    places: float, expected: float
) -> None:
    random = np.random.default_rng(0)
    fixed = random.standard_normal((31, 31))
    fixed -= fixed.mean()
    weights = 1 / 31 + places * fixed / fixed.std() + 0.1 * random.standard_normal((7, 31, 31))
    assert _share(weights) == pytest.approx(expected, abs=0.05)


def test_the_change_is_the_weight_that_lies_elsewhere() -> None:
    weights = np.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.5, 0.5, 0.0]]])
    assert _change(weights) == pytest.approx((1.0 + 0.5 + 0.5) / 3)


@pytest.mark.parametrize(
    ("shares", "expected", "answer"),
    [
        ([0.8, 0.9, 0.7], "holds", "much"),
        ([0.1, 0.2, 0.3], "fails", "little"),
        ([0.1, 0.9, 0.5], "open", None),
    ],
)
def test_the_share_is_judged_with_its_interval(
    quick: Result, shares: list[float], expected: str, answer: str | None
) -> None:
    data: Any = copy.deepcopy(quick.data)
    data["attention"] = [{"change": 0.3, "share": share} for share in shares]
    verdict = judge(data)
    assert (verdict.outcome, verdict.answer) == (expected, answer)
    verdict.document("en")


def test_a_layer_with_fixed_weights_is_judged_as_that(quick: Result) -> None:
    assert judge(dict(quick.data) | {"attention": quick.data["fixed"]}).outcome == "fails"


def test_minilm_reads_every_sentence_in_as_many_tokens() -> None:
    seen = read(Asked({}), len(SENTENCES))
    assert {len(tokens) for tokens in seen.tokens} == {10}
    assert len(set(SENTENCES)) == len(SENTENCES)
    assert seen.q.shape == seen.k.shape == (6, 24, 12, 10, 32)
    assert seen.hidden.shape == (6, 24, 10, 384)


def test_weights_of_minilm_change_with_the_sentence() -> None:
    result = regard.lab.run("content", quick=True, model="minilm", sentences=7)
    found = result.data["minilm"]
    assert 0.2 < found["change"] < 0.6
    assert len(found["without"]) == 7
    heads = np.array(found["heads"])
    assert heads.shape == (6, 12)
    assert heads.min() < 0.1 < 0.8 < heads.max()  # some heads go by position, others by words
    result.document()
    false = regard.lab.run("content", quick=True, false=True, model="minilm", sentences=7)
    assert false.data["minilm"]["change"] == false.data["minilm"]["share"] == 0.0
    assert outcomes(false) == ["fails", "fails", "fails"]
