"""Watching models that compute attention with `regard.attention` themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.watch_checks import assert_layer_is
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import regard

B, H, KV, N, D = 2, 6, 3, 11, 5
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


class Attention(nn.Module):
    """Grouped heads, on `regard.attention` with any options, or on its namesake of PyTorch's."""

    def __init__(self, by: Any = regard.attention, **options: Any) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(H * D, n * D) for n in (H, KV, KV))
        self.by, self.options = by, options
        self.seen: regard.Observation | None = None

    def qkv(self, x: Tensor) -> list[Tensor]:
        return [part(x).unflatten(2, (-1, D)).transpose(1, 2) for part in self.projections]

    def forward(self, x: Tensor) -> Tensor:
        out = self.by(*self.qkv(x), **self.options)
        if "see" in self.options:
            out, self.seen = out
        return out.transpose(1, 2).flatten(2)

    def weights(self, x: Tensor) -> Tensor:
        q, k, _ = self.qkv(x.double() if x.dtype == torch.float64 else x)
        options = {name: x for name, x in self.options.items() if name not in ("see", "backend")}
        return regard.weights(q.double(), k.double(), **options)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"window": (3, 2), "softcap": 2.0},
    {"bias": torch.linspace(-1, 1, N * N).reshape(N, N)},
    {"mask": torch.eye(N).roll(1, 1).bool() | torch.eye(N).bool()},
    {"sinks": torch.linspace(-1, 1, H), "scale": 0.3},
    {"causal": True, "position": 0, "backend": "torch"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: " ".join(each))
@torch.no_grad()
def test_regards_own_attention_is_seen(options: dict[str, Any]) -> None:
    model = Attention(**options)
    x = torch.randn(B, N, H * D)
    expected = model(x)
    with regard.watch(model, SEE) as run:
        out = model(x)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert_layer_is(run.layers["Attention"], model.weights(x))


@pytest.mark.parametrize("lengths", [[N, 7], torch.tensor([4, N])])
@torch.no_grad()
def test_what_is_behind_the_lengths_is_padding(lengths: Any) -> None:
    model = Attention(lengths=lengths)
    x = torch.randn(B, N, H * D)
    with regard.watch(model, SEE) as run:
        out = model(x)
    torch.testing.assert_close(out, model(x), atol=1e-5, rtol=1e-5)
    layer = run.layers["Attention"]
    real = torch.arange(N) < torch.as_tensor(lengths)[:, None]
    assert layer.queries is not None
    assert layer.keys is not None
    assert torch.equal(layer.queries, real)
    assert torch.equal(layer.keys, real)
    assert_layer_is(layer, model.weights(x), queries=real)


@torch.no_grad()
def test_a_mask_that_shuts_keys_to_all_is_padding_of_queries_too() -> None:
    real = torch.arange(N) >= torch.tensor([[0], [4]])
    for by, options in (
        (regard.attention, {"mask": real[:, None, None]}),
        (regard.scaled_dot_product_attention, {"attn_mask": real[:, None, None]}),
        (torch.nn.functional.scaled_dot_product_attention, {"attn_mask": real[:, None, None]}),
    ):
        extra = {} if by is regard.attention else {"enable_gqa": True}
        model = Attention(by, **options, **extra)
        with regard.watch(model, SEE) as run:
            model(torch.randn(B, N, H * D))
        (layer,) = run.layers.values()
        assert layer.queries is not None
        assert torch.equal(layer.queries, real)


@torch.no_grad()
def test_what_the_caller_asks_to_see_is_still_handed_to_him() -> None:
    asked = regard.See(top=2, received=True, queries=torch.rand(B, N) > 0.5)
    model = Attention(causal=True, see=asked)
    x = torch.randn(B, N, H * D)
    model(x)
    expected = model.seen
    with regard.watch(model, SEE) as run:
        model(x)
    assert expected is not None
    assert model.seen is not None
    for name in ("lse", "top_weights", "received"):
        torch.testing.assert_close(getattr(model.seen, name), getattr(expected, name))
    assert model.seen.entropy is None
    assert_layer_is(run.layers["Attention"], model.weights(x))


def test_gradients_of_own_attention_are_those_of_the_unwatched_model() -> None:
    model = Attention(causal=True)
    x = torch.randn(B, N, H * D)
    model(x).square().sum().backward()
    expected = [each.grad.clone() for each in model.parameters() if each.grad is not None]
    model.zero_grad()
    with regard.watch(model, SEE) as run:
        model(x).square().sum().backward()
    found = [each.grad for each in model.parameters()]
    assert len(expected) == 6
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    assert list(run.layers) == ["Attention"]


@torch.no_grad()
def test_own_attention_can_be_cut_and_blocked() -> None:
    model = Attention(causal=True)
    x = torch.randn(B, N, H * D)
    whole = model(x).unflatten(2, (H, D))
    with regard.watch(model, SEE, ablate={0: [4]}):
        ablated = model(x).unflatten(2, (H, D))
    assert not ablated[:, :, 4].any()
    others = [head for head in range(H) if head != 4]
    torch.testing.assert_close(ablated[:, :, others], whole[:, :, others], atol=1e-5, rtol=1e-5)
    mask = torch.ones(1, H, N, N).bool()
    mask[0, 2, 7, 3] = False
    expected = regard.attention(*model.qkv(x), causal=True, mask=mask).transpose(1, 2).flatten(2)
    with regard.watch(model, regard.See(entropy=True), block=[(0, 2, 7, 3)]):
        out = model(x)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_bad_input_is_refused_in_the_same_words_when_watched() -> None:
    for by, options in (
        (regard.attention, {"window": 3}),
        (regard.attention, {"dropout": 1.5}),
        (regard.attention, {"see": 3}),
        (regard.scaled_dot_product_attention, {"is_causal": 1, "enable_gqa": True}),
    ):
        model = Attention(by, **options)
        x = torch.randn(B, N, H * D)
        with pytest.raises((TypeError, ValueError)) as unwatched:
            model(x)
        with pytest.raises(type(unwatched.value)) as watched, regard.watch(model):
            model(x)
        assert str(watched.value) == str(unwatched.value)


@torch.no_grad()
def test_other_function_modes_are_handed_the_call_as_pytorchs_are() -> None:
    seen: list[Any] = []

    class Listener(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    q = torch.randn(1, 2, 3, 4)
    with Listener():
        out = regard.attention(q, q, q, causal=True)
        same = regard.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert regard.attention in seen
    assert regard.scaled_dot_product_attention in seen
    torch.testing.assert_close(out, regard.attention(q, q, q, causal=True))
    torch.testing.assert_close(same, out)
