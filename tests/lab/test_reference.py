"""The experiment `reference`: "it" and its noun, and heads not scored on what chose them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.lab_models import loaded_once

import regard.lab
from regard.lab.experiment import Asked
from regard.lab.marked import data, find, unmark
from regard.lab.reference import _MARKS, _halves, _scored, _sentences, judge

SENTENCES = 47


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> Iterator[None]:
    with loaded_once():
        yield


def asked(**changes: Any) -> Asked:
    return Asked({"sentences": 60, "answers": "right"} | changes)


def figures(right: float, previous: float, weights: tuple[float, float, float]) -> dict[str, Any]:
    """Of one model whose best head is right so often, and the last noun so often."""
    random = np.random.default_rng(11)

    def share(of: float) -> list[int]:
        return [int(n < of * SENTENCES) for n in random.permutation(SENTENCES)]

    found: dict[str, Any] = {"heads": [[3, 1], [2, 5]], "right": share(right), "own": share(1.0)}
    noise = 0.01 * random.standard_normal((3, SENTENCES))
    rows = (np.asarray(weights)[:, None] + noise).tolist()
    found["weights"] = dict(zip(("noun", "verb", "the"), rows, strict=True)) | {"first": rows[0]}
    kinds = ["before" if n % 3 else "after" for n in range(SENTENCES)]
    uniform = [0.4] * SENTENCES
    model = {"kinds": kinds, "previous": share(previous), "uniform": uniform}
    return model | {"models": {"minilm": found}}


def outcomes(found: dict[str, Any]) -> list[str]:
    return [finding.outcome for finding in judge(found).findings]


def test_the_sentences_have_one_it_and_its_nouns_before_it() -> None:
    texts = [text for kind in ("before", "after") for text in data("reference")[kind]]
    assert len(texts) == len(set(texts)) == 60
    for text in texts:
        marked = unmark(text, _MARKS)
        assert not set("[]()/") & set(marked.text)
        (it,) = find(marked.text, "it")
        spans = [span for kind in _MARKS for span in marked.spans[kind]]
        assert len(marked.spans["right"]) == len(marked.spans["verb"]) == 1, text
        assert marked.spans["other"], text
        assert all(start > 0 and end < it[0] for start, end in spans), text
        assert any(0 < start < it[0] for start, _ in find(marked.text, "the")), text
    nearest = [each.right == len(each.nouns) - 1 for each in _sentences(asked())]
    assert sum(nearest) == 30


def test_two_sentences_that_begin_alike_are_in_one_half() -> None:
    sentences = _sentences(asked())
    halves = _halves(sentences, np.random.default_rng(0))
    assert halves.sum() == 30
    after = [half for half, each in zip(halves, sentences, strict=True) if each.kind == "after"]
    assert after[::2] == after[1::2]


def test_no_head_is_scored_on_what_it_was_chosen_on() -> None:
    halves = np.array([0, 1, 0, 1, 1])
    is_right = np.zeros((5, 1, 2), dtype=bool)
    is_right[halves == 0, 0, 0] = True  # one head knows the first half alone, one the second
    is_right[halves == 1, 0, 1] = True
    found = _scored(is_right, np.zeros((1, 2)), halves)
    assert found == {"heads": [[0, 0], [0, 1]], "right": [0] * 5, "own": [1] * 5}


def test_of_answers_by_lot_the_best_head_knows_nothing() -> None:
    result = regard.lab.run("reference", quick=True, false=True)
    assert result.verdict.findings[0].outcome == "fails"
    assert result.outcome == "fails"
    model = result.data["models"]["minilm"]
    assert np.mean(model["right"]) < np.mean(model["own"])
    assert result.document()["tables"][0]["rows"]


def test_the_verdict_follows_the_figures() -> None:
    order = (0.2, 0.1, 0.05)
    assert outcomes(figures(0.9, 0.5, order)) == ["holds", "holds"]
    assert outcomes(figures(0.4, 0.5, order)) == ["fails", "holds"]
    assert outcomes(figures(0.6, 0.95, order)) == ["fails", "holds"]
    assert outcomes(figures(0.6, 0.55, order)) == ["open", "holds"]
    assert outcomes(figures(0.9, 0.5, (0.1, 0.2, 0.05))) == ["holds", "fails"]
    assert outcomes(figures(0.9, 0.5, (0.2, 0.1, 0.1))) == ["holds", "open"]
    assert judge(figures(0.9, 0.5, order)).answer == "head"
    assert judge(figures(0.4, 0.5, order)).answer == "previous"
    assert judge(figures(0.6, 0.55, order)).answer is None
    for found in (figures(0.9, 0.5, order), figures(0.4, 0.5, (0.1, 0.2, 0.05))):
        said = judge(found).document("en")
        assert all(finding["said"] for finding in said["findings"])
        assert len(said["notes"]) == 2
