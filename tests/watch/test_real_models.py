"""The two real models, watched: what is seen is what their own eager attention reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from helpers.watch_checks import assert_layer_is

import regard

SEE = regard.See(entropy=True, top=8, map=(7, 5), received=True, distance=True)
TEXT = "The animal did not cross the street because it was too tired, and the animal was old."


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(scope="module", params=["minilm", "smollm2"])
def loaded(request: pytest.FixtureRequest) -> Any:
    return regard.models.load(request.param)


def eager(loaded: Any, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    before = loaded.model.config._attn_implementation
    loaded.model.set_attn_implementation("eager")
    try:
        return list(loaded.model(**inputs, output_attentions=True).attentions)
    finally:
        loaded.model.set_attn_implementation(before)


def output(out: Any) -> torch.Tensor:
    return out.logits if "logits" in out else out.last_hidden_state


def test_one_text_is_seen_as_it_is(loaded: Any) -> None:
    inputs = loaded.inputs(TEXT)
    expected = output(loaded.model(**inputs))
    with regard.watch(
        loaded.model, SEE, keep=("q", "k"), tokenizer=loaded.tokenizer, text=TEXT
    ) as run:
        out = output(loaded.model(**inputs))
    torch.testing.assert_close(out, expected, atol=1e-3, rtol=1e-3)
    full = eager(loaded, inputs)
    assert len(run.layers) == len(full)
    for index, (layer, weights) in enumerate(zip(run.layers.values(), full, strict=True)):
        assert_layer_is(layer, weights, atol=1e-4)
        tile = run.weights(index, 0, rows=slice(2, 7), keys=slice(0, 5))
        torch.testing.assert_close(tile, weights[:, 0, 2:7, :5], atol=1e-4, rtol=1e-3)
    assert run.tokens is not None
    words = [token.text.strip() for token in run.tokens[0]]
    assert words.count("animal") == 2
    assert all(TEXT[t.start : t.end] == t.text for t in run.tokens[0] if t.end > t.start)


def test_a_batch_with_padding_is_seen_without_it(loaded: Any) -> None:
    texts = [TEXT, "A short one."]
    inputs = loaded.inputs(texts)
    real = inputs["attention_mask"].bool()
    assert not real.all()
    expected = output(loaded.model(**inputs))
    with regard.watch(loaded.model, SEE, tokenizer=loaded.tokenizer, text=texts) as run:
        out = output(loaded.model(**inputs))
    torch.testing.assert_close(out[real], expected[real], atol=1e-3, rtol=1e-3)
    for layer, weights in zip(run.layers.values(), eager(loaded, inputs), strict=True):
        assert_layer_is(layer, weights, queries=real, keys=real, atol=1e-4)
    edges = run.edges(min_weight=0.2)
    short = edges.filter(edges.column("sequence").to_numpy() == 1)
    assert short.num_rows
    assert max(short.column("key").to_pylist()) < int(real[1].sum())


def test_what_cutting_a_head_does_can_be_read_off(loaded: Any) -> None:
    inputs = loaded.inputs(TEXT)
    keep = ("hidden_states", "output")
    with regard.watch(loaded.model, regard.See(), keep=keep) as before:
        loaded.model(**inputs)
    with regard.watch(loaded.model, regard.See(), keep=keep, ablate={2: [1]}) as after:
        loaded.model(**inputs)
    for number, name in enumerate(before.hidden_states):
        same = torch.equal(before.hidden_states[name], after.hidden_states[name])
        assert same == (number < 2), name
    effect = before.effect(after)
    assert str(effect)


def test_the_weights_of_every_head_follow_from_q_and_k(loaded: Any) -> None:
    inputs = loaded.inputs(TEXT)
    with regard.watch(loaded.model, regard.See(), keep=("q", "k", "v", "output")) as run:
        loaded.model(**inputs)
    for layer in run.layers.values():
        assert layer.v is not None
        assert layer.output is not None
        values = layer.v.repeat_interleave(layer.output.shape[1] // layer.v.shape[1], 1)
        product = layer.weights() @ values
        torch.testing.assert_close(product, layer.output, atol=1e-4, rtol=1e-3)
