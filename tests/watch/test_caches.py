"""Generating with caches: that forget, that are made in advance, that are there already."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.watch_checks import assert_layer_is
from helpers.watch_models import DECODERS, build
from torch import Tensor

import regard

B, N, NEW = 2, 7, 5
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)
GREEDY: dict[str, Any] = {
    "max_new_tokens": NEW,
    "min_new_tokens": NEW,
    "do_sample": False,
    "pad_token_id": 0,
}


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def tokens(*shape: int) -> Tensor:
    return torch.randint(2, 59, shape, generator=torch.Generator().manual_seed(5))


def eager(name: str, ids: Tensor, real: Tensor | None = None) -> tuple[Tensor, ...]:
    mask = torch.ones_like(ids) if real is None else real.long()
    found = build(name, "eager")(
        input_ids=ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(1) - 1).clamp(min=0),
        output_attentions=True,
    )
    return found.attentions


@pytest.mark.parametrize("name", DECODERS)
def test_a_generation_with_left_padding_is_one_record_without_it(name: str) -> None:
    model, ids = build(name), tokens(B, N)
    real = torch.ones(B, N, dtype=torch.int64)
    real[0, :3] = 0
    expected = model.generate(ids, attention_mask=real, **GREEDY)
    with regard.watch(model, SEE, keep=("q", "k")) as run:
        found = model.generate(ids, attention_mask=real, **GREEDY)
    assert torch.equal(found, expected)
    whole = torch.nn.functional.pad(real, (0, NEW - 1), value=1).bool()
    full = eager(name, found[:, :-1], whole)
    for layer, weights in zip(run.layers.values(), full, strict=True):
        assert_layer_is(layer, weights, queries=whole, keys=whole, atol=5e-5)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_cache_that_was_made_in_advance_is_one_record(name: str, padded: bool) -> None:
    model, ids = build(name), tokens(B, N)
    real = torch.ones(B, N, dtype=torch.int64)
    real[0, :3] = 0 if padded else 1
    arguments = GREEDY | {"cache_implementation": "static", "disable_compile": True}
    expected = model.generate(ids, attention_mask=real, **arguments)
    see = SEE if name == "llama" else regard.See(entropy=True, top=3, distance=True)
    keep = ("q", "k", "v") if name == "llama" else ()
    with regard.watch(model, see, keep=keep) as run:
        found = model.generate(ids, attention_mask=real, **arguments)
    assert torch.equal(found, expected)
    whole = torch.nn.functional.pad(real, (0, NEW - 1), value=1).bool()
    full = eager(name, found[:, :-1], whole)
    rows = whole if padded else None
    for layer, weights in zip(run.layers.values(), full, strict=True):
        assert_layer_is(layer, weights, queries=rows, keys=rows, atol=5e-5, see=see)
        if keep:
            where = whole[:, None, :, None].expand_as(weights)
            some = layer.weights()
            torch.testing.assert_close(some[where], weights[where], atol=5e-5, rtol=1e-3)


def test_weights_that_are_asked_for_have_the_size_of_the_cache() -> None:
    model, ids = build("llama"), tokens(B, N)
    arguments = GREEDY | {"cache_implementation": "static", "disable_compile": True}
    arguments |= {"output_attentions": True, "return_dict_in_generate": True}
    expected = build("llama", "eager").generate(ids, **arguments).attentions
    with regard.watch(model):
        found = model.generate(ids, **arguments).attentions
    for a, b in zip(found, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(x, y, atol=5e-5, rtol=1e-3)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_cache_that_has_forgotten_is_seen_from_where_it_begins(steps: int) -> None:
    ids = tokens(1, N + steps)
    model = build("mistral")
    before = model(ids[:, :N], use_cache=True)
    cache = before.past_key_values
    with (
        pytest.warns(UserWarning, match="had been forgotten when watching began"),
        regard.watch(model, SEE, keep=("q", "k")) as run,
    ):
        [
            model(ids[:, n : n + 1], past_key_values=cache, use_cache=True)
            for n in range(N, N + steps)
        ]
    full = eager("mistral", ids)
    start = N - 3  # a window of four, and so three keys before the first that was seen
    for layer, weights in zip(run.layers.values(), full, strict=True):
        expected = weights[:, :, N:, start:]
        torch.testing.assert_close(layer.weights(), expected, atol=5e-5, rtol=1e-3)
        assert layer.shape == (1, 6, steps, 3 + steps)
        torch.testing.assert_close(
            layer.shares["self"], weights.diagonal(dim1=2, dim2=3)[..., N:], atol=5e-5, rtol=1e-3
        )
        assert (layer.shares["first"] == 0).all()
    edges = run.edges(0.0).to_pylist()
    assert {row["key"] for row in edges} == set(range(3 + steps))


def test_keys_that_a_cache_has_forgotten_are_copies() -> None:
    """The last tensor of a cache that forgets may be written over: it is not used."""
    model, ids = build("mistral"), tokens(1, N + 2)
    with regard.watch(model, SEE, keep=("q", "k")) as run:
        cache = model(ids[:, :N], use_cache=True).past_key_values
        for n in range(N, N + 2):
            model(ids[:, n : n + 1], past_key_values=cache, use_cache=True)
        for layer in cache.layers:
            layer.keys.zero_()
    full = eager("mistral", ids)
    for layer, weights in zip(run.layers.values(), full, strict=True):
        torch.testing.assert_close(layer.weights(), weights, atol=5e-5, rtol=1e-3)


def test_cross_attention_of_a_generation_has_the_weights_of_every_step() -> None:
    model, ids = build("t5"), tokens(B, 11)
    with regard.watch(model, SEE, keep=("q", "k")) as run:
        found = model.generate(ids, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
    full = build("t5", "eager")(
        input_ids=ids, decoder_input_ids=found[:, :-1], output_attentions=True
    ).cross_attentions
    crossed = [layer for layer in run.layers.values() if layer.cross]
    for layer, weights in zip(crossed, full, strict=True):
        assert_layer_is(layer, weights, atol=5e-5)
        torch.testing.assert_close(layer.weights(), weights, atol=5e-5, rtol=1e-3)
