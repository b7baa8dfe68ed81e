"""Attention with its matrices: of one head, and of several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard._attention import Options, attention
from regard._attention.options import Window
from regard.nn._changes import AttentionChange
from regard.nn._hooks import HookPoints, attention_points, is_recording, record
from regard.nn._places import Place, positions_of
from regard.nn.cache import Context, KeyValues
from regard.nn.config import Chance, HeadsConfig, Split
from regard.nn.linear import HeadLinear, Linear, together
from regard.nn.position import NoPosition, Position
from regard.observation import Observation, See


class Watcher(Protocol):
    """Who looks at every pass of an attention, and hands on nothing of it."""

    see: See

    def take(
        self,
        module: nn.Module,
        seen: Observation,
        options: Options,
        q: Tensor,
        k: Tensor,
        *,
        is_cross: bool,
    ) -> None: ...


class MultiHeadAttention(nn.Module):
    """[Z₁ … Z_H] W_O with Z_h = softmax(Q_h K_hᵀ / √d_k) V_h, Q = X W_Q, K = Y W_K, V = Y W_V.

    X (B, Nq, width) gives (B, Nq, width). Y is X itself (self-attention), or `context`
    (B, Nk, context_width) (cross-attention).

    - `heads` H; `kv_heads` (H unless given): query heads share key heads in consecutive groups;
      1 is multi-query attention
    - `head_width` d_k, width / H unless given; `value_width` d_v, as d_k unless given
    - `split`: "whole", every head projects all of X; "slices", head h only its part of X, with
      matrices of (width/H × d_k)
    - `value_rank` r: V_h = Y V_down V_up, V_down (context_width × r), V_up (r × d_v)
    - `output`: without it there is no W_O, and the result is (B, Nq, H·d_v)
    - `position`: for self-attention that stands alone; a stack sees to it for its layers
    - `dropout` of the weights, in training

    `w_q.weight` is (H·d_k, width), as PyTorch has it: Q = X W_Q with W_Q its transpose.

    >>> layer = MultiHeadAttention(6, heads=3, kv_heads=1)
    >>> x = torch.randn(2, 5, 6)
    >>> layer(x, causal=True).shape
    torch.Size([2, 5, 6])
    >>> y, seen = layer(x, context=torch.randn(2, 7, 6), see=See(entropy=True))
    >>> seen.entropy.shape
    torch.Size([2, 3, 5])
    """

    change: AttentionChange | None = None  # while somebody looks at a pass that is changed
    watcher: Watcher | None = None  # while somebody looks at every pass

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        value_width: int | None = None,
        context_width: int | None = None,
        split: Split = "whole",
        value_rank: int | None = None,
        bias: bool = True,
        output: bool = True,
        position: Position | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        own = _Checked(
            width=width,
            heads=heads,
            kv_heads=kv_heads or 0,
            head_width=head_width or 0,
            value_width=value_width or 0,
            context_width=context_width or 0,
            split=split,
            value_rank=value_rank,
            position=NoPosition() if position is None else position,
            dropout=dropout,
        )
        self.width, self.heads, self.kv_heads = own.width, own.heads, own.kv_heads
        self.head_width, self.value_width = own.head_width, own.value_width
        self.context_width, self.value_rank, self.split = own.context_width, value_rank, split
        self.position, self.scale, self.dropout = own.position, scale, own.dropout
        self.w_q = own.projection(width, heads, own.head_width, bias)
        self.w_k = own.projection(own.context_width, own.kv_heads, own.head_width, bias)
        if value_rank is None:
            self.w_v = own.projection(own.context_width, own.kv_heads, own.value_width, bias)
        else:
            down = own.projection(own.context_width, own.kv_heads, value_rank, False)
            up = HeadLinear(own.kv_heads, value_rank, own.value_width, bias)
            self.w_v = LowRankValue(down, up)
        self.w_o = Linear(heads * own.value_width, width, bias) if output else None
        self.stands = own.position != NoPosition()
        self.positions = positions_of(own.position, own)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        causal: bool = False,
        window: Window | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        lengths: Tensor | None = None,
        place: Place | None = None,
        cache: KeyValues | None = None,
        see: See | None = None,
    ) -> Tensor | tuple[Tensor, Observation]:
        """X (B, Nq, width) and what was seen, if asked.

        `causal`, `window`, `mask` (True = may attend, broadcasts to (B, H, Nq, Nk)), `bias`,
        `lengths` (B,) and `see` mean what they mean for `regard.attention`. `place` is where the
        tokens stand, by the stack around; `cache` the keys and values so far, to which the new ones
        are added. With a `context` the cache holds its keys and values, computed once, and refuses
        another.
        """
        self._check(x, context)
        record(self, "input", x)
        made = None if context is not None else together(x, self.w_q, self.w_k, self.w_v)
        q = self._heads(self.w_q(x) if made is None else made[0], self.heads)
        record(self, "query", q)
        source, known = x, None
        if context is not None:
            record(self, "context", context)
            source, known = context, None if cache is None else cache.context
        if known is not None:
            known.check("MultiHeadAttention: context", source)
            k, v = known.keys, known.values
        else:
            k = self._heads(self.w_k(source) if made is None else made[1], self.kv_heads)
            record(self, "key", k)
            v = self._heads(self.w_v(source) if made is None else made[2], self.kv_heads)
            record(self, "value", v)
        if context is None:
            if place is None:
                new = x.shape[1]
                first, n_keys = (0, new) if cache is None else (cache.length, cache.n_seen(new))
                positions = torch.arange(first, first + new, device=x.device)[None]
                place = self.positions.place(positions, n_keys, causal, x.dtype)
            if place.cosine is not None and place.sine is not None:
                record(self, "cosine", place.cosine)
                record(self, "sine", place.sine)
                q, k = place.turn(q), place.turn(k)
                record(self, "turned_query", q)
                record(self, "turned_key", k)
            if cache is not None:
                k, v = cache.extend(k, v)
                if window is None and cache.window is not None:
                    window = (cache.window - 1, None)
            if place.bias is not None:
                bias = place.bias if bias is None else place.bias + bias
        elif cache is not None and known is None:
            cache.context = Context(context, k, v)
        change, shift = self.change, None
        if change is not None:
            if context is not None:
                change = replace(change, causal=None)
            options = Options(causal, window, mask, bias, lengths=lengths)
            options = change.options(q, k, options)
            causal, window, mask = options.causal, options.window, options.mask
            lengths, shift = options.lengths, change.shift(q, k, self.scale, bias)
        if is_recording():
            options = Options(causal, window, mask, lengths=lengths)
            allowed = options.allowed(q.shape[2], k.shape[2], q.device)
            if not allowed.all():
                record(self, "mask", allowed)
            if bias is not None:
                record(self, "bias", bias.expand(*q.shape[:3], k.shape[2]))
            if shift is not None:
                record(self, "shift", shift)
        if shift is not None:
            bias = shift if bias is None else bias + shift
        watcher = self.watcher if see is None else None
        found: Any = attention(  # pyright: ignore[reportCallIssue] -- each see has an overload
            q,
            k,
            v,
            causal=causal,
            window=window,
            mask=mask,
            bias=bias,
            lengths=lengths,
            scale=self.scale,
            dropout=float(self.dropout) if self.training else 0.0,
            see=see if watcher is None else watcher.see,  # pyright: ignore[reportArgumentType]
        )
        out, seen = (found, None) if isinstance(found, Tensor) else found
        if watcher is not None and seen is not None:
            options = Options(causal, window, mask, bias, lengths=lengths, scale=self.scale)
            watcher.take(self, seen, options, q, k, is_cross=context is not None)
            seen = None
        out = out if change is None else change.output(out)
        record(self, "head_output", out)
        y = out.transpose(1, 2).flatten(2)  # (B, Nq, H·Dv), as it lies in memory
        record(self, "concatenated", y)
        if self.w_o is not None:
            y = self.w_o(y)
            record(self, "output", y)
        return y if seen is None else (y, seen)

    def hook_points(self) -> HookPoints:
        return attention_points(low_rank=isinstance(self.w_v, LowRankValue))

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        """(B, N, heads·D) as (B, heads, N, D), copying nothing."""
        return x.view(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)

    def _check(self, x: Tensor, context: Tensor | None) -> None:
        if context is not None and self.stands:
            raise ValueError(
                "MultiHeadAttention: context must be left out: this attention has a position, "
                "which has no meaning across two sequences."
            )
        if x.dim() != 3 or x.shape[2] != self.width:
            raise ValueError(
                f"MultiHeadAttention: x must be (B, N, {self.width}); got {tuple(x.shape)}."
            )
        if context is not None and (
            context.dim() != 3
            or context.shape[2] != self.context_width
            or context.shape[0] != x.shape[0]
        ):
            raise ValueError(
                f"MultiHeadAttention: context must be (B, N, width) = ({x.shape[0]}, N, "
                f"{self.context_width}); got {tuple(context.shape)}."
            )

    def extra_repr(self) -> str:
        shared = "" if self.kv_heads == self.heads else f", kv_heads={self.kv_heads}"
        return f"{self.width}, heads={self.heads}{shared}"


class SelfAttention(MultiHeadAttention):
    """softmax(Q Kᵀ / √d_k) V with Q = X W_Q, K = X W_K, V = X W_V: one head, and no W_O.

    X (B, N, width) gives (B, N, d_v): the width of W_V sets the width of the output. `head_width`
    is d_k, width unless given; `value_width` is d_v, as d_k unless given.

    >>> layer = SelfAttention(4, head_width=2)
    >>> layer(torch.randn(1, 3, 4)).shape
    torch.Size([1, 3, 2])
    """

    def __init__(
        self,
        width: int,
        *,
        head_width: int | None = None,
        value_width: int | None = None,
        value_rank: int | None = None,
        bias: bool = False,
        position: Position | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            width,
            1,
            head_width=head_width,
            value_width=value_width,
            value_rank=value_rank,
            bias=bias,
            output=False,
            position=position,
            scale=scale,
            dropout=dropout,
        )


class LowRankValue(nn.Module):
    """V = X V_down V_up, each head for itself: (B, N, width) → (B, N, H·r) → (B, N, H·d_v).

    >>> value = LowRankValue(Linear(6, 2, bias=False), HeadLinear(1, 2, 6, bias=False))
    >>> value(torch.zeros(1, 5, 6)).shape, sum(p.numel() for p in value.parameters())
    (torch.Size([1, 5, 6]), 24)
    """

    def __init__(self, down: Linear | HeadLinear, up: HeadLinear) -> None:
        super().__init__()
        self.down, self.up = down, up

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.down(x)
        if is_recording():
            record(self, "down", narrow.unflatten(-1, (self.up.heads, -1)).transpose(1, 2))
        return self.up(narrow)


@dataclass(frozen=True, kw_only=True)
class _Checked(HeadsConfig):
    """What `MultiHeadAttention` was given, in order."""

    context_width: int = 0
    position: Position
    dropout: Chance

    @property
    def _call(self) -> str:
        return "MultiHeadAttention()"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._follow(context_width=self.width)
        if self.position.is_added:
            raise self._refuse(
                "position",
                "one that acts inside attention",
                "It is added to embeddings: Encoder and Decoder do that.",
            )

    def projection(
        self, width: int, heads: int, head_width: int, bias: bool
    ) -> Linear | HeadLinear:
        """The matrix of all heads: of the whole of X, or each head's of its part."""
        if self.split == "whole":
            return Linear(width, heads * head_width, bias)
        if width % heads:
            expected = f"'whole' where {heads} heads do not divide the width of {width}"
            raise self._refuse("split", expected)
        return HeadLinear(heads, width // heads, head_width, bias)
