"""Layers that mix tokens without weights: every layer has a record, or is named with its kind."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from helpers.mixing_models import MIXING, mixing
from torch import Tensor, nn

import regard
from regard._watch.mixers import kind_of


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small calls wait for each other otherwise
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("family", MIXING)
def test_every_layer_has_a_record_or_is_named_with_its_kind(family: str) -> None:
    seen, told = MIXING[family]
    model, ids = mixing(family), torch.arange(3, 14)[None]
    expected = model(ids).logits
    with pytest.warns(UserWarning, match=re.escape(told[0])), regard.watch(model) as run:
        out = model(ids).logits
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
    assert len(run.unseen) == len(told)
    for line, start in zip(run.unseen, told, strict=True):
        assert line.startswith(start)
        assert line.endswith("there are no weights to see.") or line == start
    assert len(run.layers) == len(seen)
    numbers = [int(re.findall(r"\d+", name)[0]) for name in run.layers]
    assert numbers == seen or family == "zamba2"  # whose layers share one module


def test_layers_that_did_not_run_are_not_named() -> None:
    model = mixing("jamba")
    del model.model.layers[2:]
    with pytest.warns(UserWarning, match="layer 0 of"), regard.watch(model) as run:
        model(torch.arange(3, 14)[None])
    (line,) = run.unseen
    assert line.startswith("layer 0 of model.layers is state-space mixing")


class GatedDeltaNet(nn.Module):
    """The recurrence of a gated delta net, one head: its state is the memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.A_log = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        state, out = x.new_zeros(len(x), x.shape[2], x.shape[2]), []
        for token in x.unbind(1):
            key = token / token.norm(dim=-1, keepdim=True)
            old = (state @ key[..., None])[..., 0]
            state = (-self.A_log.exp()).exp() * state
            state = state + (token - old)[..., None] * key[:, None]
            out.append((state @ token[..., None])[..., 0])
        return torch.stack(out, 1)


def test_a_model_of_ones_own_is_named_by_what_its_modules_are() -> None:
    model = nn.Sequential(*(GatedDeltaNet(5) for _ in range(3)))
    with pytest.warns(UserWarning, match="layers 0–2 are"), regard.watch(model) as run:
        model(torch.randn(2, 7, 5))
    assert run.unseen == [
        "layers 0–2 are linear attention (gated delta net): there are no weights to see."
    ]
    alone = GatedDeltaNet(5)
    with pytest.warns(UserWarning, match="gated delta net"), regard.watch(alone) as run:
        alone(torch.randn(2, 7, 5))
    assert run.unseen[0].startswith("GatedDeltaNet: is linear attention")


class Residual(nn.Module):
    """A layer around attention, or around something else."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class SelfAttention(nn.Module):
    def __init__(self, is_at_work: bool) -> None:
        super().__init__()
        self.is_at_work = is_at_work

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x) if self.is_at_work else x


def test_a_layer_beside_others_is_named_if_something_in_it_is_called_attention() -> None:
    inner = (SelfAttention(True), nn.Linear(5, 5), SelfAttention(False), nn.Linear(5, 5))
    model = nn.Sequential(*map(Residual, inner))
    told = "layer 2 computes no attention that can be seen"
    with pytest.warns(UserWarning, match=told), regard.watch(model) as run:
        model(torch.randn(2, 7, 5))
    assert run.unseen == [f"{told}."]


def test_attention_of_a_family_that_is_named_so_is_not_called_linear() -> None:
    from transformers import KimiLinearConfig
    from transformers.models.kimi_linear import modeling_kimi_linear as kimi

    with torch.device("meta"):
        config = KimiLinearConfig()
        assert kind_of(kimi.KimiLinearAttention(config, 3)) is None
        assert kind_of(kimi.KimiLinearMLP(config)) is None
        delta = kind_of(kimi.KimiLinearDeltaAttention(config, 0))
    assert delta == "linear attention (gated delta net)"
