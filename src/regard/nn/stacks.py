"""Stacks of layers: what comes in as embeddings goes out as vectors in their context."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn._checks import COUNTS, check_whole
from regard.nn._hooks import INPUT, HookPoints, placed, positions_point, record
from regard.nn._places import positions_of
from regard.nn.cache import Cache
from regard.nn.config import StackConfig
from regard.nn.layers import DecoderLayer, EncoderLayer, wrong_memory
from regard.nn.norm import norm_of
from regard.nn.position import NoPosition


class _Stack(nn.Module):
    """What both stacks are: a position for all layers, the layers, a norm at the end."""

    cross, causal = False, False

    def __init__(
        self, config: StackConfig, layer: Callable[[StackConfig], nn.Module], adds_position: bool
    ) -> None:
        super().__init__()
        self.config = config
        layers = nn.ModuleList(layer(config) for _ in range(config.layers))
        leaves_it = config.position.is_added and not adds_position
        self.positions = positions_of(NoPosition() if leaves_it else config.position, config)
        self.layers = layers
        self.norm = norm_of(config) if config.final_norm else None

    def hook_points(self) -> HookPoints:
        return {
            "input": INPUT,
            "positions": positions_point(self.positions),
            "placed": placed("X = input + {1}", "input", "positions"),
        }

    def forward(
        self,
        x: Tensor,
        *,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        memory_mask: Tensor | None = None,
        memory_lengths: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """X (B, N, width). `mask` (B, N): which tokens are real; `lengths` (B,): how many are.

        `memory_mask` (B, M) and `memory_lengths` (B,) say the same of the memory. With a `cache` x
        holds the new tokens alone, and the cache takes them in.
        """
        self._check(x, mask, lengths, positions, memory, memory_mask, memory_lengths, cache)
        n = n_keys = x.shape[1]
        keys = mask if cache is None else cache.real_after(n, mask)
        self._check_whole(keys, cache)
        if positions is None:
            positions = positions_in(n, mask, x.device, cache)
        if cache is not None:
            n_keys = cache.advance(n, keys)
            keys = None if keys is None else keys[:, keys.shape[1] - n_keys :]
        added = self.positions.embed(positions, x.dtype)
        if added is not None:
            record(self, "input", x)
            record(self, "positions", added)
            x = x + added
            record(self, "placed", x)
        spots = self._spots(positions, mask)
        options: dict[str, Any] = {
            "mask": None if keys is None else keys[:, None, None, :],
            "lengths": lengths,
            "place": self.positions.place(spots, n_keys, self.causal, x.dtype),
        }
        if memory is not None:
            seen = None if memory_mask is None else memory_mask[:, None, None, :]
            options |= {"memory": memory, "memory_mask": seen, "memory_lengths": memory_lengths}
        for number, layer in enumerate(self.layers):
            if cache is not None:
                options["cache"] = cache.layers[number]
            x = layer(x, **options)
        if cache is not None:
            cache.close()
        return x if self.norm is None else self.norm(x)

    def _check(
        self,
        x: Tensor,
        mask: Tensor | None,
        lengths: Tensor | None,
        positions: Tensor | None,
        memory: Tensor | None,
        memory_mask: Tensor | None,
        memory_lengths: Tensor | None,
        cache: Cache | None,
    ) -> None:
        """Raise TypeError or ValueError if what `forward` is given does not fit together."""
        name, width = type(self).__name__, self.config.width
        if x.dim() != 3 or x.shape[2] != width:
            raise ValueError(
                f"{name}: x must be (B, N, width) = (B, N, {width}); got {tuple(x.shape)}."
            )
        batch, n, _ = x.shape
        check_padding(name, (batch, n), mask, lengths)
        if positions is not None:
            self.positions.check(name, positions, batch, n)
        if (memory is not None) != self.cross:
            raise wrong_memory(self, memory)
        if memory is not None:
            if memory.dim() != 3 or memory.shape[0] != batch or memory.shape[2] != width:
                raise ValueError(
                    f"Decoder: memory must be (B, M, width) = ({batch}, M, {width}); got "
                    f"{tuple(memory.shape)}."
                )
            shape = (batch, memory.shape[1])
            check_padding("Decoder: of the memory", shape, memory_mask, memory_lengths)
            if cache is not None and cache.layers[0].context is not None:
                cache.layers[0].context.check("Decoder: memory", memory)
        if cache is not None:
            self._check_causal()
            cache.check(batch, len(self.layers))
            if lengths is not None:
                raise ValueError("Decoder: with a cache, give mask (B, N) in place of lengths.")

    def _check_causal(self) -> None:
        if not self.causal:
            raise ValueError(
                "Decoder: causal must be True for a cache; got False. Where a token sees those "
                "after it, each new one changes what came before: give all tokens at once."
            )

    def _spots(self, positions: Tensor, mask: Tensor | None) -> Tensor:
        """The positions (1 or B, N) as biases need them: alike for all, if padding is outside."""
        if (
            len(positions) == 1
            or not self.positions.counts_keys
            or mask is None
            or torch.compiler.is_compiling()
            or _has_holes(mask)
            or not torch.equal(positions, positions_in(mask.shape[1], mask, mask.device))
        ):
            return positions
        return positions_in(positions.shape[1], None, positions.device)

    def _check_whole(self, real: Tensor | None, cache: Cache | None) -> None:
        """Raise ValueError for padding between real tokens where distances are counted in keys, and
        for a cache that has forgotten some."""
        if cache is not None and cache.forgets and (self.positions.counts_keys or real is not None):
            what = "a mask" if real is not None else type(self.config.position).__name__
            raise ValueError(
                f"{type(self).__name__}: the cache must hold every key for {what}, which counts "
                "them; got one that has forgotten some. Make a new one with new_cache()."
            )
        window = self.config.window if cache is None else cache.window or self.config.window
        counts = bool(window) or (self.positions.counts_keys and cache is not None)
        if counts and _has_holes(real):
            what = "a window" if window else f"{type(self.config.position).__name__} with a cache"
            raise ValueError(
                f"{type(self).__name__}: mask must have the real tokens of a sequence side by "
                f"side; got padding between them, and {what} counts what lies between. Pad on the "
                "left."
            )


class Encoder(_Stack):
    """Y = Layer_L(… Layer_1(X + positions)): every token sees every other.

    X (B, N, width) gives (B, N, width). Positions of every kind are the stack's: with
    `adds_position=False` those that are added to embeddings are left to whoever makes X.

    >>> encoder = Encoder(StackConfig(width=6, heads=3, layers=2))
    >>> encoder(torch.randn(2, 5, 6), lengths=torch.tensor([5, 3])).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, config: StackConfig, *, adds_position: bool = True) -> None:
        super().__init__(config, EncoderLayer, adds_position)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]: it has no memory
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """X (B, N, width). `mask` (B, N): which tokens are real; `lengths` (B,): how many are.

        `positions` (1 or B, N) are counted from 0 over the real tokens unless given.
        """
        return super().forward(x, mask=mask, lengths=lengths, positions=positions)


class Decoder(_Stack):
    """Y = Layer_L(… Layer_1(X + positions)): every token sees itself and those before it.

    X (B, N, width) gives (B, N, width). With `cross` each layer also looks at `memory`
    (B, M, width), what an encoder made. Without `causal` a token sees those after it, too, and
    there is no cache.

    >>> decoder = Decoder(StackConfig(width=6, heads=3, layers=2))
    >>> decoder(torch.randn(2, 5, 6), memory=torch.randn(2, 7, 6)).shape
    torch.Size([2, 5, 6])
    """

    def __init__(
        self,
        config: StackConfig,
        *,
        cross: bool = True,
        causal: bool = True,
        adds_position: bool = True,
    ) -> None:
        super().__init__(config, partial(DecoderLayer, cross=cross, causal=causal), adds_position)
        self.cross, self.causal = cross, causal

    def new_cache(self, batch: int, window: int | None = None) -> Cache:
        """An empty cache for `batch` sequences; `window` tokens are kept, all unless given."""
        self._check_causal()
        return Cache(batch, len(self.layers), self.config.window if window is None else window)


def positions_in(
    n: int, mask: Tensor | None, device: torch.device, cache: Cache | None = None
) -> Tensor:
    """The positions (1 or B, N) of new tokens: how many real ones come before, in the cache too."""
    first = 0 if cache is None else cache.length
    before = None if cache is None else cache.real
    if mask is None and before is None:
        return torch.arange(first, first + n, device=device)[None]
    count = first if before is None else before.sum(1, keepdim=True)
    if mask is None:
        return count + torch.arange(n, device=device)
    return (count + mask.cumsum(1) - 1).clamp(min=0)


def _has_holes(mask: Tensor | None) -> bool:
    """Is there padding between real tokens? Under a compiler, which cannot look, taken as not."""
    if mask is None or not mask.numel() or torch.compiler.is_compiling():
        return False
    begins = (mask[:, 1:] & ~mask[:, :-1]).sum(1) + mask[:, 0].long()
    return int(begins.max()) > 1


def check_padding(
    name: str, shape: tuple[int, int], mask: Tensor | None, lengths: Tensor | None
) -> None:
    """Raise ValueError or TypeError if `mask` or `lengths` do not say which tokens are real."""
    if mask is not None:
        if not isinstance(mask, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name}: mask must be a tensor; got {type(mask).__name__}.")
        if mask.dtype != torch.bool:
            raise TypeError(
                f"{name}: mask must be bool, True for a real token; got {mask.dtype}. "
                "Say mask.bool() if 1 is a real token."
            )
        if tuple(mask.shape) != shape:
            raise ValueError(f"{name}: mask must be (B, N) = {shape}; got {tuple(mask.shape)}.")
    if lengths is not None:
        fits = isinstance(lengths, Tensor) and tuple(lengths.shape) == shape[:1]  # pyright: ignore[reportUnnecessaryIsInstance]
        named = "the {most} tokens that there are"
        said = f"(B,) = ({shape[0]},)"
        check_whole(name, "lengths", lengths, said, fits, shape[1], named=named, dtypes=COUNTS)
