"""The experiment on repeating: its sequences, what its models see and learn, its verdicts."""

from __future__ import annotations

from typing import Any

import torch

import regard.lab
from regard.lab import induction
from regard.lab.induction_training import asked_for, draw, model_of, sees_before


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def outcomes(verdict: Any) -> dict[str, str]:
    return {finding.said.key.split(".")[2]: finding.outcome for finding in verdict.findings}


def test_every_token_comes_twice_and_goes_on_as_it_did() -> None:
    tokens = draw(53, False, generator())
    half = tokens.shape[1] // 2
    assert (tokens[:, :half].sort(1).values == tokens[:, half:].sort(1).values).all()
    assert all(len(set(row)) == half for row in tokens[:, :half].tolist())
    distances = set()
    for row in tokens.tolist():
        for place in asked_for().tolist():
            before = row.index(row[place])
            assert before < half
            assert row[before + 1] == row[place + 1]
            distances.add(place - before)
    assert len(distances) > 5


def test_fixed_repeats_come_at_one_distance() -> None:
    tokens = draw(53, True, generator())
    half = tokens.shape[1] // 2
    assert torch.equal(tokens[:, :half], tokens[:, half:])


def test_only_a_second_layer_can_see_what_stood_before_a_token() -> None:
    assert sees_before(model_of(1, 5), 5) == 0.0
    assert sees_before(model_of(2, 5), 5) > 0.01


def test_quick_shows_what_one_layer_cannot_see_and_does_not_learn() -> None:
    result = regard.lab.run("induction", quick=True, models=2, steps=40)
    document = result.document()
    assert outcomes(result.verdict) == {"sees": "holds", "one": "holds"}
    assert max(result.data["sees"]["one"]) == 0.0
    assert len(document["charts"]) == 3


def test_made_false_one_layer_learns_the_fixed_distance() -> None:
    result = regard.lab.run("induction", quick=True, false=True, models=2)
    assert result.outcome == "fails"
    assert outcomes(result.verdict) == {"sees": "holds", "one": "fails"}
    assert result.verdict.answer == "both"
    assert min(result.data["one"]["right"]) > 0.5
    assert min(result.data["one"]["induction"]) > 0.3  # by the distance alone


def test_training_is_measured_by_the_same_code() -> None:
    result = regard.lab.run("induction", models=2, steps=3, tested=17)
    document = result.document()
    for name in ("one", "two"):
        for what in ("right", "induction", "previous"):
            assert len(result.data[name][what]) == 2
            assert all(0 <= share <= 1 for share in result.data[name][what])
    assert outcomes(result.verdict)["two"] in ("fails", "open")  # nothing is learned in 3 steps
    assert len(document["tables"]) == 1
    assert len(document["charts"]) == 3


def made(one: list[float], two: list[float], sees: float = 0.0) -> dict[str, Any]:
    """Figures as a run gives them: right tokens of each model."""
    return {
        "distance": "varied",
        "steps": 7,
        "sees": {"one": [sees] * 3, "two": [0.2, 0.21, 0.19]},
        "one": {"right": one, "induction": [0.1, 0.1, 0.1], "previous": [0.1, 0.2, 0.1]},
        "two": {"right": two, "induction": [0.8, 0.9, 0.7], "previous": [0.9, 0.9, 0.8]},
    }


def test_hand_made_figures_are_judged_as_they_are() -> None:
    low, high, spread = [0.1, 0.12, 0.11], [0.98, 0.99, 0.97], [0.05, 0.4, 0.99]
    cases = [
        (made(low, high), {"sees": "holds", "two": "holds", "one": "holds"}, "two"),
        (made(high, high), {"sees": "holds", "two": "holds", "one": "fails"}, "both"),
        (made(low, low), {"sees": "holds", "two": "fails", "one": "holds"}, "none"),
        (made(spread, spread), {"sees": "holds", "two": "open", "one": "open"}, None),
        (made(low, high, sees=0.1), {"sees": "fails", "two": "holds", "one": "holds"}, "two"),
        (made(low, high, sees=1e-9), {"sees": "open", "two": "holds", "one": "holds"}, "two"),
    ]
    for data, expected, answer in cases:
        verdict = induction.judge(data)
        assert outcomes(verdict) == expected
        assert verdict.answer == answer
        assert all("{" not in finding.said.text() for finding in verdict.findings)
        assert all("{" not in note.text() for note in verdict.notes)
