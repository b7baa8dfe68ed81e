"""The experiment on what an RNN forgets: its tasks, its readers, its verdicts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import regard.lab
from regard.lab import recall
from regard.lab.recall_readers import reach, readers, right, train
from regard.lab.recall_tasks import NEITHER, draw, only_distracting
from regard.lab.threads import one_thread

KINDS = ("lstm", "gru", "attention")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def outcomes(verdict: Any) -> dict[str, str]:
    """The outcome of each finding, by its key without the outcome."""
    return {finding.said.key.split(".")[2]: finding.outcome for finding in verdict.findings}


def test_the_key_that_is_asked_for_comes_once_and_has_the_answer() -> None:
    tokens, answers = draw("recall", 53, 17, generator(), place=5)
    assert tokens.shape == (53, 5 + 17 + 1, 2)
    is_asked = tokens[:, :-1, 0] == tokens[:, -1:, 0]
    assert (is_asked.sum(1) == 1).all()
    assert is_asked[:, 5].all()
    assert (tokens[:, 5, 1] == answers).all()
    assert set(answers.tolist()) == {0, 1, 2, 3}


def test_nouns_in_between_tell_nothing_unless_they_distract() -> None:
    tokens, answers = draw("agreement", 997, 13, generator())
    assert (tokens[:, 0, 1] == answers).all()
    numbers = tokens[:, 1, 1]
    assert 0.4 < (numbers == answers).double().mean() < 0.6
    tokens, answers = only_distracting(tokens, answers)
    between = tokens[:, 1:, 1]
    is_other = between == (1 - answers)[:, None]
    assert (is_other | (between == NEITHER)).all()
    assert is_other[:, 0].all()
    assert (tokens[:, 0, 1] == answers).all()
    assert (between[:, -1] == NEITHER).all()


@pytest.mark.parametrize("task", ["recall", "agreement"])
def test_readers_have_about_as_many_parameters(task: str) -> None:
    counts = [sum(p.numel() for p in r.parameters()) for r in readers(task, 0).values()]
    assert max(counts) <= 1.05 * min(counts)


def test_the_same_seed_begins_with_the_same_numbers_and_leaves_the_others_alone() -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, two = readers("recall", 7), readers("recall", 7)
    assert torch.equal(torch.get_rng_state(), state)
    for kind in KINDS:
        for a, b in zip(one[kind].parameters(), two[kind].parameters(), strict=True):
            assert torch.equal(a, b)


def test_nothing_reaches_a_token_outside_of_the_window() -> None:
    attention = readers("recall", 0, window=7)["attention"]
    assert (reach(attention, "recall", 6, 3, 0) > -10).all()
    assert (reach(attention, "recall", 7, 3, 0) == -300).all()


def test_one_layer_of_attention_learns_to_recall() -> None:
    reader = readers("recall", 0)["attention"]
    before = right(reader, "recall", 11, 128, 2)
    with one_thread():
        losses = train(reader, "recall", [2, 11], 150, 1, lambda step: None)
    assert sum(losses[-10:]) < 0.3 * sum(losses[:10])
    assert before < 64 < 110 < right(reader, "recall", 11, 128, 2)


def test_quick_shows_that_the_gradient_of_recurrent_layers_fades() -> None:
    result = regard.lab.run("recall", quick=True, longest=128, repeats=3)
    document = result.document()
    assert "trained" not in result.data
    found = outcomes(result.verdict)
    assert found["reach"] == found["path"] == "holds"
    assert result.verdict.answer == "rnn"
    for of_task in result.data["initial"].values():
        for kind in ("lstm", "gru"):
            at = {d: sum(of_task[kind][n]) / 3 for n, d in enumerate(result.data["distances"])}
            assert at[8] > at[32] > at[128]
            assert at[128] < -10
        assert min(of_task["attention"][-1]) > -5
    assert result.data["path"] == {
        "lstm": result.data["distances"],
        "gru": result.data["distances"],
        "attention": [1] * 7,
    }
    assert "{" not in str(document["verdict"]["findings"][0]["said"])


def test_at_a_distance_of_two_nothing_has_faded() -> None:
    result = regard.lab.run("recall", quick=True, false=True)
    result.document()
    assert result.data["distances"] == [2]
    assert outcomes(result.verdict)["reach"] == "fails"
    assert result.verdict.answer == "neither"
    assert result.outcome == "fails"


def test_a_window_shorter_than_the_distance_makes_it_false_too() -> None:
    result = regard.lab.run("recall", quick=True, longest=16, window=5)
    result.document()
    assert result.data["path"]["attention"] == [1, 1, None, None]
    found = outcomes(result.verdict)
    assert found["reach"] == found["path"] == "fails"
    assert result.verdict.answer == "both"


def test_training_is_measured_by_the_same_code() -> None:
    result = regard.lab.run("recall", quick=True, longest=4, steps=3, tested=64)
    document = result.document()
    for task in ("recall", "agreement"):
        trained = result.data["trained"][task]
        for kind in KINDS:
            assert len(trained[kind]["right"]) == len(trained[kind]["reach"]) == 2
            assert all(0 <= n <= 64 for n in trained[kind]["right"])
    assert len(document["tables"]) == 4
    assert len(document["charts"]) == 6


def made(**changes: Any) -> dict[str, Any]:
    """Figures in which the claim holds, but for some that are changed."""
    log = {"lstm": [[-1.0, -1.1, -0.9], [-30.0, -31.0, -29.0]]}
    log |= {"gru": [[-1.0, -1.1, -0.9], [-40.0, -41.0, -39.0]]}
    log |= {"attention": [[-0.5, -0.6, -0.4], [-2.0, -2.1, -1.9]]}
    trained = {kind: {"right": [200, 60], "reach": [[-1.0, -1.1, -0.9]] * 2} for kind in KINDS}
    trained["attention"]["right"] = [200, 199]
    times = {"lstm": [[2.0, 2.1, 2.2]], "gru": [[3.0, 3.1, 3.2]], "attention": [[1.0, 1.1, 1.2]]}
    data: dict[str, Any] = {
        "distances": [8, 512],
        "window": 0,
        "path": {"lstm": [8, 512], "gru": [8, 512], "attention": [1, 1]},
        "parameters": {"lstm": 100, "gru": 101, "attention": 102},
        "initial": {"recall": log, "agreement": log},
        "seconds": {
            "lengths": [512],
            "times": times,
            "batch": 32,
            "batched": {kind: of_kind[0] for kind, of_kind in times.items()},
        },
        "trained": {
            task: {"of": 200, "chance": 0.25, **trained} for task in ("recall", "agreement")
        },
    }
    data = json.loads(json.dumps(data))  # so that nothing is there twice
    for path, value in changes.items():
        *above, last = path.split("__")
        inner = data
        for name in above:
            inner = inner[name]
        inner[last] = value
    return data


def test_hand_made_figures_are_judged_as_they_are() -> None:
    assert recall.judge(made()).outcome == "holds"
    near = {"initial__recall__lstm": [[-1.0, -1.1, -0.9], [-2.5, -2.6, -2.4]]}
    assert outcomes(recall.judge(made(**near)))["reach"] == "fails"
    wide = {"initial__recall__lstm": [[-1.0, -1.1, -0.9], [-2.0, -9.0, -5.0]]}
    assert outcomes(recall.judge(made(**wide)))["reach"] == "open"
    remembers = {"trained__agreement__gru__right": [200, 200]}
    verdict = recall.judge(made(**remembers))
    assert [f.outcome for f in verdict.findings if "training" in f.said.key] == ["holds", "fails"]
    assert verdict.outcome == "fails"
    unsure = {"trained__recall__attention__right": [200, 65]}
    assert "open" in [f.outcome for f in recall.judge(made(**unsure)).findings]
    slow = {"seconds__times__attention": [[4.0, 4.1, 4.2]]}
    assert outcomes(recall.judge(made(**slow)))["seconds"] == "fails"
    even = {"seconds__times__attention": [[1.0, 2.1, 4.2]]}
    assert outcomes(recall.judge(made(**even)))["seconds"] == "open"
    blind = {"path__attention": [1, None], "window": 100}
    assert outcomes(recall.judge(made(**blind)))["path"] == "fails"
    for changes in (near, wide, remembers, unsure, slow, even, blind):
        verdict = recall.judge(made(**changes))
        assert all("{" not in text.text() for text in [f.said for f in verdict.findings])
        assert all(note.text() for note in verdict.notes)
