"""Attention with its matrices: every option equals its formula, and seeing changes no bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.formulas import array, attention, close, linear, scrambled
from torch import Tensor

from regard import See, reference
from regard.nn import HeadLinear, LowRankValue, MultiHeadAttention, SelfAttention

B, N, M, WIDTH, H = 2, 5, 7, 12, 3

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "heads of another width": {"head_width": 5},
    "values of another width": {"value_width": 7},
    "grouped": {"heads": 6, "kv_heads": 2},
    "multi-query": {"kv_heads": 1},
    "grouped, all widths apart": {"heads": 6, "kv_heads": 3, "head_width": 5, "value_width": 7},
    "slices": {"split": "slices"},
    "slices without bias": {"split": "slices", "bias": False},
    "slices of another width": {"split": "slices", "head_width": 5, "value_width": 2},
    "slices, grouped": {"split": "slices", "heads": 6, "kv_heads": 2},
    "low rank": {"value_rank": 2},
    "low rank of slices": {"value_rank": 2, "split": "slices", "value_width": 7},
    "low rank, multi-query, no bias": {"value_rank": 2, "kv_heads": 1, "bias": False},
    "no W_O": {"output": False, "value_width": 7},
    "a scale": {"scale": 0.3},
}


def made(**options: Any) -> MultiHeadAttention:
    layer = scrambled(MultiHeadAttention(WIDTH, options.pop("heads", H), **options))
    assert isinstance(layer, MultiHeadAttention)
    return layer


def numbers(*shape: int, seed: int = 5) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draw, dtype=torch.float64)


# ── the formula ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_equals_its_formula(name: str) -> None:
    layer, x = made(**OPTIONS[name]), numbers(B, N, WIDTH)
    close(layer(x), attention(layer, array(x)))
    close(layer(x, causal=True), attention(layer, array(x), causal=True))
    small = layer.float()
    np.testing.assert_allclose(
        array(small(x.float())), attention(small, array(x.float())), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("name", [name for name in OPTIONS if "slices" not in name])
def test_cross_attention_takes_keys_and_values_from_the_context(name: str) -> None:
    layer = made(**OPTIONS[name], context_width=11)
    x, context = numbers(B, N, WIDTH), numbers(B, M, 11, seed=6)
    close(layer(x, context), attention(layer, array(x), array(context)))


def test_cross_attention_of_slices_cuts_the_context_too() -> None:
    layer = made(split="slices", context_width=15)
    x, context = numbers(B, N, WIDTH), numbers(B, M, 15, seed=6)
    close(layer(x, context), attention(layer, array(x), array(context)))


@pytest.mark.parametrize(("split", "name"), [("whole", "project"), ("slices", "slice")])
def test_heads_are_split_as_the_reference_splits_them(split: Any, name: Any) -> None:
    layer, x = made(split=split, bias=False, value_width=5), numbers(B, N, WIDTH)
    matrices: list[Any] = []
    for part, width in ((layer.w_q, 4), (layer.w_k, 4), (layer.w_v, 5)):
        weight = array(part.get_parameter("weight")).reshape(H, width, -1)  # (H, D, d_in)
        matrices.append(weight.swapaxes(1, 2))
    assert matrices[0].shape == ((H, WIDTH, 4) if split == "whole" else (H, WIDTH // H, 4))
    assert layer.w_o is not None
    for b in range(B):
        w_o = array(layer.w_o.weight).T
        w_q, w_k, w_v = matrices
        wanted = reference.multi_head(array(x[b]), w_q, w_k, w_v, w_o, split=name, causal=True)
        close(layer(x, causal=True)[b], wanted.output)


def test_slices_are_one_block_diagonal_matrix() -> None:
    sliced, whole = made(split="slices"), made()
    for name in ("w_q", "w_k", "w_v"):
        part, dense = getattr(sliced, name), getattr(whole, name)
        assert isinstance(part, HeadLinear)
        assert part.bias is not None
        with torch.no_grad():
            dense.weight.copy_(torch.block_diag(*part.weight))
            dense.bias.copy_(part.bias.flatten())
    assert sliced.w_o is not None
    assert whole.w_o is not None
    whole.w_o.load_state_dict(sliced.w_o.state_dict())
    x = numbers(B, N, WIDTH)
    close(sliced(x), whole(x))


def test_the_low_rank_value_is_the_reference_s_and_has_its_number_of_weights() -> None:
    d_k = 2
    layer = SelfAttention(WIDTH, head_width=d_k, value_width=WIDTH, value_rank=d_k)
    scrambled(layer)
    value = layer.w_v
    assert isinstance(value, LowRankValue)
    assert sum(part.numel() for part in value.parameters()) == 2 * d_k * WIDTH
    x = numbers(1, N, WIDTH)
    down, up = array(value.down.weight).T, array(value.up.weight[0]).T
    assert down.shape == (WIDTH, d_k)
    assert up.shape == (d_k, WIDTH)
    v = reference.low_rank_value(array(x[0]), down, up)
    close(value(x)[0], v)
    q, k = linear(array(x[0]), layer.w_q), linear(array(x[0]), layer.w_k)
    close(layer(x)[0], reference.attention(q, k, v).output)


def test_self_attention_is_one_head_without_an_output_matrix() -> None:
    layer = scrambled(SelfAttention(WIDTH, head_width=5, value_width=7))
    assert sorted(layer.state_dict()) == ["w_k.weight", "w_q.weight", "w_v.weight"]
    x = numbers(B, N, WIDTH)
    assert layer(x).shape == (B, N, 7)
    for b in range(B):
        q, k, v = (linear(array(x[b]), getattr(layer, name)) for name in ("w_q", "w_k", "w_v"))
        close(layer(x)[b], reference.attention(q, k, v).output)
    assert SelfAttention(WIDTH)(x.float()).shape == (B, N, WIDTH)


def test_grouped_heads_are_heads_whose_keys_are_repeated() -> None:
    grouped, whole = made(heads=6, kv_heads=2), made(heads=6)
    state = grouped.state_dict()
    for name in ("w_k", "w_v"):
        for part in ("weight", "bias"):
            by_head = state[f"{name}.{part}"].unflatten(0, (2, -1))
            state[f"{name}.{part}"] = by_head.repeat_interleave(3, 0).flatten(0, 1)
    whole.load_state_dict(state)
    x = numbers(B, N, WIDTH)
    close(grouped(x), whole(x))
    assert sum(p.numel() for p in made(heads=6, kv_heads=1).w_k.parameters()) == 2 * WIDTH + 2


# ── masks ─────────────────────────────────────────────────────────────────────────────────────


def test_masks_compose_as_in_attention() -> None:
    layer, x = made(), numbers(B, N, WIDTH)
    draw = torch.Generator().manual_seed(3)
    mask = torch.rand(B, 1, N, N, generator=draw) < 0.7
    bias = torch.randn(1, H, N, N, generator=draw, dtype=torch.float64)
    lengths = torch.tensor([N, 3])
    how: dict[str, Any] = {"causal": True, "window": (2, None)}
    wanted = attention(
        layer, array(x), mask=mask.numpy(), bias=array(bias), lengths=lengths.numpy(), **how
    )
    close(layer(x, mask=mask, bias=bias, lengths=lengths, **how), wanted)


def test_a_token_that_sees_nothing_gets_the_bias_of_w_o_and_no_nan() -> None:
    layer, x = made(), numbers(B, N, WIDTH).requires_grad_()
    mask = torch.ones(B, 1, N, N, dtype=torch.bool)
    mask[0, :, 3] = False
    y = layer(x, mask=mask)
    assert layer.w_o is not None
    assert layer.w_o.bias is not None
    assert torch.equal(y[0, 3], layer.w_o.bias)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


# ── seeing ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["plain", "multi-query", "slices", "low rank"])
def test_seeing_changes_no_bit_in_training_and_in_evaluation(name: str, training: bool) -> None:
    layer = made(**OPTIONS[name]).float().train(training)
    x = numbers(B, N, WIDTH).float()
    blind = layer(x, causal=True)
    assert blind.requires_grad
    y, seen = layer(x, causal=True, see=See(entropy=True, top=2, map=(3, 4)))
    assert torch.equal(y, blind)
    with torch.no_grad():
        assert torch.equal(layer(x, causal=True), blind)
        again = layer(x, causal=True, see=See(entropy=True))[1]
    assert seen.entropy is not None
    assert again.entropy is not None
    assert torch.equal(seen.entropy, again.entropy)
    assert not seen.entropy.requires_grad


def test_what_is_seen_is_what_the_reference_sees() -> None:
    layer, x = made(kv_heads=1), numbers(B, N, WIDTH)
    _, seen = layer(x, see=See(entropy=True, received=True))
    q, k, v = (linear(array(x), part) for part in (layer.w_q, layer.w_k, layer.w_v))
    q = q.reshape(B, N, H, 4).swapaxes(1, 2)
    weights = reference.attention(q, k[:, None], v[:, None]).weights
    assert seen.entropy is not None
    assert seen.received is not None
    close(seen.entropy, reference.entropy(weights))
    close(seen.received, reference.received(weights))


def test_gradients_are_the_same_seen_or_not() -> None:
    layer, x = made().float(), numbers(B, N, WIDTH).float()
    found = []
    for see in (None, See(entropy=True)):
        layer.zero_grad()
        given = x.clone().requires_grad_()
        result = layer(given, see=see)
        y = result if isinstance(result, Tensor) else result[0]
        y.square().sum().backward()
        found.append([given.grad, *(part.grad for part in layer.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_dropout_acts_in_training_alone_and_on_average_does_nothing() -> None:
    torch.manual_seed(0)
    layer, x = made(dropout=0.25, output=False), numbers(1, N, WIDTH)
    exact = attention(layer, array(x))
    close(layer.eval()(x), exact)
    layer.train()
    assert not torch.equal(layer(x), layer(x))
    with torch.no_grad():
        mean = layer(x.expand(4000, N, WIDTH)).mean(0, keepdim=True)
    np.testing.assert_allclose(array(mean), exact, atol=0.1)


# ── bad input ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 5}, "width must be a multiple of the 5 heads; got 12. Or give head_width."),
        ({"heads": 0}, "heads must be at least 1; got 0"),
        ({"heads": "3"}, "heads must be a whole number; got '3'"),
        ({"heads": 3, "dropout": 1.5}, "dropout must be a number of at least 0 and below 1"),
        ({"heads": 3, "kv_heads": 2}, "kv_heads must be a divisor of the 3 heads; got 2"),
        ({"heads": 3, "kv_heads": -1}, "kv_heads must be at least 0; got -1"),
        ({"heads": 3, "head_width": -1}, "head_width must be at least 0; got -1"),
        ({"heads": 3, "value_width": 2.0}, "value_width must be a whole number"),
        ({"heads": 3, "value_rank": 0}, "value_rank must be at least 1; got 0"),
        ({"heads": 3, "context_width": 1.5}, "context_width must be a whole number"),
        ({"heads": 3, "split": "half"}, "split must be one of whole, slices; got 'half'"),
        ({"heads": 5, "head_width": 2, "split": "slices"}, "split must be 'whole' where 5 heads"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r"MultiHeadAttention\(\): ") as caught:
        MultiHeadAttention(12, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("shape", [(5, 12), (2, 5, 11), (2, 3, 5, 12), (12,)])
def test_an_input_of_another_shape_is_refused_in_words(shape: tuple[int, ...]) -> None:
    layer = MultiHeadAttention(12, 3)
    with pytest.raises(ValueError, match=r"x must be \(B, N, 12\); got") as caught:
        layer(torch.zeros(shape))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("shape", [(7, 11), (2, 7, 12), (3, 7, 11)])
def test_a_context_of_another_shape_is_refused_in_words(shape: tuple[int, ...]) -> None:
    layer = MultiHeadAttention(12, 3, context_width=11)
    with pytest.raises(ValueError, match=r"context must be .* = \(2, N, 11\); got") as caught:
        layer(torch.zeros(2, 5, 12), torch.zeros(shape))
    assert str(shape) in str(caught.value)


def test_empty_batches_and_sequences_give_empty_results() -> None:
    layer = MultiHeadAttention(12, 3)
    assert layer(torch.zeros(0, 5, 12)).shape == (0, 5, 12)
    assert layer(torch.zeros(2, 0, 12)).shape == (2, 0, 12)
    assert layer(torch.zeros(2, 1, 12)).shape == (2, 1, 12)
