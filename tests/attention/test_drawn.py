"""Dropout where ours takes the place of PyTorch's: the same seed drops the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertConfig, BertModel

import regard
from regard._attention import drawn
from regard._attention.attend import attend
from regard._attention.options import Options

# Gradients of half types by hand are further from ours than their last place.
CLOSE: dict[torch.dtype, dict[str, Any]] = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-5},
    torch.float64: {"rtol": 1e-12, "atol": 1e-12},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
    torch.float16: {"rtol": 4e-3, "atol": 4e-3},
}


def vectors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def results(function: Any, tensors: list[Tensor], named: dict[str, Any]) -> list[Tensor]:
    """Output, gradients, and what is drawn next."""
    torch.manual_seed(11)
    out = function(*tensors, dropout_p=0.3, **named)
    out.float().square().sum().backward()
    found = [out.detach(), *(x.grad for x in tensors if x.grad is not None)]
    for x in tensors:
        x.grad = None
    return [*found, torch.rand(3)]


def masked(kind: str) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(5)
    cells = torch.randn(2, 1, 37, 53, generator=generator)
    return {"attn_mask": cells > -1 if kind == "mask" else cells}


CASES: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "plain": ([(2, 3, 37, 5), (2, 3, 53, 5), (2, 3, 53, 7)], {}),
    "causal": ([(2, 3, 37, 5), (2, 3, 37, 5), (2, 3, 37, 5)], {"is_causal": True}),
    "a mask": ([(2, 3, 37, 5), (2, 3, 53, 5), (2, 3, 53, 5)], masked("mask")),
    "a bias": ([(2, 3, 37, 5), (2, 3, 53, 5), (2, 3, 53, 5)], masked("bias")),
    "shared keys": ([(2, 6, 37, 5), (2, 3, 53, 5), (2, 3, 53, 5)], {"enable_gqa": True}),
    "three axes": ([(3, 37, 5), (3, 53, 5), (3, 53, 5)], {}),
    "two axes": ([(37, 5), (53, 5), (53, 5)], {}),
    "five axes": ([(2, 2, 3, 7, 5), (2, 2, 3, 11, 5), (2, 2, 3, 11, 5)], {}),
    "one sequence of keys": ([(3, 2, 37, 5), (1, 2, 53, 5), (1, 2, 53, 5)], {}),
    "many keys": ([(1, 2, 3, 5), (1, 2, 1031, 5), (1, 2, 1031, 5)], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_pytorch_drops_is_dropped(name: str) -> None:
    shapes, named = CASES[name]
    tensors = vectors(*shapes)
    expected = results(F.scaled_dot_product_attention, tensors, named)
    found = results(regard.scaled_dot_product_attention, tensors, named)
    assert len(found) == len(expected) == 5
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE[torch.float32])
    assert torch.equal(found[-1], expected[-1])  # no more was drawn, and no less


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_in_every_type(dtype: torch.dtype) -> None:
    tensors = vectors((2, 3, 37, 8), (2, 3, 53, 8), (2, 3, 53, 8), dtype=dtype)
    expected = results(F.scaled_dot_product_attention, tensors, {})
    found = results(regard.scaled_dot_product_attention, tensors, {})
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE[dtype])


@pytest.mark.parametrize("a_stream", [True, False])
def test_pieces_give_what_the_whole_gives(a_stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(7)
    kept = F.dropout(torch.ones(2, 3, 37, 53), 0.3) != 0
    after = torch.rand(1)
    monkeypatch.setattr(drawn, "_PIECE", 211)  # three rows
    monkeypatch.setattr(drawn, "_is_a_stream", lambda: a_stream)
    torch.manual_seed(7)
    bits = drawn.draw((2, 3, 37, 53), 0.3)
    assert torch.equal(torch.rand(1), after)
    assert torch.equal(drawn.unpack(bits, slice(0, 53)), kept)
    assert torch.equal(drawn.unpack(bits[1:, :, 5:7], slice(13, 29)), kept[1:, :, 5:7, 13:29])


def test_both_backends_drop_what_was_drawn() -> None:
    found = []
    for backend in ("native", "torch"):
        q, k, v = vectors((2, 6, 37, 5), (2, 3, 53, 5), (2, 3, 53, 7))
        torch.manual_seed(11)
        out = attend("attention()", q, k, v, Options(), 0.3, backend=backend, as_pytorch=True)
        assert isinstance(out, Tensor)
        out.square().sum().backward()
        found.append([out, *(x.grad for x in (q, k, v) if x.grad is not None)])
    for native, by_torch in zip(*found, strict=True):
        torch.testing.assert_close(native, by_torch, **CLOSE[torch.float32])


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_model_in_training_computes_the_same_watched(implementation: str) -> None:
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=31, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=17, attention_probs_dropout_prob=0.4, hidden_dropout_prob=0.2,
    )  # fmt: skip
    model = BertModel(config).train()
    model.set_attn_implementation(implementation)
    ids = torch.randint(31, (2, 13))
    lengths = torch.arange(13) < torch.tensor([[13], [7]])

    def trained(watched: bool) -> list[Tensor]:
        model.zero_grad()
        torch.manual_seed(5)
        if watched:
            with regard.watch(model, check=True) as run:
                out = model(ids, attention_mask=lengths.long()).last_hidden_state
            assert len(run.layers) == 2
        else:
            out = model(ids, attention_mask=lengths.long()).last_hidden_state
        out[lengths].square().sum().backward()
        grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        return [out[lengths].detach(), *grads, torch.rand(3)]

    blind, watched = trained(False), trained(True)
    assert len(blind) == len(watched) > 20
    for ours, theirs in zip(watched, blind, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
