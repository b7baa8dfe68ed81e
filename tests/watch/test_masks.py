"""Masks are taken for what they mean: causality, padding or both, however they are written."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.watch_checks import assert_layer_is
from torch import Tensor, nn

import regard
from regard._watch.call import Call
from regard._watch.masks import read_masks
from regard.run import Options

B, H, N, D = 2, 3, 7, 5
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)
LEAST = torch.finfo(torch.float32).min
REAL = torch.tensor([[True] * N, [True] * 4 + [False] * 3])
LEFT = REAL.flip(1)


@pytest.fixture(autouse=True)
def _seeded() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Attention(nn.Module):
    """SDPA, or `regard.attention`, with a mask that is given."""

    def __init__(self, by: str) -> None:
        super().__init__()
        self.by = by

    def forward(self, q: Tensor, k: Tensor, mask: Tensor | None, **options: Any) -> Tensor:
        if self.by == "torch":
            return F.scaled_dot_product_attention(q, k, k, attn_mask=mask, **options)
        name = "mask" if mask is not None and mask.dtype == torch.bool else "bias"
        return regard.attention(q, k, k, **{name: mask}, **options)


def seen(by: str, q: Tensor, k: Tensor, mask: Tensor, real: Tensor | None = None) -> regard.Layer:
    """The layer of one call, whose output is that of the unwatched model at real positions."""
    model = Attention(by)
    expected = model(q, k, mask)
    with regard.watch(model, SEE) as run:
        out = model(q, k, mask)
    if real is not None:
        out, expected = (x.transpose(1, 2)[real] for x in (out, expected))
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    return run.layers["Attention"]


def weights(q: Tensor, k: Tensor, allowed: Tensor) -> Tensor:
    scores = (q @ k.mT).double() / D**0.5
    return scores.masked_fill(~allowed, -math.inf).softmax(-1).nan_to_num()


def added(allowed: Tensor, shut: float) -> Tensor:
    return torch.zeros(allowed.shape).masked_fill(~allowed, shut)


def of_both(real: Tensor) -> Tensor:
    """Causality and padding in one mask, (B, 1, N, N)."""
    return torch.ones(N, N).tril().bool() & real[:, None, None, :]


@pytest.mark.parametrize("shut", [None, -math.inf, LEAST, -1e9])
@pytest.mark.parametrize("by", ["torch", "regard"])
def test_a_causal_mask_is_the_causal_flag(by: str, shut: float | None) -> None:
    q = torch.randn(B, H, N, D)
    causal = torch.ones(N, N).tril().bool()
    layer = seen(by, q, q, causal if shut is None else added(causal, shut))
    assert layer.options.causal
    assert layer.options.mask is None
    assert layer.options.bias is None
    assert_layer_is(layer, weights(q, q, causal))
    model = Attention("torch")
    with regard.watch(model, SEE) as run:
        model(q, q, None, is_causal=True)
    assert layer.heads == run.layers["Attention"].heads
    table = regard.Run({"a": layer}).sql("select is_causal, is_cross from layers").to_pylist()
    assert table == [{"is_causal": True, "is_cross": False}]


@pytest.mark.parametrize("shut", [None, -math.inf, LEAST])
@pytest.mark.parametrize("real", [REAL, LEFT], ids=["right", "left"])
@pytest.mark.parametrize("by", ["torch", "regard"])
def test_a_causal_mask_with_padding_in_it_is_both(
    by: str, real: Tensor, shut: float | None
) -> None:
    q = torch.randn(B, H, N, D)
    allowed = of_both(real)
    layer = seen(by, q, q, allowed if shut is None else added(allowed, shut), real)
    assert layer.queries is not None
    assert layer.keys is not None
    assert torch.equal(layer.queries, real)
    assert torch.equal(layer.keys, real)
    if shut != LEAST or real is REAL:
        assert layer.options.causal
    assert_layer_is(layer, weights(q, q, allowed), queries=real, keys=real)


def test_what_finite_numbers_shut_as_a_whole_is_computed_as_it_was() -> None:
    q = torch.randn(B, H, N, D)
    mask = added(of_both(LEFT), LEAST)
    model = Attention("torch")
    expected = model(q, q, mask)
    with regard.watch(model, SEE) as run:
        out = model(q, q, mask)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)  # also where there is padding
    layer = run.layers["Attention"]
    assert layer.queries is not None
    assert torch.equal(layer.queries, LEFT)


@pytest.mark.parametrize(
    "mask",
    [
        REAL[:, None, None].expand(B, 1, N, N),
        REAL[:, None, None].expand(B, H, N, N).clone(),
        REAL[:, None, None] & REAL[:, None, :, None],
        added(REAL, LEAST)[:, None, None].expand(B, H, N, N),
    ],
    ids=["expanded", "copied", "padded queries see nothing", "added"],
)
@pytest.mark.parametrize("by", ["torch", "regard"])
def test_a_key_mask_of_all_queries_is_padding(by: str, mask: Tensor) -> None:
    q = torch.randn(B, H, N, D)
    layer = seen(by, q, q, mask, REAL)
    assert layer.queries is not None
    assert torch.equal(layer.queries, REAL)
    assert not layer.options.causal
    assert_layer_is(
        layer, weights(q, q, REAL[:, None, None].expand(B, 1, N, N)), queries=REAL, keys=REAL
    )


@pytest.mark.parametrize("both", [False, True])
def test_a_mask_of_ten_thousands_is_read_and_added_as_it_is(both: bool) -> None:
    q = torch.randn(B, H, N, D)
    allowed = of_both(REAL) if both else REAL[:, None, None, :].expand(B, 1, N, N)
    mask = added(allowed, -1e4)
    layer = seen("torch", q, q, mask, REAL)
    assert_layer_is(layer, weights(q, q, allowed), queries=REAL, keys=REAL)
    assert layer.options.causal == both
    assert layer.options.bias is not None
    mask[0, 0, 0, 0] = 0.5  # which makes it a bias
    assert seen("torch", q, q, mask, REAL).queries is None


@pytest.mark.parametrize("both", [False, True])
def test_rows_of_padded_queries_that_see_nothing_stop_no_recognition(both: bool) -> None:
    q = torch.randn(B, H, N, D)
    allowed = REAL[:, None, None] & REAL[:, None, :, None]
    if both:
        allowed = allowed & torch.ones(N, N).tril().bool()
    layer = seen("torch", q, q, allowed)  # padded rows, too: they are computed with the mask
    assert layer.options.causal == both
    assert_layer_is(layer, weights(q, q, allowed), queries=REAL, keys=REAL)


def test_a_mask_of_another_pattern_stays_what_it_is() -> None:
    q = torch.randn(B, H, N, D)
    strictly = torch.ones(N, N).tril(-1).bool()
    window = torch.ones(N, N).tril().triu(-2).bool()
    heads = torch.rand(1, H, N, N) > 0.3
    for mask in (strictly, window, heads | torch.eye(N).bool()):
        layer = seen("torch", q, q, mask)
        assert not layer.options.causal
        assert layer.queries is None
        assert layer.keys is None
        full = weights(q, q, mask)
        assert_layer_is(layer, full)
        assert layer.allowed.tolist() == (full > 0).expand(B, H, N, N).sum(-1).tolist()


def test_a_bias_that_shuts_the_future_is_causal_and_stays_a_bias() -> None:
    q = torch.randn(B, H, N, D)
    slope = -torch.arange(1, H + 1)[:, None, None] * (torch.arange(N)[:, None] - torch.arange(N))
    bias = (0.1 * slope[None]).masked_fill(~torch.ones(N, N).tril().bool(), -math.inf)
    layer = seen("torch", q, q, bias)
    assert layer.options.causal
    assert layer.options.bias is not None
    full = ((q @ q.mT).double() / D**0.5 + bias).softmax(-1)
    assert_layer_is(layer, full)


def test_a_bias_that_is_trained_keeps_its_gradient() -> None:
    q = torch.randn(B, H, N, D)
    bias = added(torch.ones(N, N).tril().bool(), -math.inf)
    gradients: list[Tensor] = []
    for watched in (False, True):
        leaf = bias.clone().requires_grad_()
        model = Attention("torch")
        with torch.enable_grad():
            if watched:
                with regard.watch(model, SEE):
                    model(q, q, leaf).square().sum().backward()
            else:
                model(q, q, leaf).square().sum().backward()
        assert leaf.grad is not None
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("aligned", ["end", "start"])
def test_fewer_queries_than_keys_are_aligned_as_the_mask_says(aligned: str) -> None:
    q, k = torch.randn(B, H, 3, D), torch.randn(B, H, N, D)
    offset = N - 3 if aligned == "end" else 0
    mask = torch.ones(3, N).bool().tril(offset)
    layer = seen("torch", q, k, mask)
    assert not layer.cross
    assert layer.options.causal
    assert layer.options.position == offset
    assert_layer_is(layer, weights(q, k, mask), position=offset)


@pytest.mark.parametrize("keep", [(), ("q", "k")])
@pytest.mark.parametrize("padded", [False, True])
def test_a_cache_written_by_hand_is_one_record(padded: bool, keep: tuple[str, ...]) -> None:
    k = torch.randn(B, H, 9, D)
    real = torch.ones(B, 9, dtype=torch.bool)
    real[1, :2] = not padded
    model = Attention("torch")
    see = SEE if keep else regard.See(entropy=True, top=3, distance=True)
    with regard.watch(model, see, keep=keep) as run:
        end = 0
        for n in (5, 2, 1, 1):
            end += n
            mask = torch.ones(n, end).bool().tril(end - n) & real[:, None, None, :end]
            model(k[:, :, end - n : end], k[:, :, :end], mask)
    assert list(run.layers) == ["Attention"]
    layer = run.layers["Attention"]
    assert layer.shape == (B, H, 9, 9)
    assert layer.options.causal
    assert not layer.cross
    full = weights(k, k, torch.ones(9, 9).tril().bool() & real[:, None, None])
    some = real if padded else None
    assert_layer_is(layer, full, queries=some, keys=some, see=see)
    if keep:
        found = layer.weights().double()
        torch.testing.assert_close(found[:, :, 2:], full[:, :, 2:], atol=1e-5, rtol=1e-5)


def test_what_a_step_may_not_see_is_not_padding_if_it_was_seen_before() -> None:
    k = torch.randn(B, H, 7, D)
    window = torch.ones(7, 7).tril().triu(-2).bool()
    model = Attention("torch")
    with regard.watch(model, SEE, keep=("q", "k")) as run:
        model(k[:, :, :1], k[:, :, :1], window[:1, :1])
        for end in range(2, 8):
            model(k[:, :, end - 1 : end], k[:, :, :end], window[end - 1 : end, :end])
    (layer,) = run.layers.values()
    assert layer.keys is None
    assert_layer_is(layer, weights(k, k, window))
    found = layer.weights().double()
    torch.testing.assert_close(found, weights(k, k, window), atol=1e-5, rtol=1e-5)


def test_a_cache_with_a_finite_mask_and_padding_is_one_record() -> None:
    k = torch.randn(B, H, 9, D)
    real = torch.ones(B, 9, dtype=torch.bool)
    real[1, :2] = False
    model = Attention("torch")
    see = regard.See(entropy=True)
    with regard.watch(model, see) as run:
        for start, end in ((0, 5), (5, 7), (7, 8), (8, 9)):
            mask = torch.ones(end - start, end).bool().tril(start) & real[:, None, None, :end]
            model(k[:, :, start:end], k[:, :, :end], added(mask, LEAST))
    (layer,) = run.layers.values()
    assert layer.shape == (B, H, 9, 9)
    assert layer.options.causal
    full = weights(k, k, torch.ones(9, 9).tril().bool() & real[:, None, None])
    assert_layer_is(layer, full, queries=real, keys=real, see=see)


@pytest.mark.parametrize("more", [{}, {"add_zero_attn": True}])
def test_masks_that_multihead_attention_merges_are_read(more: dict[str, Any]) -> None:
    model = nn.MultiheadAttention(H * D, H, batch_first=True, **more).eval()
    x = torch.randn(B, N, H * D)
    shut = ~of_both(REAL).expand(B, H, N, N).reshape(B * H, N, N)
    for mask, padding in ((shut, None), (~torch.ones(N, N).tril().bool(), ~REAL)):
        arguments = {"attn_mask": mask, "key_padding_mask": padding}
        expected, _ = model(x, x, x, need_weights=False, **arguments)
        with regard.watch(model, regard.See(entropy=True)) as run:
            out, _ = model(x, x, x, need_weights=False, **arguments)
        torch.testing.assert_close(out[REAL], expected[REAL], atol=1e-5, rtol=1e-5)
        (layer,) = run.layers.values()
        if not more:
            assert layer.options.causal
            assert layer.queries is not None
            assert torch.equal(layer.queries, REAL)


def test_a_mask_is_read_by_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard._attention.options._CELLS", 2 * N * 2)
    q = torch.randn(B, H, N, D)
    for mask in (of_both(LEFT), added(of_both(LEFT), -math.inf)):
        options = Options(mask=mask) if mask.dtype == torch.bool else Options(bias=mask)
        found = read_masks(Call(q, q, q, options))
        assert found.options.causal
        assert found.keys is not None
        assert torch.equal(found.keys, LEFT)
        assert found.options.mask is not None
        assert found.options.mask.shape == (B, 1, 1, N)


def test_a_position_or_window_that_says_otherwise_is_obeyed() -> None:
    q, k = torch.randn(B, H, 3, D), torch.randn(B, H, N, D)
    start = torch.ones(3, N).bool().tril()
    model = Attention("regard")
    for options in ({"position": 2}, {"window": (2, None)}, {"causal": True}):
        expected = model(q, k, start, **options)
        with regard.watch(model, SEE) as run:
            out = model(q, k, start, **options)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        assert run.layers["Attention"].options.mask is not None


# ── one head of keys for all ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value_heads", [1, 4])
def test_keys_of_one_head_for_all_are_grouped(value_heads: int) -> None:
    class Shared(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v)

    model = Shared()
    q, k, v = torch.randn(B, 4, N, D), torch.randn(1, 1, N, D), torch.randn(1, value_heads, N, D)
    expected = model(q, k, v)
    with regard.watch(model, SEE) as run:
        out = model(q, k, v)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    layer = run.layers["Shared"]
    assert layer.kv_heads == value_heads
    assert_layer_is(layer, weights(q, k, torch.ones(N, N).bool()))


@pytest.mark.parametrize("heads", [1, H])
def test_one_cell_is_enough_for_a_mask_to_be_another_one(heads: int) -> None:
    size = 23
    q = torch.randn(B, H, size, D)
    causal = torch.ones(B, heads, size, size).tril().bool()
    assert read_masks(Call(q, q, q, Options(mask=causal))).options.causal
    for row, key in ((11, 4), (2, 20), (22, 0)):
        mask = causal.clone()
        mask[1, heads - 1, row, key] ^= True
        for options in (Options(mask=mask), Options(bias=added(mask, -math.inf))):
            found = read_masks(Call(q, q, q, options))
            assert not found.options.causal
            assert found.keys is None
            assert found.options is options


def test_a_mask_that_was_written_to_is_read_again() -> None:
    q, mask = torch.randn(B, H, N, D), torch.ones(N, N).tril().bool()[None, None]
    assert read_masks(Call(q, q, q, Options(mask=mask))).options.causal
    mask[..., 5, 2] = False
    assert not read_masks(Call(q, q, q, Options(mask=mask))).options.causal


def test_a_bias_in_which_everything_is_open_stays_as_it_is() -> None:
    q, bias = torch.randn(B, H, N, D), torch.randn(1, H, N, N)
    options = Options(bias=bias)
    assert read_masks(Call(q, q, q, options)).options is options
    bias[..., 5:] = LEAST  # padding
    found = read_masks(Call(q, q, q, options))
    assert found.keys is not None
    assert found.keys[0].tolist() == [True] * 5 + [False] * 2
    assert found.options.bias is bias
