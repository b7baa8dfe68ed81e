"""Where a token stands: every position does what its formula says, and is refused where it ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers.formulas import array, close, heads, linear, scrambled
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard import reference
from regard.nn import (
    ALiBi,
    Encoder,
    LanguageModel,
    LanguageModelConfig,
    Learned,
    MultiHeadAttention,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
    StackConfig,
)
from regard.nn._places import Positions, positions_of, slopes


def module(position: Position, width: int = 12, n_heads: int = 3, head_width: int = 8) -> Positions:
    return positions_of(position, StackConfig(width=width, heads=n_heads, head_width=head_width))


def upto(n: int) -> Tensor:
    return torch.arange(n)[None]


# ── added to the embeddings ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("width", [2, 7, 12])
@pytest.mark.parametrize("base", [10_000.0, 31.0])
def test_sinusoidal_equals_the_reference_in_both_layouts(width: int, base: float) -> None:
    wanted = reference.sinusoidal(11, width, base)
    found = module(Sinusoidal(base), width).embed(upto(11), torch.float64)
    assert found is not None
    close(found[0], wanted, 1e-13)
    halves = module(Sinusoidal(base, layout="halves"), width).embed(upto(11), torch.float64)
    assert halves is not None
    close(halves[0], np.concatenate([wanted[:, 0::2], wanted[:, 1::2]], axis=1), 1e-13)


def test_sinusoidal_is_exact_far_out_in_float32() -> None:
    far = torch.tensor([[99_991]])
    found = module(Sinusoidal(), 6).embed(far, torch.float32)
    assert found is not None
    wanted = [
        wave(99_991 * 10_000 ** (-2 * i / 6)) for i in range(3) for wave in (math.sin, math.cos)
    ]
    close(found[0, 0], np.array(wanted), 1e-7)


def test_learned_gives_the_rows_of_its_table() -> None:
    layer = module(Learned(7))
    positions = torch.tensor([[3, 0, 6], [1, 1, 2]])
    found = layer.embed(positions, torch.float32)
    assert found is not None
    assert torch.equal(found, layer.get_parameter("weight")[positions])


def test_a_position_beyond_a_learned_table_is_refused_before_any_work() -> None:
    words = r"Learned\(length=5\): there must be at most 5 tokens.*; got 6\. Shorten"
    encoder = Encoder(StackConfig(width=6, heads=3, position=Learned(5)))
    assert encoder(torch.zeros(1, 5, 6)).shape == (1, 5, 6)
    with pytest.raises(ValueError, match=words):
        encoder(torch.zeros(1, 6, 6))
    config = LanguageModelConfig(vocabulary=11, width=6, heads=3, position=Learned(5))
    model = LanguageModel(config).eval()
    with pytest.raises(ValueError, match=words):
        model(torch.zeros(1, 6, dtype=torch.int64))
    cache = model.new_cache(1)
    with torch.no_grad():
        model(torch.zeros(1, 4, dtype=torch.int64), cache=cache)
        with pytest.raises(ValueError, match=words):
            model(torch.zeros(1, 2, dtype=torch.int64), cache=cache)
        # It was refused before the cache took anything in: one token more still fits.
        model(torch.zeros(1, 1, dtype=torch.int64), cache=cache)
    assert cache.length == 5


def test_what_is_added_changes_nothing_inside_attention() -> None:
    for position in (NoPosition(), Sinusoidal(), Learned(5)):
        place = module(position).place(upto(5), 5, False, torch.float32)
        x = torch.randn(1, 3, 5, 8)
        assert place.bias is None
        assert place.turn(x) is x


# ── rotary ────────────────────────────────────────────────────────────────────────────────────


def turned(x: np.ndarray[Any, Any], positions: np.ndarray[Any, Any], rotary: Rotary) -> Any:
    """Each pair as a complex number, times exp(i·p·ω)."""
    width = x.shape[-1] if rotary.width is None else rotary.width
    half = width // 2
    first = np.arange(half) * (2 if rotary.pairing == "neighbours" else 1)
    second = first + (1 if rotary.pairing == "neighbours" else half)
    angle = positions[:, None] * rotary.base ** (-2.0 * np.arange(half) / width)
    z = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angle)
    found = x.copy()
    found[..., first], found[..., second] = z.real, z.imag
    return found


ROTARY = [
    Rotary(pairing=pairing, width=width, base=base)
    for pairing in ("halves", "neighbours")
    for width, base in ((None, 10_000.0), (4, 10_000.0), (2, 17.0))
]


@pytest.mark.parametrize("rotary", ROTARY, ids=str)
def test_rotary_turns_pairs_by_their_angle(rotary: Rotary) -> None:
    layer = module(rotary)
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    place = layer.place(upto(5), 5, False, torch.float64)
    close(place.turn(x), turned(array(x), np.arange(5), rotary))
    positions = torch.tensor([[0, 0, 1, 2, 3], [7, 8, 9, 10, 4000]])
    place = layer.place(positions, 5, False, torch.float64)
    for b in range(2):
        wanted = turned(array(x[b]), positions[b].numpy(), rotary)
        close(place.turn(x)[b], wanted, 1e-11)


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_rotary_in_attention_turns_queries_and_keys_and_no_values(pairing: Any) -> None:
    rotary = Rotary(pairing=pairing)
    layer = scrambled(MultiHeadAttention(12, 3, kv_heads=1, position=rotary))
    assert isinstance(layer, MultiHeadAttention)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    q, k, v = (
        heads(linear(array(x), part), count)
        for part, count in ((layer.w_q, 3), (layer.w_k, 1), (layer.w_v, 1))
    )
    q, k = (turned(part, np.arange(5), rotary) for part in (q, k))
    z = reference.attention(q, k, v, causal=True).output
    assert layer.w_o is not None
    wanted = linear(z.swapaxes(1, 2).reshape(2, 5, 12), layer.w_o)
    close(layer(x, causal=True), wanted)


@pytest.mark.parametrize("rotary", ROTARY, ids=str)
@settings(max_examples=15, deadline=None)
@given(shift=st.integers(0, 3000), seed=st.integers(0, 2**31))
def test_rotary_scores_depend_on_the_distance_alone(rotary: Rotary, shift: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 1, 5, 8, dtype=torch.float64, generator=draw)
    layer = module(rotary)

    def scores(first: int) -> Tensor:
        place = layer.place(upto(5) + first, first + 5, False, torch.float64)
        return place.turn(q) @ place.turn(k).mT

    close(scores(shift), scores(0), 1e-10)


def test_rotary_scores_do_depend_on_the_distance() -> None:
    q = k = torch.ones(1, 1, 5, 8, dtype=torch.float64)
    place = module(Rotary()).place(upto(5), 5, False, torch.float64)
    scores = (place.turn(q) @ place.turn(k).mT)[0, 0]
    for distance in range(5):
        assert scores.diagonal(distance).std(correction=0) < 1e-12
    assert (scores[0, 0] - scores[0, 1]).abs() > 0.1


def test_rotary_angles_are_exact_in_float32_far_out() -> None:
    layer = module(Rotary())
    found = layer.place(torch.tensor([[7993]]), 7994, False, torch.float32).cosine
    assert found is not None
    wanted = np.cos(7993 * 10_000.0 ** (-2.0 * np.arange(4) / 8))
    np.testing.assert_allclose(array(found).reshape(-1)[:4], wanted, atol=6e-8)


@pytest.mark.parametrize(("width", "head_width"), [(10, 8), (None, 7)])
def test_rotary_of_more_than_a_head_or_of_half_a_pair_is_refused(
    width: int | None, head_width: int
) -> None:
    with pytest.raises(ValueError, match=rf"Rotary\(\): width must be even.*of {head_width}; got"):
        module(Rotary(width=width), head_width=head_width)


# ── biases of scores ──────────────────────────────────────────────────────────────────────────


def test_alibi_slopes_are_those_of_its_paper() -> None:
    assert slopes(8) == [2.0**-n for n in range(1, 9)]
    assert slopes(1) == [2.0**-8]


def test_alibi_slopes_are_those_of_transformers() -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    for n_heads in range(1, 35):
        found = build_alibi_tensor(torch.ones(1, 2), n_heads, torch.float32)  # slope · key
        np.testing.assert_allclose(found[:, 0, 1].numpy(), slopes(n_heads), rtol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_alibi_is_a_bias_that_grows_with_the_distance(causal: bool) -> None:
    layer = scrambled(MultiHeadAttention(12, 3, position=ALiBi()))
    bare = scrambled(MultiHeadAttention(12, 3))
    bias = [[[-m * abs(i - j) for j in range(5)] for i in range(5)] for m in slopes(3)]
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    wanted = bare(x, bias=torch.tensor(bias, dtype=torch.float64), causal=causal)
    close(layer(x, causal=causal), wanted)


@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 16), (16, 20), (64, 1000)])
@pytest.mark.parametrize("causal", [True, False])
def test_the_buckets_of_relative_bias_are_those_of_t5(
    buckets: int, distance: int, causal: bool
) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    layer = module(RelativeBias(buckets, distance), n_heads=1)
    with torch.no_grad():
        layer.get_parameter("weight").copy_(torch.arange(float(buckets))[:, None])
    n = 301
    place = layer.place(upto(n), n, causal, torch.float32)
    assert place.bias is not None
    query, key = torch.arange(n)[:, None], torch.arange(n)
    wanted = T5Attention._relative_position_bucket(
        key - query, bidirectional=not causal, num_buckets=buckets, max_distance=distance
    )
    assert torch.equal(place.bias[0, 0].long(), wanted)
    if causal:
        place = layer.place(upto(n)[:, -2:], n, causal, torch.float32)  # with a cache
        assert place.bias is not None
        assert torch.equal(place.bias[0, 0].long(), wanted[-2:])


def test_relative_bias_is_added_to_the_scores_of_its_head_and_learns() -> None:
    layer = scrambled(MultiHeadAttention(12, 3, position=RelativeBias(8, 16)))
    bare = scrambled(MultiHeadAttention(12, 3))
    bare.load_state_dict(layer.state_dict(), strict=False)
    table = layer.get_parameter("positions.weight")
    assert table.shape == (8, 3)
    # Four buckets a side: 0 and 1 exactly, 2 to 4 together, then up to 16; later keys from 4 on.
    bucket = {0: 0, 1: 1, 2: 2, 3: 2, 4: 2, -1: 5, -2: 6, -3: 6, -4: 6}
    bias = torch.stack(
        [torch.stack([table[bucket[i - j]] for j in range(5)], 0) for i in range(5)], 0
    ).permute(2, 0, 1)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    close(layer(x), bare(x, bias=bias.detach()))
    layer(x).square().sum().backward()
    assert table.grad is not None
    assert table.grad[[0, 1, 2, 5, 6]].abs().min() > 0
    assert table.grad[[3, 4, 7]].abs().max() == 0


def test_something_that_is_no_position_is_refused() -> None:
    given: Any = "rotary"
    with pytest.raises(ValueError, match=r"position must be a Position .*got 'rotary'"):
        MultiHeadAttention(12, 3, position=given)
