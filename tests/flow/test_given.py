"""The flow of attention alone: its stages are the steps, and changes are computed anew, rightly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import Projections, Trace, reference, trace
from regard.worked import EXAMPLES, example

N, WIDTH, D_K, D_V, HEADS = 5, 7, 3, 2, 3


def _made(**options: Any) -> Trace:
    chance = np.random.default_rng(11)
    w_q, w_k = chance.normal(size=(2, HEADS, WIDTH, D_K))
    projections = Projections(
        w_q,
        w_k,
        chance.normal(size=(HEADS, WIDTH, D_V)),
        chance.normal(size=(HEADS * D_V, 11)),
    )
    x = chance.normal(size=(N, WIDTH))
    return trace(x, model=projections, tokens=["a", "b", "c", "d", "e"], **options)


def _recomputed(made: Trace, **options: Any) -> reference.Attention:
    q, k, v = (made.steps[name].array for name in ("query", "key", "value"))
    return reference.attention(q, k, v, **options)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_cell_of_an_example_is_the_traces(name: str) -> None:
    made = example(name).trace()
    flow = made.flow()
    assert flow.outline["kind"] == "attention"
    assert [band["id"] for band in flow.outline["bands"]] == ["attention"]
    for stage in flow.outline["stages"]:
        about = flow.outline["stages"][stage]
        for head in range(about["heads"]):
            whole = (0, about["rows"]), (0, about["columns"])
            expected = made.steps[stage].array if stage in made.steps else made.matrices[stage]
            expected = expected[head] if expected.ndim == 3 else expected
            assert np.array_equal(flow.cells(stage, head, *whole), expected)
            assert np.array_equal(flow.picture(stage, head).values, expected.astype(np.float32))
            if stage in made.steps:
                line = made.explain(stage, -1, -1, head)
                rows, columns = (about[axis] - 1 for axis in ("rows", "columns"))
                assert flow.explain(stage, head, rows, columns) == line


def test_stages_say_what_they_were_made_from() -> None:
    stages = _made().flow().outline["stages"]
    assert stages["query"]["from"] == ["input", "W_Q"]
    assert stages["head_output"]["from"] == ["weights", "value"]
    assert stages["output"]["from"] == ["concatenated", "W_O"]
    assert stages["scores"]["row_labels"] == stages["scores"]["column_labels"] == "input"
    assert (stages["W_K"]["heads"], stages["W_K"]["rows"], stages["W_K"]["columns"]) == (3, 7, 3)


def test_a_number_that_is_changed_keeps_a_head_that_is_given() -> None:
    made = example("apple").trace()
    change = {"kind": "number", "stage": "W_Q", "head": 0, "row": 2, "column": 1, "value": 0.75}
    flow = made.flow().changed([change])
    assert flow.outline["stages"]["concatenated"]["columns"] == 4
    x, w_q = made.steps["input"].array, made.matrices["W_Q"][0].copy()
    w_q[2, 1] = 0.75
    assert np.array_equal(flow.steps["query"].array[0], x @ w_q)
    given = made.steps["head_output"].array[1]
    assert np.array_equal(flow.cells("concatenated", 0, (0, 4), (2, 4)), given)
    assert flow.explain("W_Q", 0, 2, 1) == "0.75 is set by hand"
    assert flow.changed([]).steps is made.steps


def test_a_score_that_is_set_is_shared_out_anew() -> None:
    made = _made()
    change = {"kind": "score", "stage": "scaled", "head": 1, "row": 4, "column": 2, "value": 2.5}
    flow = made.flow().changed([change])
    scaled = made.steps["scaled"].array.copy()
    scaled[1, 4, 2] = 2.5
    weights = np.exp(scaled) / np.exp(scaled).sum(-1, keepdims=True)
    assert flow.cells("scaled", 1, (4, 5), (2, 3)) == [[2.5]]
    np.testing.assert_allclose(flow.steps["weights"].array, weights, rtol=1e-12)
    joined = np.concatenate(list(weights @ made.steps["value"].array), axis=-1)
    np.testing.assert_allclose(flow.steps["output"].array, joined @ made.matrices["W_O"])
    assert flow.explain("scaled", 1, 4, 2) == "2.5 is set by hand"


def test_a_score_that_is_set_before_its_scaling_is_divided_and_shared_out_anew() -> None:
    made = _made(causal=True)
    place = {"kind": "score", "stage": "scores", "head": 1, "column": 2, "value": 2.5}
    flow = made.flow().changed([{**place, "row": 4}, {**place, "row": 0}])
    scores = made.steps["scores"].array.copy()
    scores[1, 4, 2] = scores[1, 0, 2] = 2.5
    assert np.array_equal(flow.steps["scores"].array, scores)
    expected = scores / np.sqrt(D_K)
    expected[:, np.triu(np.ones((N, N), dtype=bool), 1)] = -np.inf  # also where it is set
    np.testing.assert_allclose(flow.steps["scaled"].array, expected, rtol=1e-15)
    np.testing.assert_allclose(flow.steps["weights"].array, reference.softmax(expected), rtol=1e-12)
    assert flow.explain("scores", 1, 4, 2) == "2.5 is set by hand"
    assert flow.explain("scaled", 1, 4, 2) == "1.4434 ≈ 2.5 / √3"
    after = {"kind": "score", "stage": "scaled", "head": 1, "row": 4, "column": 2, "value": -0.5}
    for changes in ([after, {**place, "row": 4}], [{**place, "row": 4}, after]):
        assert made.flow().changed(changes).cells("scaled", 1, (4, 5), (2, 3)) == [[-0.5]]


@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
def test_another_word_of_the_example_brings_its_numbers(positions: Any) -> None:
    made = _made(positions=positions)
    assert made.flow().outline["vocabulary"] == ["a", "b", "c", "d", "e"]
    flow = made.flow().changed([{"kind": "word", "position": 3, "text": "a"}])
    x = made.matrices.get("embeddings", made.steps["input"].array)[[0, 1, 2, 0, 4]]
    projections = Projections(*(made.matrices[f"W_{name}"] for name in "QKVO"))
    truth = trace(x, model=projections, tokens=["a", "b", "c", "a", "e"], positions=positions)
    assert flow.sequences == truth.sequences
    for name, step in truth.steps.items():
        assert np.array_equal(flow.steps[name].array, step.array), name
        assert flow.steps[name].axes == step.axes


def test_a_link_that_is_cut_is_masked_in_one_head_or_in_all() -> None:
    made = _made()
    cut = {"kind": "cut", "attention": "attention", "row": 3, "column": 1}
    for head, which in ((2, [2]), (None, [0, 1, 2])):
        flow = made.flow().changed([{**cut, "head": head}])
        mask = np.ones((HEADS, N, N), dtype=bool)
        mask[which, 3, 1] = False
        truth = _recomputed(made, mask=mask)
        np.testing.assert_allclose(flow.steps["weights"].array, truth.weights, atol=1e-12)
        np.testing.assert_allclose(flow.steps["head_output"].array, truth.output, atol=1e-12)


def test_scale_mask_and_heads_are_switched() -> None:
    made = _made()
    plain = made.flow().changed([{"kind": "scale", "on": False}, {"kind": "causal", "on": True}])
    truth = _recomputed(made, scale=1.0, causal=True)
    np.testing.assert_allclose(plain.steps["weights"].array, truth.weights, atol=1e-12)
    assert "not scaled" in plain.outline["stages"]["scaled"]["formula"]
    back = plain.changed([{"kind": "scale", "on": True}])
    assert np.array_equal(back.steps["weights"].array, made.steps["weights"].array)
    without = made.flow().changed([{"kind": "head", "attention": "attention", "head": 1}])
    outputs = made.steps["head_output"].array.copy()
    outputs[1] = 0.0
    mixed = np.concatenate(list(outputs), axis=-1) @ made.matrices["W_O"]
    np.testing.assert_allclose(without.steps["output"].array, mixed, atol=1e-12)


def test_a_score_of_a_masked_key_may_be_set() -> None:
    made = _made(causal=True)
    change = {"kind": "score", "stage": "scaled", "head": 0, "row": 0, "column": 4, "value": 1.25}
    weights = made.flow().changed([change]).steps["weights"].array[0, 0]
    own = made.steps["scaled"].array[0, 0, 0]
    share = np.exp(1.25) / (np.exp(1.25) + np.exp(own))
    np.testing.assert_allclose(weights, [1 - share, 0, 0, 0, share], atol=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "word", "position": 0, "text": "dog"}, "numbers for: a, b, c, d, e; got 'dog'"),
        ({"kind": "word", "position": 5, "text": "a"}, "from 0 to 4; got 5"),
        ({"kind": "shake"}, "the kind of a change"),
        (
            {"kind": "score", "stage": "weights", "head": 0, "row": 0, "column": 0, "value": 1},
            "'sc",
        ),
        ({"kind": "cut", "attention": "attention", "row": 5, "column": 0}, "from 0 to 4; got 5"),
        (
            {"kind": "number", "stage": "query", "head": 0, "row": 0, "column": 0, "value": 1},
            "is c",
        ),
        ({"kind": "scale", "on": 1}, "must say its on; got 1"),
        (
            {"kind": "number", "stage": "W_Q", "head": 0, "row": 0, "column": 0, "value": 1e999},
            "va",
        ),
    ],
)
def test_what_cannot_be_changed_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _made().flow().changed([change])


def test_places_that_are_not_there_are_refused() -> None:
    flow = _made().flow()
    with pytest.raises(ValueError, match="no stage"):
        flow.picture("nothing")
    with pytest.raises(ValueError, match="heads of weights are from 0 to 2; got 3"):
        flow.picture("weights", 3)
    with pytest.raises(ValueError, match="rows of weights must be from 0 to 5; got 0 to 6"):
        flow.cells("weights", 0, (0, 6), (0, 1))
    with pytest.raises(ValueError, match="columns of query are from 0 to 2; got -1"):
        flow.explain("query", 0, 0, -1)
