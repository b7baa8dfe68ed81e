"""One attention of a model as a trace of ten steps: its numbers, its lines, and its views."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.traced_models import MADE, traced
from numpy.testing import assert_allclose, assert_array_equal

from regard import Trace, trace
from regard._steps import STEPS
from regard.nn import ALiBi, LanguageModel, LanguageModelConfig, SelfAttention
from regard.view import render
from regard.worked import example

ATTENTIVE = [
    name for name in MADE if name not in ("embedding", "feed-forward", "layer norm", "RMS norm")
]


def numbers_of(made: Trace, step: str) -> list[tuple[int, int, int]]:
    array = made.steps[step].array
    heads, (rows, columns) = len(array) if array.ndim == 3 else 1, array.shape[-2:]
    places = itertools.product(range(heads), range(rows), range(columns))
    return [(i, j, h) for h, i, j in places][:: 1 + array.size // 40]


@pytest.mark.parametrize("name", ATTENTIVE)
def test_every_attention_has_ten_steps_that_follow_from_each_other(name: str) -> None:
    found = traced(name)
    for attention in found.attentions:
        ten = found.attention(attention)
        assert list(ten.steps) == list(STEPS)
        step = {name: each.array for name, each in ten.steps.items()}
        assert_allclose(step["scores"], step["query"] @ step["key"].swapaxes(1, 2), rtol=1e-9)
        assert_allclose(step["weights"] @ step["value"], step["head_output"], rtol=1e-9, atol=1e-12)
        assert_array_equal(step["concatenated"], np.hstack(list(step["head_output"])))
        matrices = ten.matrices
        if "W_O" in matrices:
            output = step["concatenated"] @ matrices["W_O"] + matrices.get("b_O", 0.0)
            assert_allclose(step["output"], output, rtol=1e-9, atol=1e-12)
        begin = f"{attention}." if attention else ""
        for each in ("weights", "head_output", "scaled"):
            assert_array_equal(step[each], found.steps[begin + each].array)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_the_terms_of_a_query_a_key_and_a_value_come_to_it(name: str) -> None:
    found = traced(name)
    for attention in found.attentions:
        ten = found.attention(attention)
        for step in ("query", "key", "value", "output", "head_output"):
            for i, j, h in numbers_of(ten, step):
                said = ten.explain(step, i, j, h)
                if step == "output" and "W_O" not in ten.matrices:
                    assert "no W_O" in said
                    continue
                if not said.terms:
                    assert "not turned" in said
                    continue
                total = math.fsum(math.prod(term) for term in said.terms)
                assert total == pytest.approx(said.value, rel=1e-11, abs=1e-12), said


def test_the_bias_of_the_scores_and_what_is_masked_are_explained() -> None:
    ten = traced("ALiBi").attention()
    for i, j, h in numbers_of(ten, "scaled"):
        said = ten.explain("scaled", i, j, h)
        if j > i:
            assert said == f"−∞: masked, as “x{j + 1}” comes after “x{i + 1}” and may not be seen"
        else:
            assert said.endswith(" (bias)")
            assert said.terms[0] / 2 + said.terms[1] == pytest.approx(said.value, rel=1e-12)
    assert ten.causal
    assert not traced("window").attention().causal


def test_an_attention_is_found_by_its_name_or_its_number() -> None:
    found = traced("transformer")
    by_name = found.attention("decoder.layers.0.cross")
    assert by_name.to_json() == found.attention(-1).to_json() == found.attention(3).to_json()
    assert by_name.tokens == ("id 1", "id 13", "id 4")
    assert by_name.steps["key"].axes[1].labels == tuple(f"id {n}" for n in (11, 2, 16, 2, 0))
    with pytest.raises(KeyError, match=r"no attention 'cross'. There are: 'encoder.layers.0.att"):
        found.attention("cross")
    with pytest.raises(IndexError, match="there are 4 attentions, from 0; got 4"):
        found.attention(4)
    with pytest.raises(IndexError, match="there are 0 attentions"):
        traced("layer norm").attention()


@pytest.mark.parametrize("name", ATTENTIVE)
def test_the_ten_steps_go_through_json_and_the_terminal(name: str) -> None:
    ten = traced(name).attention()
    again = Trace.from_json(ten.to_json())
    assert again.to_json() == ten.to_json()
    for step in ten.steps:
        assert again.explain(step, -1, -1) == ten.explain(step, -1, -1)
    for each in (ten, again):
        assert all(line.cell_len <= 80 for line in render(each, 80))


def test_a_page_and_a_figure_are_written_of_any_attention(tmp_path: Path) -> None:
    found = traced("transformer")
    found.html(tmp_path / "page.html", "decoder.layers.0.cross")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "decoder.layers.0.cross in a pass of the Transformer" in page
    found.figure(tmp_path / "weights.svg", attention=-1, width=3.3)
    assert "id 16" in (tmp_path / "weights.svg").read_text(encoding="utf-8")


def test_damaged_ten_steps_are_refused() -> None:
    content = json.loads(traced("heads").attention().to_json())
    content["matrices"]["b_Q"] = [[[1.0]]]
    with pytest.raises(ValueError, match=r"Trace.from_json\(\): damaged"):
        Trace.from_json(json.dumps(content))


@pytest.mark.parametrize("name", ["cat", "poem"])
def test_an_example_worked_through_a_module_reads_as_the_example_itself(name: str) -> None:
    by_hand = example(name).trace()
    x = by_hand.steps["input"].array
    layer = SelfAttention(
        x.shape[1],
        head_width=by_hand.steps["key"].array.shape[-1],
        value_width=by_hand.steps["value"].array.shape[-1],
    ).double()
    with torch.no_grad():
        for linear, matrix in ((layer.w_q, "W_Q"), (layer.w_k, "W_K"), (layer.w_v, "W_V")):
            linear.get_parameter("weight").copy_(torch.from_numpy(by_hand.matrices[matrix][0].T))
    ten = trace(x, model=layer, tokens=by_hand.tokens).attention()
    assert ten.tokens == by_hand.tokens
    for step in STEPS:
        assert_allclose(ten.steps[step].array, by_hand.steps[step].array, rtol=1e-12, atol=1e-15)
        for i, j, h in numbers_of(ten, step):
            assert ten.explain(step, i, j, h) == by_hand.explain(step, i, j, h)


def test_an_input_that_another_step_made_is_not_called_an_embedding() -> None:
    torch.manual_seed(0)
    config = LanguageModelConfig(vocabulary=11, width=6, heads=3, position=ALiBi())
    ten = trace([1, 2, 3], model=LanguageModel(config), tokens=["I", "love", "it"]).attention(0)
    said = ten.explain("input", "love", "x2")
    assert said.endswith(" is given: decoder.layers.0.norms.0.output")
    assert "as it comes into attention" in ten.steps["input"].meaning
