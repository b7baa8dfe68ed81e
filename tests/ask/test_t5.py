"""T5, which has a head that scales, no table of positions, and writes: seen, foretold, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.model_folders import save
from transformers import T5Config, T5ForConditionalGeneration

from regard._flow.watched import WatchedFlow
from regard._steps import STEPS
from regard.models import Loaded, load
from regard.view.html.flow import flow_page
from regard.view.html.run import run_page

TEXT = "i love apple phones"


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def t5(request: pytest.FixtureRequest, tmp_path: Path) -> Loaded:
    sizes: dict[str, Any] = {"vocab_size": 11, "d_model": 12, "d_kv": 4, "d_ff": 7, "num_heads": 3}
    sizes |= {"num_layers": 2, "initializer_factor": 0.7, "tie_word_embeddings": request.param}
    sizes |= {"decoder_start_token_id": 0, "eos_token_id": 3}
    config = T5Config(**sizes)
    torch.manual_seed(3)
    save(T5ForConditionalGeneration(config), tmp_path)
    return load(tmp_path)


def test_it_is_seen_with_what_it_writes_and_predicts_as_it_does(t5: Loaded) -> None:
    run = t5.see(TEXT)
    assert run.again is not None
    target = run.again.keywords["target"]
    n, m = len(target), len((run.tokens or [[]])[0])
    shapes = [(layer.cross, layer.shape[2:]) for layer in run.layers.values()]
    assert shapes == [(False, (m, m))] * 2 + [(False, (n, n)), (True, (n, m))] * 2
    with torch.no_grad():
        given = {**t5.inputs(TEXT), "decoder_input_ids": torch.tensor([target])}
        logits = t5.model(**given).logits[0]
    assert logits[:-1].argmax(-1).tolist() == target[1:]
    for position, found in enumerate(run.predictions(3)):
        shares, ids = logits[position].double().softmax(-1).topk(3)
        assert [each.id for each in found] == ids.tolist()
        assert [each.probability for each in found] == pytest.approx(shares.tolist(), abs=1e-6)


def test_its_flow_has_its_attentions_and_says_what_was_not_seen(t5: Loaded) -> None:
    run = t5.see(TEXT)
    flow = run.flow(3)
    assert isinstance(flow, WatchedFlow)
    assert "T5ForConditionalGeneration" in flow.note
    assert "was not seen" in flow.outline["lacks"]
    for n, name in enumerate(run.layers):
        weights = flow.steps[f"{name}.weights"].array
        np.testing.assert_allclose(weights, run.weights(n)[0].numpy(), atol=1e-5)
    trace = flow.steps_of(0, 2)
    assert list(trace.steps) == list(STEPS)[1:8]
    assert trace.explain("scaled", 1, 2).endswith(
        "the model adds to its scores, which is not shown"
    )
    assert "T5" in flow_page(flow)
    assert "T5" in run_page(run, layer=3)
