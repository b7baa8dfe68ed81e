"""What each key received and what each span got, running over the steps of a generation."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from helpers.watch_models import DECODERS, build
from torch import Tensor

import regard
from regard._watch.call import Call
from regard.nn import LanguageModel, LanguageModelConfig, Rotary

B, N, NEW = 2, 11, 7
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


def eager(name: str, ids: Tensor, real: Tensor) -> tuple[Tensor, ...]:
    found = build(name, "eager")(
        input_ids=ids,
        attention_mask=real.long(),
        position_ids=(real.long().cumsum(1) - 1).clamp(min=0),
        output_attentions=True,
    )
    return found.attentions


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("padded", [0, 3])
def test_received_is_the_sum_over_all_steps_without_q_and_k(name: str, padded: int) -> None:
    model, ids = build(name), tokens(B, N)
    real = torch.ones(B, N, dtype=torch.int64)
    real[0, :padded] = 0
    with warnings.catch_warnings(), regard.watch(model, regard.See(received=True)) as run:
        warnings.simplefilter("error")
        found = model.generate(ids, attention_mask=real, **GREEDY)
    whole = torch.nn.functional.pad(real, (0, NEW - 1), value=1).bool()
    for layer, weights in zip(run.layers.values(), eager(name, found[:, :-1], whole), strict=True):
        rows = weights.double() * whole[:, None, :, None]
        assert layer.received is not None
        assert layer.q is None
        torch.testing.assert_close(layer.received.double(), rows.sum(2), rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("name", DECODERS)
def test_spans_go_on_step_by_step_and_new_tokens_belong_to_none(name: str) -> None:
    model, ids = build(name), tokens(B, N)
    labels = torch.tensor([0, 0, 2, 2, -1, 1, 1, 1, 1, 2, 0])
    with regard.watch(model, regard.See(spans=labels)) as run:
        found = model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY)
    real = torch.ones(B, N + NEW - 1, dtype=torch.bool)
    for layer, weights in zip(run.layers.values(), eager(name, found[:, :-1], real), strict=True):
        each = [weights[..., :N][..., labels == span].sum(-1) for span in range(3)]
        assert layer.seen.spans is not None
        torch.testing.assert_close(layer.seen.spans, torch.stack(each, -1), rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_generation_of_our_own_models_runs_on_as_well(count: int) -> None:
    torch.manual_seed(7)
    config = LanguageModelConfig(vocabulary=59, width=12, heads=6, kv_heads=2, position=Rotary())
    model = LanguageModel(config).double().eval()
    with regard.watch(model, regard.See(received=True)) as run:
        made = model.generate(tokens(count, N), max_new_tokens=NEW).tokens
    ids = torch.cat([tokens(count, N), torch.tensor(made)[:, :-1]], 1)
    with regard.watch(model, regard.See(received=True), keep=("q", "k")) as whole:
        model(ids)
    for name, layer in run.layers.items():
        weights = whole.layers[name].weights()
        assert layer.received is not None
        torch.testing.assert_close(layer.received, weights.sum(2), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(
            layer.received, whole.layers[name].received, rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("name", DECODERS)
def test_a_step_of_one_sequence_has_the_shares_of_the_whole_text(name: str) -> None:
    model, ids = build(name), torch.cat([tokens(1, N), tokens(1, N)], 1)
    with regard.watch(model, regard.See()) as run:
        found = model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY)
    with regard.watch(model, regard.See()) as whole:
        model(input_ids=found[:, :-1])
    for layer, other in zip(run.layers.values(), whole.layers.values(), strict=True):
        assert layer.shares.keys() == other.shares.keys()
        for share, expected in other.shares.items():
            torch.testing.assert_close(
                layer.shares[share], expected, rtol=1e-4, atol=1e-5, equal_nan=True
            )


def test_steps_make_no_map_and_hold_nothing_that_is_as_long_as_the_text() -> None:
    model, ids = build(DECODERS[0]), tokens(1, N)
    sees: list[regard.See] = []
    compute = Call.compute

    def seen(self: Any, see: Any) -> Any:
        sees.append(see)
        return compute(self, see)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Call, "compute", seen)
        with (
            warnings.catch_warnings(),
            regard.watch(model, regard.See(map=(3, 4), received=True)) as run,
        ):
            warnings.simplefilter("ignore")
            model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY)
    layers = len(run.layers)
    assert [see.map for see in sees[:layers]] == [(3, 4)] * layers
    assert [see.map for see in sees[layers:]] == [None] * layers * (NEW - 1)
    assert any("map of" in note for note in run.notes)
    assert not any("received of" in note for note in run.notes)
