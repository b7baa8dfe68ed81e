"""The layers of encoder and decoder: attention makes the context, feed-forward refines it."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from regard.nn._hooks import HookPoints, record
from regard.nn._places import Place
from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import KeyValues
from regard.nn.config import StackConfig
from regard.nn.feed_forward import FeedForward
from regard.nn.norm import norm_of
from regard.nn.position import Learned, NoPosition, Sinusoidal
from regard.nn.residual import PreNorm, Sublayer, layer_points


class EncoderLayer(nn.Module):
    """h = Norm(X + Attention(X)), Y = Norm(h + FFN(h)), or as `config.residual` arranges it.

    X (B, N, width) gives (B, N, width).

    >>> from regard.nn import PostNorm
    >>> layer = EncoderLayer(StackConfig(width=6, heads=3, residual=PostNorm()))
    >>> layer(torch.randn(2, 5, 6), lengths=torch.tensor([5, 4])).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = attention_of(config)
        self.feed_forward = feed_forward_of(config)
        self.norms = norms_of(config, n_sublayers=2)
        self.dropout = nn.Dropout(config.dropout)
        _shrink(self, config, n_sublayers=2)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        place: Place | None = None,
    ) -> Tensor:
        """X (B, N, width). `mask`, True = may attend, fits (B, H, N, N); `lengths` is (B,)."""
        _check_place(self.config, place)
        record(self, "input", x)
        window = self.config.window
        attend = partial(
            self.attention,
            window=None if window is None else (window - 1, window - 1),
            mask=mask,
            lengths=lengths,
            place=place,
        )
        sublayers = (
            Sublayer("attention", attend, self.dropout),
            Sublayer("feed_forward", self.feed_forward, self.dropout),
        )
        y = self.config.residual.join(self, x, sublayers, self.norms)
        record(self, "output", y)
        return y

    def hook_points(self) -> HookPoints:
        return layer_points("attention", "feed_forward")


class DecoderLayer(nn.Module):
    """a = Norm(X + Masked(X)), c = Norm(a + Cross(a, memory)), Y = Norm(c + FFN(c)), or alike.

    Masked self-attention, then attention to the encoder's output, then feed-forward.
    X (B, N, width) gives (B, N, width). With `cross`, `memory` (B, M, width) is what the encoder
    made; without, there is no such attention, as in a language model. Without `causal` a token
    sees those after it, too.

    >>> layer = DecoderLayer(StackConfig(width=6, heads=3))
    >>> layer(torch.randn(2, 5, 6), memory=torch.randn(2, 7, 6)).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, config: StackConfig, *, cross: bool = True, causal: bool = True) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        self.attention = attention_of(config)
        self.cross = attention_of(config) if cross else None
        self.feed_forward = feed_forward_of(config)
        self.norms = norms_of(config, n_sublayers=3 if cross else 2)
        self.dropout = nn.Dropout(config.dropout)
        _shrink(self, config, n_sublayers=3 if cross else 2)

    def forward(
        self,
        x: Tensor,
        *,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        memory_mask: Tensor | None = None,
        memory_lengths: Tensor | None = None,
        place: Place | None = None,
        cache: KeyValues | None = None,
    ) -> Tensor:
        """X (B, N, width): each token sees itself and those before it, or all if not `causal`.

        `mask` and `memory_mask` (True = may attend) broadcast to (B, H, N, keys); `lengths` and
        `memory_lengths` (B,) count real keys.
        """
        if (memory is None) != (self.cross is None):
            found = "none" if memory is None else "one"
            wanted = "no memory" if self.cross is None else "a memory (B, M, width)"
            raise ValueError(
                f"DecoderLayer: it must be given {wanted}; got {found}. cross= says whether a "
                "decoder looks at an encoder."
            )
        _check_place(self.config, place)
        record(self, "input", x)
        window = self.config.window
        if cache is not None and cache.window is not None:
            window = cache.window if window is None else min(window, cache.window)
        after = None if window is None or self.causal else window - 1
        attend = partial(
            self.attention,
            causal=self.causal,
            window=None if window is None else (window - 1, after),
            mask=mask,
            lengths=lengths,
            place=place,
            cache=cache,
        )
        sublayers = [Sublayer("attention", attend, self.dropout)]
        if self.cross is not None:
            look = partial(
                self.cross,
                context=memory,
                mask=memory_mask,
                lengths=memory_lengths,
                cache=cache,
            )
            sublayers.append(Sublayer("cross", look, self.dropout))
        sublayers.append(Sublayer("feed_forward", self.feed_forward, self.dropout))
        y = self.config.residual.join(self, x, sublayers, self.norms)
        record(self, "output", y)
        return y

    def hook_points(self) -> HookPoints:
        return layer_points("attention", "cross", "feed_forward")


def _check_place(config: StackConfig, place: Place | None) -> None:
    """Raise ValueError if a layer alone cannot do what its position says."""
    if place is None and not isinstance(config.position, NoPosition | Sinusoidal | Learned):
        raise ValueError(
            f"a layer with {type(config.position).__name__} must be told where its tokens stand; "
            "got no place. Encoder and Decoder do that: put it into one, of one layer if need be."
        )


def attention_of(config: StackConfig) -> MultiHeadAttention:
    """The attention of one layer; its stack sees to positions."""
    return MultiHeadAttention(
        config.width,
        config.heads,
        kv_heads=config.kv_heads,
        head_width=config.head_width,
        value_width=config.value_width,
        split=config.split,
        value_rank=config.value_rank,
        bias=bool(config.attention_bias),
        dropout=config.dropout if config.attention_dropout is None else config.attention_dropout,
    )


def feed_forward_of(config: StackConfig) -> FeedForward:
    """The feed-forward part of one layer."""
    return FeedForward(
        config.width,
        hidden=config.hidden,
        activation=config.activation,
        bias=config.bias,
        dropout=config.dropout if config.hidden_dropout is None else config.hidden_dropout,
    )


def norms_of(config: StackConfig, n_sublayers: int) -> nn.ModuleList:
    """The norms of one layer, as many as its arrangement needs."""
    count = config.residual.n_norms(n_sublayers)
    return nn.ModuleList(norm_of(config.norm, config.width, config.norm_eps) for _ in range(count))


@torch.no_grad()
def _shrink(layer: nn.Module, config: StackConfig, n_sublayers: int) -> None:
    """Divide the matrices that end a sublayer by √(sublayers of the stack), under `PreNorm`.

    What they give is added to the residual, that many times: so the sum stays of one size.
    """
    if isinstance(config.residual, PreNorm):
        for name, part in layer.named_modules():
            if isinstance(part, nn.Linear) and name.rpartition(".")[2] in ("w_o", "w_out"):
                part.weight /= math.sqrt(n_sublayers * config.layers)
