"""The experiment `sinks`: weight that rests on the first token, and where it goes without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.lab_models import loaded_once

import regard.lab
from regard.lab.sinks import _largest, judge

TEXTS, LAYERS = 5, 3


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> Iterator[None]:
    with loaded_once():
        yield


def figures(
    whole: float, without: float, blocked: float, spread: float, noise: float = 0.01
) -> dict[str, Any]:
    random = np.random.default_rng(7)
    found: dict[str, Any] = {"model": "smollm2", "texts": TEXTS, "even": [0.1] * TEXTS}
    shares = {"whole": whole, "without": without, "blocked": blocked, "spread": spread}
    for name, share in shares.items():
        of_text = share + noise * random.standard_normal((TEXTS, 1))
        found[name] = (of_text + np.zeros((TEXTS, LAYERS))).tolist()
    changes = {"without": 0.2, "blocked": 0.3, "ordinary": 0.1, "apart": 0.1}
    return found | {"last": [0.1] * TEXTS, "changes": [changes] * TEXTS}


def outcomes(found: dict[str, Any]) -> list[str]:
    return [finding.outcome for finding in judge(found).findings]


def test_the_weight_finds_another_token_to_rest_on() -> None:
    result = regard.lab.run("sinks", quick=True, texts=2, tokens=23)
    found = {name: np.mean(result.data[name]) for name in ("whole", "without", "blocked", "spread")}
    assert found["whole"] > 0.4 > result.data["even"][0]
    assert found["without"] > 0.4
    assert found["blocked"] > 1.5 * found["spread"]
    assert result.verdict.answer == "heir"
    for change in result.data["changes"]:
        assert change["blocked"] > 1e-3
        assert abs(change["apart"]) < 1e-5  # where positions are relative, unseen is gone
    assert "come to the same" in " ".join(result.document()["verdict"]["notes"])
    assert len(result.document()["tables"][0]["rows"]) == 30
    assert result.outcome != "fails"


def test_minilm_has_its_special_tokens() -> None:
    result = regard.lab.run("sinks", texts=2, tokens=29, model="minilm")
    assert 0.1 < np.mean(result.data["whole"]) < 0.6
    assert result.data["changes"][0]["apart"] > 0.1  # positions are not relative
    notes = " ".join(result.document()["verdict"]["notes"])
    assert "[SEP]" in notes
    assert "come to the same" not in notes


def test_a_random_model_has_no_sink() -> None:
    result = regard.lab.run("sinks", quick=True, texts=2, tokens=17, false=True)
    assert result.outcome == "fails"
    assert result.verdict.answer == "none"
    np.testing.assert_allclose(result.data["whole"], result.data["even"][0], atol=0.03)


def test_the_most_that_a_key_gets_is_of_those_who_may_look() -> None:
    n = 11
    sees = np.tri(n)
    weights = np.zeros((1, 2, n, n))
    weights[0, :, np.arange(n), np.arange(n)] = 0.5
    weights[0, 0, 2:, 2] = 0.75  # nine queries see key 2; one head of two looks at it
    assert _largest(weights, sees).tolist() == pytest.approx([(0.75 * 9 + 0.5) / 2 / 9])


def test_the_verdict_follows_the_figures() -> None:
    assert outcomes(figures(0.6, 0.5, 0.5, 0.2)) == ["holds", "holds", "holds"]
    assert outcomes(figures(0.6, 0.1, 0.2, 0.4)) == ["holds", "fails", "fails"]
    assert outcomes(figures(0.1, 0.1, 0.2, 0.2)) == ["fails"]
    assert outcomes(figures(0.6, 0.3, 0.3, 0.3, noise=0.1)) == ["holds", "open", "open"]
    assert outcomes(figures(0.25, 0.2, 0.3, 0.2, noise=0.1))[0] == "open"
    cases = [(0.6, 0.5, 0.5, 0.2), (0.6, 0.1, 0.2, 0.4), (0.1, 0.1, 0.2, 0.2)]
    assert [judge(figures(*case)).answer for case in cases] == ["heir", "spread", "none"]
    for case in cases:
        said = judge(figures(*case)).document("en")
        assert all(finding["said"] for finding in said["findings"])
        assert "nats" in said["notes"][0]


def test_a_model_is_called_by_its_name_in_every_language() -> None:
    found = figures(0.1, 0.1, 0.1, 0.1) | {"model": "random"}
    said = judge(found).findings[0].said
    assert said.text("en").startswith("SmolLM2 with random parameters: ")
    assert said.text("ko").startswith("무작위 파라미터의 SmolLM2: ")
