"""The experiment on learned matrices: its task, its maps, its verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard.lab
from regard import reference
from regard.lab import learning
from regard.lab.learning_training import TOKENS, Reverser


def outcomes(verdict: Any) -> dict[str, str]:
    return {finding.said.key.split(".")[2]: finding.outcome for finding in verdict.findings}


def test_maps_are_the_weights_of_the_reference() -> None:
    torch.manual_seed(3)
    model = Reverser()
    tokens = torch.randint(10, (2, TOKENS))
    x = model.embedded(tokens).double().numpy()
    w_q, w_k, w_v = (
        getattr(model.attention, name).weight.detach().double().numpy().T
        for name in ("w_q", "w_k", "w_v")
    )
    for row, found in zip(x, model.weights(tokens).numpy(), strict=True):
        expected = reference.attention(row @ w_q, row @ w_k, row @ w_v).weights
        assert np.allclose(found, expected, atol=1e-5)


def test_quick_maps_begin_without_structure_and_end_with_it() -> None:
    result = regard.lab.run("learning", quick=True)
    document = result.document()
    assert result.outcome == "holds"
    assert result.verdict.answer == "learned"
    share = np.array(result.data["share"])
    assert (share[:, 0] < 2 / TOKENS).all()
    assert (share[:, -1] > 0.5).all()
    maps = document["charts"][0]
    assert maps["kind"] == "maps"
    assert maps["panes"][0]["name"] == "step 0"
    for pane in maps["panes"]:
        assert np.allclose(np.array(pane["values"]).sum(1), 1, atol=1e-4)
    last = np.array(maps["panes"][-1]["values"])
    assert (last.argmax(1) == np.arange(TOKENS)[::-1]).mean() > 0.8
    assert all(min(moved) > 0 for moved in result.data["moved"].values())


@pytest.mark.parametrize("broken", [{"frozen": True}, {"targets": "random"}])
def test_without_learning_no_structure_comes(broken: dict[str, Any]) -> None:
    result = regard.lab.run("learning", quick=True, models=3, steps=100, **broken)
    result.document()
    found = outcomes(result.verdict)
    assert found["first"] == "holds"
    assert found["last"] == "fails"
    assert result.verdict.answer == "random"
    if "frozen" in broken:
        assert result.data["moved"]["w_q"] == result.data["moved"]["w_k"] == [0.0] * 3
        assert min(result.data["moved"]["w_v"]) > 0
        share = np.array(result.data["share"])
        assert (share == share[:, :1]).all()


def test_made_false_it_does_not_hold() -> None:
    result = regard.lab.run("learning", quick=True, false=True, models=2, steps=20)
    assert result.data["frozen"] is True
    assert result.outcome == "fails"


def test_hand_made_figures_are_judged_as_they_are() -> None:
    def made(first: list[float], last: list[float], loss: list[float]) -> dict[str, Any]:
        return {
            "at": [0, 7],
            "tokens": 11,
            "frozen": False,
            "targets": "reversed",
            "share": np.array([first, last]).T.tolist(),
            "loss": np.array([[2.3] * 3, loss]).T.tolist(),
            "moved": {name: [0.5, 0.6, 0.7] for name in ("w_q", "w_k", "w_v")},
        }

    low, high, spread = [0.08, 0.09, 0.1], [0.9, 0.91, 0.92], [0.1, 0.6, 0.9]
    cases = [
        (made(low, high, low), ("holds", "holds", "holds"), "learned"),
        (made(high, high, low), ("fails", "holds", "holds"), "learned"),
        (made(low, low, [2.3, 2.2, 2.3]), ("holds", "fails", "fails"), "random"),
        (made(spread, spread, [0.1, 1.0, 2.3]), ("open", "open", "open"), None),
    ]
    for data, expected, answer in cases:
        verdict = learning.judge(data)
        assert tuple(outcomes(verdict).values()) == expected
        assert verdict.answer == answer
        assert all("{" not in finding.said.text() for finding in verdict.findings)
        assert all("{" not in note.text() for note in verdict.notes)
