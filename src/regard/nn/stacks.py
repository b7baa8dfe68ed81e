"""Stacks of layers: what comes in as embeddings goes out as vectors in their context."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn._checks import COUNTS, check_whole
from regard.nn._hooks import INPUT, HookPoints, placed, positions_point, record
from regard.nn._places import Positions, check_positions, positions_of
from regard.nn.cache import Cache
from regard.nn.config import StackConfig
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.norm import norm_of
from regard.nn.position import NoPosition


class _Stack(nn.Module):
    """What both stacks have: a position for all layers, the layers, a norm at the end."""

    def __init__(self, config: StackConfig, layers: nn.ModuleList, adds_position: bool) -> None:
        super().__init__()
        self.config = config
        leaves_it = config.position.is_added and not adds_position
        self.positions = positions_of(NoPosition() if leaves_it else config.position, config)
        self.layers = layers
        ends = norm_of(config.norm, config.width, config.norm_eps) if config.final_norm else None
        self.norm = ends

    def _begin(self, x: Tensor, positions: Tensor) -> Tensor:
        """x with positions added, if that is asked for."""
        added = self.positions.embed(positions, x.dtype)
        if added is not None:
            record(self, "input", x)
            record(self, "positions", added)
            x = x + added
            record(self, "placed", x)
        return x

    def hook_points(self) -> HookPoints:
        return {
            "input": INPUT,
            "positions": positions_point(self.positions),
            "placed": placed("X = input + {1}", "input", "positions"),
        }

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

    def _check_whole(self, n_new: int, mask: Tensor | None, cache: Cache | None) -> None:
        """Raise ValueError for padding between real tokens where distances are counted in keys."""
        window = self.config.window if cache is None else cache.window or self.config.window
        counts = bool(window) or (self.positions.counts_keys and cache is not None)
        before = None if cache is None else cache.real
        if not counts or (mask is None and before is None):
            return
        if cache is not None:
            like = mask if before is None else before
            assert like is not None
            before = like.new_ones(len(like), cache.length) if before is None else before
            new = like.new_ones(len(like), n_new) if mask is None else mask
            mask = torch.cat([before, new], 1)
        if _has_holes(mask):
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
        layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        super().__init__(config, layers, adds_position)

    def forward(
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
        _check_input(self, x, mask, lengths, positions)
        self._check_whole(x.shape[1], mask, None)
        if positions is None:
            positions = positions_in(x.shape[1], mask, x.device)
        x = self._begin(x, positions)
        spots = self._spots(positions, mask)
        place = self.positions.place(spots, x.shape[1], False, x.dtype)
        keys = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask=keys, lengths=lengths, place=place)
        return x if self.norm is None else self.norm(x)


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
        layers = nn.ModuleList(
            DecoderLayer(config, cross=cross, causal=causal) for _ in range(config.layers)
        )
        super().__init__(config, layers, adds_position)
        self.cross, self.causal = cross, causal

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
        keys, n_keys = mask, x.shape[1]
        _check_input(self, x, mask, lengths, positions)
        self._check_memory(x, memory, memory_mask, memory_lengths, cache)
        if cache is not None:
            self._check_causal()
            cache.check(x.shape[0], len(self.layers))
            if lengths is not None:
                raise ValueError("Decoder: with a cache, give mask (B, N) in place of lengths.")
        self._check_whole(x.shape[1], mask, cache)
        if positions is None:
            positions = positions_in(x.shape[1], mask, x.device, cache)
        if cache is not None:
            n_keys = cache.layers[0].n_seen(x.shape[1])
            keys = cache.advance(x.shape[1], mask)
        x = self._begin(x, positions)
        spots = self._spots(positions, mask)
        place = self.positions.place(spots, n_keys, self.causal, x.dtype)
        keys = None if keys is None else keys[:, None, None, :]
        seen = None if memory_mask is None else memory_mask[:, None, None, :]
        for n, layer in enumerate(self.layers):
            x = layer(
                x,
                memory=memory,
                mask=keys,
                lengths=lengths,
                memory_mask=seen,
                memory_lengths=memory_lengths,
                place=place,
                cache=None if cache is None else cache.layers[n],
            )
        if cache is not None:
            cache.close()
        return x if self.norm is None else self.norm(x)

    def _check_memory(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        lengths: Tensor | None,
        cache: Cache | None,
    ) -> None:
        if (memory is not None) != self.cross:
            found = "none" if memory is None else "one"
            wanted = "a memory (B, M, width)" if self.cross else "no memory"
            raise ValueError(
                f"Decoder: it must be given {wanted}; got {found}. cross= says whether a decoder "
                "looks at an encoder."
            )
        if memory is None:
            return
        batch, _, width = x.shape
        if memory.dim() != 3 or memory.shape[0] != batch or memory.shape[2] != width:
            raise ValueError(
                f"Decoder: memory must be (B, M, width) = ({batch}, M, {width}); got "
                f"{tuple(memory.shape)}."
            )
        check_padding("Decoder: of the memory", (batch, memory.shape[1]), mask, lengths)
        if cache is not None and cache.layers[0].context is not None:
            cache.layers[0].context.check("Decoder: memory", memory)

    def _check_causal(self) -> None:
        if not self.causal:
            raise ValueError(
                "Decoder: causal must be True for a cache; got False. Where a token sees those "
                "after it, each new one changes what came before: give all tokens at once."
            )

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


def _check_input(
    stack: _Stack,
    x: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    positions: Tensor | None,
) -> None:
    name = type(stack).__name__
    if x.dim() != 3 or x.shape[2] != stack.config.width:
        raise ValueError(
            f"{name}: x must be (B, N, width) = (B, N, {stack.config.width}); got {tuple(x.shape)}."
        )
    check_padding(name, (x.shape[0], x.shape[1]), mask, lengths)
    if positions is not None:
        used = type(stack.positions) is not Positions
        check_positions(name, positions, x.shape[0], x.shape[1], used=used)


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
