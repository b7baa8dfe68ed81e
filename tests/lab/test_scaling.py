"""Scaling: dot products grow, softmax saturates, and short vectors need no dividing."""

from __future__ import annotations

import numpy as np
import pytest

from regard import reference
from regard.lab import Result, run
from regard.lab.scaling import EXPERIMENT, _through_softmax


@pytest.fixture(scope="module")
def result() -> Result:
    return run("scaling", quick=True, seed=1, steps=30, models=5)


def test_variance_grows_as_the_width_and_stays_1_divided(result: Result) -> None:
    data = result.data
    ratios = np.array(data["plain"]["variance"]) / np.array(data["widths"])
    assert np.all((ratios > 0.7) & (ratios < 1.4))
    assert 0.7 < min(data["scaled"]["variance"]) < max(data["scaled"]["variance"]) < 1.4


def test_undivided_softmax_saturates_and_its_gradient_dies(result: Result) -> None:
    plain, scaled = result.data["plain"], result.data["scaled"]
    assert plain["largest"][-1] > 0.9 > 0.3 > scaled["largest"][-1]
    assert plain["gradient"][-1] < 0.01 * scaled["gradient"][-1]
    assert plain["entropy"][-1] < 0.3 < 3.0 < scaled["entropy"][-1]


def test_models_learn_faster_divided(result: Result) -> None:
    ends = {
        way: [curve[-1] for curve in result.data["training"][way]] for way in ("plain", "scaled")
    }
    assert all(one > other for one, other in zip(ends["plain"], ends["scaled"], strict=True))
    assert result.outcome == "holds"
    assert result.verdict.answer == "dies"


def test_vectors_of_length_1_make_it_false() -> None:
    broken = run("scaling", quick=True, seed=1, steps=0, false=True)
    assert broken.outcome == "fails"
    assert [finding.outcome for finding in broken.verdict.findings] == ["fails"] * 3
    assert broken.verdict.answer == "fine"
    broken.document()


def test_the_gradient_through_softmax_is_its_jacobian_times_the_one_behind_it() -> None:
    random = np.random.default_rng(5)
    scores, pull = random.normal(size=(3, 7)), random.normal(size=(3, 7))
    step = 1e-6
    found = np.zeros_like(scores)
    for column in range(7):
        moved = scores.copy()
        moved[:, column] += step
        change = (reference.softmax(moved) - reference.softmax(scores)) / step
        found[:, column] = (change * pull).sum(axis=1)
    assert np.abs(_through_softmax(reference.softmax(scores), pull) - found).max() < 1e-5


def test_equal_curves_of_training_tell_nothing() -> None:
    flat = {"plain": [[2.0, 1.0], [2.0, 1.1]], "scaled": [[2.0, 1.1], [2.0, 1.0]]}
    training = {"at": [0, 10], "width": 1024, **flat}
    data = {**run("scaling", quick=True, steps=0).data, "training": training}
    assert EXPERIMENT.judge(data).findings[-1].outcome == "open"
    worse = {**training, "plain": [[2.0, 0.1], [2.0, 0.11]], "scaled": [[2.0, 1.0], [2.0, 1.1]]}
    assert EXPERIMENT.judge({**data, "training": worse}).findings[-1].outcome == "fails"
