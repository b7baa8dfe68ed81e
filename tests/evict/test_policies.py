"""Policies: which keys stay, by their definitions, on weights that are known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import regard
from regard.evict import (
    POLICIES,
    HeavyHitters,
    Random,
    SinkAndWindow,
    SlidingWindow,
    WindowVote,
)
from regard.run import Layer

B, H, N, D = 2, 6, 23, 5


class Heads(nn.Module):
    """Attention of six heads over two heads of keys."""

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return regard.attention(q, k, k, causal=True)


@pytest.fixture(scope="module")
def layer() -> Layer:
    torch.manual_seed(3)
    q, k = 2 * torch.randn(B, H, N, D).double(), torch.randn(B, 2, N, D).double()
    model = Heads()
    with regard.watch(model, regard.See(received=True), keep=("q", "k")) as run:
        model(q, k)
    (found,) = run.layers.values()
    return found


@given(count=st.integers(1, N))
def test_as_many_stay_as_may_in_their_order(layer: Layer, count: int) -> None:
    for policy in POLICIES[1:]:
        kept = policy.kept((B, 2, N), count, layer)
        assert kept.shape == (B, 2, count)
        assert bool((kept.diff(dim=2) > 0).all())


def test_a_window_is_the_last_and_sinks_the_first() -> None:
    assert SlidingWindow().kept((1, 1, N), 5).tolist() == [[[18, 19, 20, 21, 22]]]
    assert SinkAndWindow(sinks=2).kept((1, 1, N), 5).tolist() == [[[0, 1, 20, 21, 22]]]
    assert SinkAndWindow(sinks=7).kept((1, 1, 5), 3).shape == (1, 1, 3)


def test_heavy_hitters_have_received_most_from_all_heads_that_share_them(layer: Layer) -> None:
    received = layer.weights().sum(2).view(B, 2, 3, N).sum(2)
    kept = HeavyHitters(recent=0.0).kept((B, 2, N), 5, layer)
    assert kept.tolist() == received.topk(5).indices.sort(-1).values.tolist()
    half = HeavyHitters(recent=0.5).kept((B, 2, N), 6, layer)
    assert half[..., 3:].tolist() == [[[20, 21, 22]] * 2] * B
    before = received[..., :20].topk(3).indices.sort(-1).values
    assert half[..., :3].tolist() == before.tolist()


def test_the_last_queries_vote_and_their_neighbours_stay(layer: Layer) -> None:
    votes = layer.weights()[:, :, -7:].sum(2).view(B, 2, 3, N).sum(2)
    kept = WindowVote(window=7, smooth=1).kept((B, 2, N), 11, layer)
    assert kept[..., 4:].tolist() == [[list(range(16, 23))] * 2] * B
    assert kept[..., :4].tolist() == votes[..., :16].topk(4).indices.sort(-1).values.tolist()
    mean = torch.stack(
        [votes[..., max(n - 1, 0) : n + 2].mean(-1) for n in range(16)], -1
    )  # of those that there are
    kept = WindowVote(window=7, smooth=3).kept((B, 2, N), 11, layer)
    assert kept[..., :4].tolist() == mean.topk(4).indices.sort(-1).values.tolist()


def test_a_window_that_does_not_fit_keeps_its_last_ones(layer: Layer) -> None:
    kept = WindowVote(window=7).kept((B, 2, N), 5, layer)
    assert kept.tolist() == [[[18, 19, 20, 21, 22]] * 2] * B


def test_what_is_drawn_is_drawn_again_and_otherwise_with_another_seed(layer: Layer) -> None:
    shape = (B, 2, N)
    assert torch.equal(Random().kept(shape, 7, layer), Random().kept(shape, 7, layer))
    assert not torch.equal(Random().kept(shape, 7, layer), Random(seed=1).kept(shape, 7, layer))
    assert not torch.equal(Random().kept(shape, 7)[0], Random().kept(shape, 7)[1])


def test_policies_refuse_what_they_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"WindowVote\(\): smooth must be odd; got 4"):
        WindowVote(smooth=4)
    with pytest.raises(ValueError, match=r"SinkAndWindow\(\): sinks must be"):
        SinkAndWindow(sinks=-1)
    with pytest.raises(ValueError, match=r"HeavyHitters\(\): recent must be"):
        HeavyHitters(recent=1.5)
    with pytest.raises(ValueError, match=r"run must hold q and k of each layer for WindowVote"):
        WindowVote().kept((B, 2, N), 5)
