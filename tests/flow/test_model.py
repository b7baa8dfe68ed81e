"""The flow of a model: numbers of a trace, layer by layer; changes as if the model were another."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from helpers.traced_models import MADE, made, traced
from torch import nn

import regard
from regard import Flow
from regard._flow.model import ModelFlow
from regard._rules.attention import Scaled
from regard.nn import MultiHeadAttention

MODELS = [name for name in MADE if name not in ("feed-forward", "layer norm", "RMS norm")]


@cache
def _flow(name: str) -> Flow:
    model, given, options = made(name)
    return regard.flow(given, model=model, **options)


@pytest.mark.parametrize("name", MODELS)
def test_every_step_is_the_one_of_a_trace(name: str) -> None:
    truth, flow = traced(name), _flow(name)
    assert list(flow.sketch) == list(truth.steps)
    for step, expected in truth.steps.items():
        found = flow.steps[step]
        assert (found.rule, found.formula) == (expected.rule, expected.formula), step
        assert found.axes == expected.axes, step
        assert np.array_equal(found.array, expected.array), step


@pytest.mark.parametrize("name", MODELS)
def test_a_stage_is_explained_as_in_a_trace(name: str) -> None:
    truth, flow = traced(name), _flow(name)
    for stage, about in flow.outline["stages"].items():
        last = about["rows"] - 1, about["columns"] - 1
        own = len(truth.steps[stage].array) if truth.steps[stage].has_heads else 1
        for head in range(about["heads"]):
            line = truth.explain(stage, *last, head * own // about["heads"])
            assert flow.explain(stage, head, *last) == line


@pytest.mark.parametrize("name", MODELS)
def test_every_stage_stands_in_one_band_and_was_made_from_stages_that_are_there(name: str) -> None:
    outline = _flow(name).outline
    listed = [stage for band in outline["bands"] for stage in band["stages"]]
    assert listed == list(dict.fromkeys(listed))
    assert set(listed) == set(outline["stages"])
    assert outline["chosen"] in [band["id"] for band in outline["bands"]]
    for name, stage in outline["stages"].items():
        assert set(stage["from"]) <= set(outline["stages"]), name
        for labels in (stage["row_labels"], stage["column_labels"]):
            assert labels is None or isinstance(labels, list) or labels in outline["sequences"]


def test_bands_of_an_encoder_and_a_decoder() -> None:
    outline = _flow("transformer").outline
    found = [(band["id"], band["stack"], band["layer"]) for band in outline["bands"]]
    assert found == [
        ("input", "encoder", None),
        ("encoder.layers.0", "encoder", 0),
        ("encoder.layers.1", "encoder", 1),
        ("target", "decoder", None),
        ("decoder.layers.0", "decoder", 0),
        ("output", "decoder", None),
    ]
    cross = outline["stages"]["decoder.layers.0.cross.scores"]
    assert (cross["row_labels"], cross["column_labels"]) == ("target", "input")


def test_a_long_pass_is_traced_as_a_short_one() -> None:
    """More tokens than the sketch of it has: labels, masks and numbers are those of all."""
    model, _, _ = made("language model")
    ids = [(7 * n) % 17 for n in range(23)]
    truth, flow = regard.trace(ids, model=model), regard.flow(ids, model=model)
    for step, expected in truth.steps.items():
        assert np.array_equal(flow.steps[step].array, expected.array), step
        assert flow.steps[step].axes == expected.axes == flow.sketch[step].axes, step


def test_logits_that_are_too_many_are_computed_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given, options = made("language model")
    truth = traced("language model").steps["logits"].array
    monkeypatch.setattr("regard._flow.model._MOST_LOGITS", 7)
    monkeypatch.setattr("regard._flow.model._PIECE", 2)
    flow = regard.flow(given, model=model, **options)
    assert np.allclose(flow.cells("logits", 0, (1, 4), (3, 17)), truth[1:4, 3:], atol=1e-12)
    assert np.allclose(flow.picture("logits").values, truth, atol=1e-5)
    assert flow.explain("logits", 0, 4, 16).value == pytest.approx(truth[4, 16], abs=1e-12)
    head = model.get_submodule("head")
    assert not head._forward_pre_hooks


def test_predictions_are_the_softmax_of_the_logits() -> None:
    flow = _flow("language model")
    logits = traced("language model").steps["logits"].array
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert flow.outline["predictions"] is True
    for position in range(5):
        found = flow.predictions(position)
        assert found is not None
        order = np.argsort(-shares[position])[:5]
        assert [each.id for each in found] == order.tolist()
        assert [each.probability for each in found] == pytest.approx(shares[position, order])
    assert _flow("classifier, mean").predictions(0) is None
    assert _flow("encoder model").predictions(0) is None


# ── changes ───────────────────────────────────────────────────────────────────────────────────

PATH = "decoder.layers.0.attention"


def _state(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in vars(part).items() if not name.startswith("_")}
        for part in model.modules()
    ] + [
        {name: len(getattr(part, name)) for name in vars(part) if "_hooks" in name}
        for part in model.modules()
    ]


class Changed(MultiHeadAttention):
    """Attention from scratch, with one thing of it changed."""

    def change_it(self, kind: str) -> None:
        self.kind = kind

    def forward(self, x: torch.Tensor, *_: Any, place: Any, causal: bool, **__: Any) -> Any:
        n, groups = x.shape[1], self.heads // self.kv_heads
        q, k, v = (
            (x @ part.get_parameter("weight").T).view(n, -1, width).transpose(0, 1)
            for part, width in (
                (self.w_q, self.head_width),
                (self.w_k, self.head_width),
                (self.w_v, self.value_width),
            )
        )
        q, k = place.turn(q[None])[0], place.turn(k[None])[0]
        k, v = (each.repeat_interleave(groups, 0) for each in (k, v))
        scores = q @ k.mT / (1.0 if self.kind == "scale" else self.head_width**0.5)
        allowed = torch.ones(n, n, dtype=torch.bool)
        if self.kind != "causal":
            allowed = allowed.tril()
        allowed = allowed.expand(self.heads, n, n).clone()
        if self.kind == "cut":
            allowed[:, 3, 1] = False
        if self.kind == "cut in a head":
            allowed[5, 4, 2] = False
        if self.kind == "score":
            scores[2, 4, 1] = 3.25
        if self.kind == "score before scaling":
            scores[2, 4, 1] = 3.25 / self.head_width**0.5
            scores[2, 1, 4] = 3.25 / self.head_width**0.5  # which is masked all the same
        if self.kind == "later score":
            scores[2, 1, 4] = 3.25
            allowed[2, 1, 4] = True
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        output = weights @ v
        if self.kind == "head":
            output[4] = 0.0
        assert self.w_o is not None
        return self.w_o(output.transpose(0, 1).flatten(1))[None]


CHANGES: dict[str, dict[str, Any]] = {
    "scale": {"kind": "scale", "on": False},
    "causal": {"kind": "causal", "on": False},
    "cut": {"kind": "cut", "attention": PATH, "head": None, "row": 3, "column": 1},
    "cut in a head": {"kind": "cut", "attention": PATH, "head": 5, "row": 4, "column": 2},
    "score": {
        "kind": "score",
        "stage": f"{PATH}.scaled",
        "head": 2,
        "row": 4,
        "column": 1,
        "value": 3.25,
    },
    "later score": {
        "kind": "score",
        "stage": f"{PATH}.scaled",
        "head": 2,
        "row": 1,
        "column": 4,
        "value": 3.25,
    },
    "head": {"kind": "head", "attention": PATH, "head": 4},
}
BEFORE = {**CHANGES["score"], "stage": f"{PATH}.scores"}


@pytest.mark.parametrize("kind", [*CHANGES, "score before scaling"])
def test_a_change_is_what_a_model_made_that_way_computes(kind: str) -> None:
    model, given, options = made("language model")
    flow = regard.flow(given, model=model, **options)
    before = _state(model)
    masked = {**BEFORE, "row": 1, "column": 4}
    changed = flow.changed([CHANGES[kind]] if kind in CHANGES else [BEFORE, masked])
    other: Any = copy.deepcopy(model)
    for n, layer in enumerate(other.decoder.layers):
        if n == 0 or kind in ("scale", "causal"):
            layer.attention.__class__ = Changed
            layer.attention.change_it(kind)
    with torch.no_grad():
        truth = other(torch.tensor([given]))[0].numpy()
    np.testing.assert_allclose(changed.steps["logits"].array, truth, atol=1e-9)
    assert not np.allclose(truth, flow.steps["logits"].array, atol=1e-3)
    found = changed.predictions(4)
    assert found is not None
    assert found[0].id == truth[4].argmax()
    assert _state(model) == before
    assert changed.changed([]) is flow
    assert np.array_equal(
        flow.steps["logits"].array, traced("language model").steps["logits"].array
    )


def test_what_is_changed_says_so() -> None:
    flow = _flow("language model")
    score = flow.changed([CHANGES["score"]])
    assert score.explain(f"{PATH}.scaled", 2, 4, 1).endswith(" is set by hand")
    assert score.cells(f"{PATH}.scaled", 2, (4, 5), (1, 2))[0, 0] == pytest.approx(3.25)
    assert list(score.outline["stages"]) == list(flow.outline["stages"])
    before = flow.changed([BEFORE])
    assert before.cells(f"{PATH}.scores", 2, (4, 5), (1, 2))[0, 0] == 3.25
    assert before.explain(f"{PATH}.scores", 2, 4, 1) == "3.25 is set by hand"
    assert " 3.25 / √" in before.explain(f"{PATH}.scaled", 2, 4, 1)
    # What is not touched came about as before, and not by a bias that the model has not.
    for each in (score, before):
        assert each.explain(f"{PATH}.scaled", 2, 4, 2) == flow.explain(f"{PATH}.scaled", 2, 4, 2)
    without = flow.changed([CHANGES["head"]])
    line = without.explain(f"{PATH}.head_output", 4, 2, 0)
    assert line == "0.0 is what is left: this head is cut out"
    plain = flow.changed([CHANGES["scale"]])
    assert plain.outline["stages"][f"{PATH}.scaled"]["plain"] is True
    assert plain.explain(f"{PATH}.scaled", 0, 2, 1).endswith(", not scaled")
    open_ = flow.changed([CHANGES["causal"]])
    assert open_.outline["stages"][f"{PATH}.scaled"]["causal"] is False


def test_of_a_score_and_a_cut_the_later_one_counts() -> None:
    flow, score = _flow("language model"), CHANGES["score"]
    cut = {"kind": "cut", "attention": PATH, "row": 4, "column": 1}
    for head in (None, 2):
        changed = flow.changed([score, {**cut, "head": head}])
        assert changed.steps[f"{PATH}.weights"].array[2, 4, 1] == 0.0
        assert "masked" in changed.explain(f"{PATH}.scaled", 2, 4, 1)
        changed = flow.changed([{**cut, "head": head}, score])
        assert changed.cells(f"{PATH}.scaled", 2, (4, 5), (1, 2)) == pytest.approx(3.25)


def test_a_score_of_a_model_with_a_bias_is_set_with_it() -> None:
    flow = _flow("language model with ALiBi")
    for stage, value in ((f"{PATH}.scaled", -0.75), (f"{PATH}.scores", 1.5)):
        change = {"kind": "score", "stage": stage, "head": 1, "row": 3, "column": 2, "value": value}
        changed = flow.changed([change])
        assert changed.cells(stage, 1, (3, 4), (2, 3)) == pytest.approx(value)
        scaled = flow.steps[f"{PATH}.scaled"].array[1].copy()
        own = flow.steps[f"{PATH}.scores"].array[1, 3, 2]
        rule = changed.steps[f"{PATH}.scaled"].rule
        assert isinstance(rule, Scaled)
        scaled[3, 2] = (
            value if stage.endswith("scaled") else scaled[3, 2] + (value - own) / rule.divisor
        )
        weights = np.exp(scaled[3]) / np.exp(scaled[3]).sum()
        np.testing.assert_allclose(changed.steps[f"{PATH}.weights"].array[1, 3], weights)
        assert changed.explain(f"{PATH}.scaled", 1, 4, 2) == flow.explain(f"{PATH}.scaled", 1, 4, 2)


def test_changes_of_cross_attention() -> None:
    flow = _flow("transformer")
    cut = {"kind": "cut", "attention": "decoder.layers.0.cross", "row": 2, "column": 4}
    weights = flow.changed([cut]).steps["decoder.layers.0.cross.weights"].array
    assert (weights[:, 2, 4] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1.0)
    same = flow.changed([{"kind": "causal", "on": True}])
    cross = "decoder.layers.0.cross.weights"
    assert (same.steps[cross].array > 0).all()
    assert (same.steps["encoder.layers.0.attention.weights"].array[:, 0, 1:] == 0).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "cut", "attention": "elsewhere", "row": 0, "column": 0}, "one of this model's"),
        ({**CHANGES["score"], "stage": f"{PATH}.weights"}, "one of this model's"),
        ({**CHANGES["head"], "head": 6}, "from 0 to 5; got 6"),
        ({**CHANGES["cut"], "row": 5}, "from 0 to 4; got 5"),
        (
            {"kind": "number", "stage": "x", "head": 0, "row": 0, "column": 0, "value": 1},
            "can make",
        ),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(change: dict[str, Any], words: str) -> None:
    model, given, options = made("language model")
    flow = regard.flow(given, model=model, **options)
    before = _state(model)
    with pytest.raises(ValueError, match=words):
        flow.changed([change])
    assert _state(model) == before


def test_a_pass_with_more_weights_than_a_layer_may_have_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("regard._flow.model.MOST_WEIGHTS", 149)
    with pytest.raises(ValueError, match="at most 4 tokens"):
        _flow.__wrapped__("language model")


def test_few_layers_are_in_memory_and_all_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard._flow.lazily._OPEN", 1)
    truth, flow = traced("transformer"), _flow.__wrapped__("transformer")
    assert isinstance(flow, ModelFlow)
    for stage in reversed(flow.outline["stages"]):
        expected = truth.steps[stage].array
        about = flow.outline["stages"][stage]
        whole = (0, about["rows"]), (0, about["columns"])
        expected = expected[0] if expected.ndim == 3 else expected
        assert np.array_equal(flow.cells(stage, 0, *whole), expected)
        assert len(flow._bands) <= 1
