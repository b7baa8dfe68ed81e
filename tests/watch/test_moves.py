"""Where a token is between attention and the feed-forward layer, however a block adds them up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.watch_models import build
from torch import Tensor, nn

import regard
from regard.run.info import stages

B, N, H, D = 2, 7, 3, 5
WIDTH = H * D


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(B, N, 3, H, D).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.attention, self.feed = Attention(), nn.Linear(WIDTH, WIDTH)
        self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.middle: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "before":
            self.middle = x + self.attention(self.one(x))
            return self.middle + self.feed(self.two(self.middle))
        if self.kind == "after":
            self.middle = self.one(x + self.attention(x))
            return self.two(self.middle + self.feed(self.middle))
        if self.kind == "both":  # as Gemma 2 does
            self.middle = x + self.one(self.attention(x))
            return self.middle + self.two(self.feed(self.middle))
        if self.kind == "at once":
            moved = self.attention(self.one(x))
            self.middle = x + moved
            return x + moved + self.feed(self.two(x))
        self.middle = None  # nothing adds up
        return self.feed(self.attention(x) * x.sigmoid())


class Model(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(kind) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("kind", ["before", "after", "both", "at once"])
@torch.no_grad()
def test_the_place_between_is_where_the_block_was(kind: str) -> None:
    model, x = Model(kind), torch.randn(B, N, WIDTH)
    with regard.watch(model, keep="hidden_states") as run:
        model(x)
    assert list(run.between) == ["embedding", "blocks.0", "blocks.1", "blocks.2"]
    torch.testing.assert_close(run.between["embedding"], x)
    for n, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        assert block.middle is not None
        torch.testing.assert_close(run.between[f"blocks.{n}"], block.middle)
    names = [f"{n} {part}" for n in range(3) for part in ("attention", "feed-forward")]
    assert list(stages(run)) == ["embedding", *names]


@torch.no_grad()
def test_what_does_not_add_up_is_left_out() -> None:
    model = Model("otherwise")
    with regard.watch(model, keep="hidden_states") as run:
        model(torch.randn(B, N, WIDTH))
    assert run.between == {}
    assert list(stages(run)) == ["blocks.0", "blocks.1", "blocks.2"]


@pytest.mark.parametrize("norm_first", [False, True])
@torch.no_grad()
def test_pytorchs_layers_have_a_place_between(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(B, N, 16)
    with regard.watch(model, keep="hidden_states") as run:
        model(x)
    first: Any = model.layers[0]
    moved = first.self_attn(*[first.norm1(x)] * 3)[0] if norm_first else first.self_attn(x, x, x)[0]
    expected = x + moved if norm_first else first.norm1(x + moved)
    torch.testing.assert_close(run.between["layers.0"], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "mistral", "gemma2", "vit"])
@torch.no_grad()
def test_hugging_faces_blocks_have_a_place_between(name: str) -> None:
    model = build(name)
    ids = torch.randint(3, 61, (B, N))
    image = torch.randn(B, 3, 12, 12)
    given = {"pixel_values": image} if name == "vit" else {"input_ids": ids}
    with regard.watch(model, keep="hidden_states") as run:
        model(**given)
    assert len(run.hidden_states) >= 2
    assert run.between.keys() == {"embedding", *run.hidden_states}


@torch.no_grad()
def test_nothing_is_hooked_afterwards() -> None:
    model = Model("before")
    with regard.watch(model, keep="hidden_states"):
        model(torch.randn(B, N, WIDTH))
    assert not any(module._forward_hooks for module in model.modules())


@torch.no_grad()
def test_vectors_are_of_every_block_also_if_one_layer_is_looked_at() -> None:
    model = Model("before")
    with regard.watch(model, keep="hidden_states", layers=[1]) as run:
        model(torch.randn(B, N, WIDTH))
    assert list(run.layers) == ["blocks.1.attention"]
    assert list(run.hidden_states) == ["blocks.0", "blocks.1", "blocks.2"]
    assert list(run.between) == ["embedding", "blocks.0", "blocks.1", "blocks.2"]
