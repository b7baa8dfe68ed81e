"""The experiment `heads`: heads differ in what they look at, those of random weights do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.lab_models import loaded_once

import regard.lab
from regard.lab.heads import _RELATIONS, _distances, _relations, judge
from regard.models import Reading
from regard.text import Token

HEADS, TEXTS = 5, 3


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> Iterator[None]:
    with loaded_once():
        yield


def figures(within: float, between: float, untrained: float, noise: float = 0.01) -> dict[str, Any]:
    random = np.random.default_rng(3)

    def around(value: float) -> list[float]:
        return (value + noise * random.standard_normal(HEADS)).tolist()

    kinds = ["itself", "previous token", "mixed", "mixed", "broad"]
    found = {"texts": TEXTS, "kinds": [kinds] * TEXTS, "within": around(within)}
    return found | {"between": around(between), "untrained": around(untrained)}


def outcomes(found: dict[str, Any]) -> list[str]:
    return [finding.outcome for finding in judge(found).findings]


def test_heads_of_a_trained_model_differ_and_of_a_random_one_do_not() -> None:
    right = regard.lab.run("heads", quick=True, texts=2)
    assert right.outcome == "holds"
    assert right.verdict.answer == "few"
    found = right.data
    assert np.mean(found["between"]) > 2 * np.mean(found["within"])
    assert len(found["within"]) == len(found["heads"]) == 72
    assert len(right.document()["charts"][1]["panes"][0]["values"]) == 72
    wrong = regard.lab.run("heads", quick=True, texts=2, false=True)
    assert wrong.outcome == "fails"
    assert wrong.verdict.answer == "same"
    assert set(wrong.data["kinds"][0]) <= {"mixed", "broad"}
    assert wrong.document()["verdict"]["findings"]


def test_every_key_has_one_relation_to_every_query() -> None:
    texts = ["[CLS]", "so", "it", "is", ",", "and", "a", "b", "so", "[SEP]"]
    tokens = [Token(text, n, n + 1) for n, text in enumerate(texts)]
    ids = [1, 7, 8, 9, 3, 4, 5, 6, 7, 2]
    relations = _relations(Reading("", tokens, ids, [0] * len(ids)))
    found = [_RELATIONS[n] for n in relations[1]]
    assert found == [
        *("first", "self", "next", "near", "mark", "near", "far", "far", "same", "last")
    ]
    assert _RELATIONS[relations[8, 7]] == "previous"


def test_a_distance_is_the_share_of_the_weight_that_is_elsewhere() -> None:
    one, two = [1.0, 0.0], [0.25, 0.75]
    within, between, apart = _distances(np.array([[one, one], [two, two]]))
    assert within.tolist() == [0, 0]
    assert between.tolist() == [0.75, 0.75]
    assert apart[0, 1] == 0.75


def test_the_verdict_follows_the_figures() -> None:
    assert outcomes(figures(0.1, 0.5, 0.1)) == ["holds", "holds", "holds"]
    assert outcomes(figures(0.5, 0.1, 0.3)) == ["fails", "fails", "holds"]
    assert outcomes(figures(0.3, 0.3, 0.15, noise=0.1)) == ["open", "open", "holds"]
    one = figures(0.1, 0.5, 0.1)
    one["kinds"] = [["broad"] * HEADS] * TEXTS
    assert outcomes(one)[-1] == "fails"
    for found in (figures(0.1, 0.5, 0.1), figures(0.5, 0.1, 0.3), one):
        assert all(finding["said"] for finding in judge(found).document("en")["findings"])
