"""The experiment `refine`: whose part of a move is how long, and which part brings in context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from helpers.lab_models import loaded_once

import regard.lab
from regard.lab.refine import _attend, _cases, _feed, judge

SENTENCES, LAYERS = 5, 3


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> Iterator[None]:
    with loaded_once():
        yield


def figures(
    share: float, attention: float, feed: float = 0.0, noise: float = 0.01
) -> dict[str, Any]:
    random = np.random.default_rng(2)
    shares = share + noise * random.standard_normal((SENTENCES, LAYERS))
    parts = np.empty((SENTENCES, 2, LAYERS))
    parts[:, 0], parts[:, 1] = attention, feed
    found = {"share": shares.tolist(), "along": shares.tolist(), "direct": parts.tolist()}
    return found | {"apart": np.full((SENTENCES, 2, LAYERS), 0.3).tolist()}


def outcomes(found: dict[str, Any]) -> list[str]:
    return [finding.outcome for finding in judge(found).findings]


def test_context_comes_in_by_attention_alone() -> None:
    result = regard.lab.run("refine", quick=True, sentences=7)
    direct = np.asarray(result.data["direct"])
    assert (direct[:, 0] > 0.01).all()
    assert direct[:, 1].max() < 1e-5
    assert result.verdict.findings[0].outcome == "holds"
    share = np.asarray(result.data["share"])
    assert ((share > 0.3) & (share < 0.7)).all()
    assert result.verdict.answer == "even"
    assert result.document()["tables"][0]["rows"][0][0] == 0


def test_without_links_to_other_words_there_is_no_context() -> None:
    result = regard.lab.run("refine", quick=True, sentences=7, false=True)
    assert result.verdict.findings[0].outcome == "fails"
    assert result.outcome == "fails"
    assert np.asarray(result.data["apart"]).max() < 1e-5
    assert result.document()["verdict"]["notes"] == []


def test_the_two_parts_are_those_that_a_watch_sees() -> None:
    loaded = regard.models.load("minilm", progress=False)
    inputs = loaded.inputs(_cases(1)[0][0])
    model: Any = loaded.model
    with regard.watch(model, keep=("hidden_states",)) as run, torch.no_grad():
        model(**inputs)
    with torch.no_grad():
        state = model.embeddings(inputs["input_ids"])
        torch.testing.assert_close(state, run.between["embedding"])
        for number, layer in enumerate(model.encoder.layer):
            name = f"encoder.layer.{number}"
            between = _attend(layer, state, None)
            state = _feed(layer, between)
            torch.testing.assert_close(between, run.between[name], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(state, run.hidden_states[name], atol=1e-4, rtol=1e-4)


def test_the_sentences_are_of_all_words_in_turn() -> None:
    assert [word for _, word in _cases(7)] == ["apple"] * 2 + ["bank"] * 2 + ["creature"] * 2 + [
        "apple"
    ]
    assert len(_cases(120)) == len(set(_cases(120))) == 120


def test_the_verdict_follows_the_figures() -> None:
    assert outcomes(figures(0.3, 0.2)) == ["holds", "holds"]
    assert outcomes(figures(0.7, 0.2)) == ["holds", "fails"]
    assert outcomes(figures(0.5, 0.2, noise=0.1)) == ["holds", "open"]
    assert outcomes(figures(0.3, 0.0))[0] == "fails"
    assert outcomes(figures(0.3, 0.2, feed=0.1))[0] == "fails"
    answers = [judge(figures(share, 0.2)).answer for share in (0.2, 0.45, 0.8)]
    assert answers == ["attention", "even", "feed_forward"]
    for found in (figures(0.3, 0.2), figures(0.7, 0.0), figures(0.5, 0.2, noise=0.1)):
        assert all(finding["said"] for finding in judge(found).document("en")["findings"])
