"""The layers of encoder and decoder: attention makes the context, feed-forward refines it."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import partial

import torch
from torch import Tensor, nn

from regard.nn._decoding import decoded
from regard.nn._hooks import HookPoints, record
from regard.nn._places import Place
from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import KeyValues
from regard.nn.config import HeadsConfig, StackConfig
from regard.nn.feed_forward import FeedForward
from regard.nn.norm import norm_of
from regard.nn.position import NoPosition
from regard.nn.residual import LAYER_POINTS, PreNorm, Sublayer


class _Layer(nn.Module):
    """What both layers are: attention, a look at another sequence if `cross`, feed-forward."""

    def __init__(self, config: StackConfig, *, cross: bool = True, causal: bool = True) -> None:
        super().__init__()
        n_sublayers = 3 if cross else 2
        self.config, self.causal = config, causal
        self.attention = _attention_of(config)
        self.cross = _attention_of(config) if cross else None
        self.feed_forward = FeedForward(
            config.width,
            hidden=config.hidden,
            activation=config.activation,
            bias=config.bias,
            dropout=config.dropout if config.hidden_dropout is None else config.hidden_dropout,
        )
        n_norms = config.residual.n_norms(n_sublayers)
        self.norms = nn.ModuleList(norm_of(config) for _ in range(n_norms))
        self.dropout = nn.Dropout(config.dropout)
        if isinstance(config.residual, PreNorm):
            _shrink(self, math.sqrt(n_sublayers * config.layers))

    def hook_points(self) -> HookPoints:
        return LAYER_POINTS

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
            raise wrong_memory(self, memory)
        config, position = self.config, self.config.position
        if place is None and not (position.is_added or isinstance(position, NoPosition)):
            raise ValueError(
                f"a layer with {type(position).__name__} must be told where its tokens stand; got "
                "no place. Encoder and Decoder do that: put it into one, of one layer if need be."
            )
        if (
            cache is not None
            and place is not None
            and mask is None
            and lengths is None
            and memory is None
        ):
            y = decoded(self, x, place, cache)
            if y is not None:
                return y
        record(self, "input", x)
        window = config.window
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
                self.cross, context=memory, mask=memory_mask, lengths=memory_lengths, cache=cache
            )
            sublayers.append(Sublayer("cross", look, self.dropout))
        sublayers.append(Sublayer("feed_forward", self.feed_forward, self.dropout))
        y = config.residual.join(self, x, sublayers, self.norms)
        record(self, "output", y)
        return y


class EncoderLayer(_Layer):
    """h = Norm(X + Attention(X)), Y = Norm(h + FFN(h)), or as `config.residual` arranges it.

    X (B, N, width) gives (B, N, width).

    >>> from regard.nn import PostNorm
    >>> layer = EncoderLayer(StackConfig(width=6, heads=3, residual=PostNorm()))
    >>> layer(torch.randn(2, 5, 6), lengths=torch.tensor([5, 4])).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config, cross=False, causal=False)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]: it has no memory
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        place: Place | None = None,
    ) -> Tensor:
        """X (B, N, width). `mask`, True = may attend, fits (B, H, N, N); `lengths` is (B,)."""
        return super().forward(x, mask=mask, lengths=lengths, place=place)


class DecoderLayer(_Layer):
    """a = Norm(X + Masked(X)), c = Norm(a + Cross(a, memory)), Y = Norm(c + FFN(c)), or alike.

    Masked self-attention, then attention to the encoder's output, then feed-forward.
    X (B, N, width) gives (B, N, width). With `cross`, `memory` (B, M, width) is what the encoder
    made; without, there is no such attention, as in a language model. Without `causal` a token
    sees those after it, too.

    >>> layer = DecoderLayer(StackConfig(width=6, heads=3))
    >>> layer(torch.randn(2, 5, 6), memory=torch.randn(2, 7, 6)).shape
    torch.Size([2, 5, 6])
    """


def wrong_memory(decoder: nn.Module, memory: Tensor | None) -> ValueError:
    """The error for a memory where none is looked at, or for none where one is."""
    wanted, found = "no memory", "one"
    if memory is None:
        wanted, found = "a memory (B, M, width)", "none"
    return ValueError(
        f"{type(decoder).__name__}: it must be given {wanted}; got {found}. cross= says whether a "
        "decoder looks at an encoder."
    )


def _attention_of(config: StackConfig) -> MultiHeadAttention:
    """The attention of one layer; its stack sees to positions."""
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    of_heads = {field.name: getattr(config, field.name) for field in fields(HeadsConfig)}
    return MultiHeadAttention(**of_heads, bias=bool(config.attention_bias), dropout=dropout)


@torch.no_grad()
def _shrink(layer: nn.Module, root: float) -> None:
    """Divide the matrices that end a sublayer by √(sublayers of the stack).

    What they give is added to the residual, that many times: so the sum stays of one size.
    """
    for name, part in layer.named_modules():
        if isinstance(part, nn.Linear) and name.endswith((".w_o", ".w_out")):
            part.weight /= root
