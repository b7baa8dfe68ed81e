"""One head of a model as ten steps: the numbers of the flow, and lines that say how they came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.model_folders import save, small_llama
from helpers.traced_models import made
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaForCausalLM

import regard
from regard import Flow, Trace
from regard._steps import STEPS
from regard.models import load

TEXT = "i love apple phones"
# A name, an attention of it, and its last head.
HEADS = [
    ("language model", "decoder.layers.1.attention"),
    ("language model with ALiBi", "decoder.layers.0.attention"),
    ("transformer", "decoder.layers.0.cross"),
    ("low-rank value of slices", "attention"),
    ("window", "attention"),
]


def flow_of(name: str) -> Flow:
    model, given, options = made(name)
    return regard.flow(given, model=model, **options)


@pytest.mark.parametrize(("name", "attention"), HEADS)
def test_a_head_has_ten_steps_whose_numbers_are_those_of_the_flow(
    name: str, attention: str
) -> None:
    flow = flow_of(name)
    stages = {
        each["part"]: (key, each)
        for key, each in flow.outline["stages"].items()
        if each["attention"] == attention
    }
    heads = stages["weights"][1]["heads"]
    trace = flow.steps_of(attention, heads - 1)
    assert list(trace.steps) == list(STEPS)
    for part, step in trace.steps.items():
        stage, about = stages.get(f"turned_{part}") or stages.get(part) or ("", {})
        if not stage:
            assert part in ("input", "output")  # another step under this name
            continue
        head = min(heads, about["heads"]) - 1
        exact = flow.cells(stage, head, (0, about["rows"]), (0, about["columns"]))
        assert np.array_equal(step.array[0] if step.has_heads else step.array, exact), part
        assert not step.has_heads or step.axes[0].labels == (f"head {heads - 1}",)


@pytest.mark.parametrize(("name", "attention"), HEADS)
def test_a_line_adds_up_to_its_number_and_is_read_back(name: str, attention: str) -> None:
    trace = flow_of(name).steps_of(attention, 1)
    again = Trace.from_json(trace.to_json())
    for each, step in trace.steps.items():
        rows, columns = step.array.shape[-2:]
        for row, column in ((rows - 1, 0), (0, columns - 1), (rows // 2, columns // 2)):
            line = trace.explain(each, row, column)
            assert line == again.explain(each, row, column)
            if each in ("query", "key", "value", "output") and "·" in line and "turned" not in line:
                added = sum(float(np.prod(term)) for term in line.terms)
                assert added == pytest.approx(line.value, rel=1e-9, abs=1e-12)
    last = trace.steps["concatenated"]
    heads = last.array.shape[1] // trace.steps["head_output"].array.shape[2]
    assert last.axes[1].labels[-1].startswith(f"head {heads - 1} ")
    assert trace.explain("concatenated", 0, -1).endswith(last.axes[1].labels[-1])


def test_a_model_of_transformers_is_asked_by_layer_and_head(tmp_path: Path) -> None:
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4)), tmp_path)
    run = load(tmp_path).see(TEXT)
    trace = run.flow().steps_of(1, 2)
    np.testing.assert_allclose(
        trace.steps["weights"].array[0], run.weights(1, 2)[0].numpy(), atol=1e-6
    )
    assert trace.note.startswith(f"Head 2 of layer 1 of {tmp_path}, counted from 0. These are")
    assert trace.steps["input"].formula == "X, from the norm of layer 1"
    assert trace.explain("input", 0, 0).endswith("is given: it comes from the norm of layer 1")
    with pytest.raises(ValueError, match=r"steps_of\(\): attention must be"):
        run.flow().steps_of(2)
    with pytest.raises(ValueError, match=r"has 3 heads"):
        run.flow().steps_of(0, 3)
    with pytest.raises(ValueError, match=r"must be one of this flow's, decoder.layers.0.attention"):
        run.flow().steps_of("decoder")
    with pytest.raises(ValueError, match="in its trace"):
        regard.trace(TEXT).flow().steps_of()


def test_what_was_only_watched_has_fewer_steps_and_says_so(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 2}
    sizes |= {"head_dim": 4, "num_attention_heads": 3, "num_key_value_heads": 1}
    config = Gemma2Config(**sizes, intermediate_size=7, attn_logit_softcapping=None)
    torch.manual_seed(3)
    save(Gemma2ForCausalLM(config), tmp_path)
    flow = load(tmp_path).see(TEXT).flow()
    trace = flow.steps_of(1, 2)
    assert list(trace.steps) == list(STEPS)[1:8]
    assert "What it is made from was not seen" in trace.note
    name = f"{flow.outline['bands'][1]['id']}.scores"
    assert trace.explain("scores", 3, 1) == flow.explain(name, 2, 3, 1)
    assert Trace.from_json(trace.to_json()).explain("weights", 3, 1)


def test_more_numbers_than_can_be_looked_at_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard._flow.heads._MOST_NUMBERS", 100)
    with pytest.raises(ValueError, match="must have at most 100 numbers"):
        flow_of("language model").steps_of(0)
