"""What is kept stays what was seen, whatever the model and its caller do with their tensors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.watch_models import build
from torch import Tensor, nn

import regard

B, H, N, D = 2, 3, 7, 5
MODES: list[Callable[[], AbstractContextManager[Any]]] = [torch.no_grad, torch.inference_mode]


def weights(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT / D**0.5).softmax(-1)


class Preallocated(nn.Module):
    """Writes its keys into a tensor that it made before, and goes on using."""

    def __init__(self, registered: bool) -> None:
        super().__init__()
        if registered:
            self.register_buffer("cache", torch.zeros(B, H, N, D))
        else:
            self.cache = torch.zeros(B, H, N, D)

    def forward(self, q: Tensor) -> Tensor:
        self.cache.copy_(q)
        return F.scaled_dot_product_attention(q, self.cache, self.cache)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("registered", [False, True])
def test_keys_in_a_cache_of_the_model_stay_what_was_seen(registered: bool, mode: Any) -> None:
    model, q = Preallocated(registered), torch.randn(B, H, N, D)
    with mode():
        with regard.watch(model, regard.See(top=2), keep=("q", "k", "v")) as run:
            model(q)
            model(q + 1)
        model(torch.zeros(B, H, N, D))
    for layer, x in zip(run.layers.values(), (q, q + 1), strict=True):
        torch.testing.assert_close(layer.weights(), weights(x, x), atol=1e-5, rtol=1e-5)
        assert layer.v is not None
        assert torch.equal(layer.v, x)
    assert not run.notes


@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_keys_that_are_a_parameter_or_buffer_stay_what_was_seen(kind: str) -> None:
    class Learned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if kind == "parameter":
                self.k = nn.Parameter(torch.randn(B, H, N, D))
            else:
                self.register_buffer("k", torch.randn(B, H, N, D))

        def forward(self, q: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, self.k, self.k)

    model, q = Learned(), torch.randn(B, H, N, D)
    with torch.no_grad():
        with regard.watch(model, keep=("q", "k")) as run:
            model(q)
        expected = weights(q, model.k)
        model.k.mul_(3)
    torch.testing.assert_close(run.layers["Learned"].weights(), expected, atol=1e-5, rtol=1e-5)


class Scribbling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        q = x + 1
        out = F.scaled_dot_product_attention(q, q, q)
        q.zero_()
        return out


def test_what_is_written_over_in_inference_mode_is_a_copy() -> None:
    model, x = Scribbling(), torch.randn(B, H, N, D)
    with torch.inference_mode(), regard.watch(model, keep=("q", "k")) as run:
        model(x)
    layer = run.layers["Scribbling"]
    torch.testing.assert_close(layer.weights(), weights(x + 1, x + 1), atol=1e-5, rtol=1e-5)


class Plain(nn.Module):
    def forward(self, q: Tensor, k: Tensor | None = None, **options: Any) -> Tensor:
        k = q if k is None else k
        return F.scaled_dot_product_attention(q, k, k, **options)


def test_what_the_caller_writes_over_after_the_with_is_refused_in_words(tmp_path: Path) -> None:
    model, x = Plain(), torch.randn(B, H, N, D)
    with torch.no_grad(), regard.watch(model, regard.See(), keep=("q", "k")) as run:
        model(x)
    layer = run.layers["Plain"]
    torch.testing.assert_close(layer.weights(), weights(x, x), atol=1e-5, rtol=1e-5)
    x.mul_(2)
    ways: list[Callable[[], object]] = [
        layer.weights,
        layer.pooled,
        lambda: run.edges(0.1),
        lambda: run.rollout(3),
        lambda: run.save(tmp_path / "run"),
    ]
    for ask in ways:
        with pytest.raises(ValueError, match="must be as they were seen; they have been written"):
            ask()


@pytest.mark.parametrize("mode", MODES)
def test_masks_of_the_caller_are_copied_once_for_all_layers(mode: Any) -> None:
    model = nn.Sequential(Plain(), Plain())
    x = torch.randn(B, H, N, D)
    with mode():
        mask = (torch.rand(N, N) > 0.5) | torch.eye(N, dtype=torch.bool)
        bias = torch.randn(1, H, N, N)
        for given in (mask[None, None], bias):
            with regard.watch(model, regard.See(), keep=("q", "k")) as run:
                model[0](x, attn_mask=given)
                model[1](x, attn_mask=given)
            first, second = run.layers.values()
            before = first.weights()
            given.fill_(1)
            assert torch.equal(first.weights(), before)
            name = "mask" if given.dtype == torch.bool else "bias"
            a, b = (getattr(layer.options, name) for layer in (first, second))
            assert a is b


def test_a_mask_that_changes_between_two_layers_is_that_of_each() -> None:
    model, x = nn.Sequential(Plain(), Plain()), torch.randn(B, H, N, D)
    mask = ((torch.rand(N, N) > 0.5) | torch.eye(N, dtype=torch.bool))[None, None]
    mask[..., 3, 0] = False
    with torch.no_grad(), regard.watch(model, regard.See(), keep=("q", "k")) as run:
        model[0](x, attn_mask=mask)
        mask[..., 3, :] = True
        model[1](x, attn_mask=mask)
    first, second = (layer.weights() for layer in run.layers.values())
    assert (second[:, :, 3] > 0).all()
    assert not (first[:, :, 3] > 0).all()
    torch.testing.assert_close(second[:, :, :3], first[:, :, :3])


def test_a_part_of_something_larger_is_kept_without_the_rest() -> None:
    model = build("gpt2")
    with torch.no_grad(), regard.watch(model, regard.See(), keep=("q", "k", "v")) as run:
        model(torch.arange(2, 13)[None])
    for layer in run.layers.values():
        for x in (layer.q, layer.k, layer.v):
            assert x is not None
            assert x.untyped_storage().nbytes() == x.numel() * x.element_size()


def test_what_nobody_else_writes_to_is_not_copied() -> None:
    model, x = Plain(), torch.randn(B, H, N, D)
    with torch.no_grad(), regard.watch(model, regard.See(), keep=("q", "k")) as run:
        model(x)
    layer = run.layers["Plain"]
    assert layer.q is not None
    assert layer.q.data_ptr() == x.data_ptr()


def test_the_first_keys_of_another_text_are_not_taken_for_a_step() -> None:
    model, k = Plain(), torch.randn(1, 1, N, D)
    other = k.clone()
    other[:, :, 0] += 1
    with torch.no_grad(), regard.watch(model, regard.See()) as run:
        model(k[:, :, : N - 1], is_causal=True)
        model(other[:, :, N - 1 :], other)
    assert len(run.layers) == 2
