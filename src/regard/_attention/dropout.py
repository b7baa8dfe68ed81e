"""Which weights dropout leaves where PyTorch's operations do the work, chunk after chunk."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._attention import native
from regard._attention.problem import Tile

__all__ = ["Dropper", "dropper"]

_VMAP = torch._C.DispatchKeySet(torch._C._parse_dispatch_key("VmapMode"))  # pyright: ignore[reportArgumentType]


class Dropper:
    """By PyTorch's generator: the same weights for the same seed and chunks."""

    def __init__(self, dropout: float, seed: Tensor, device: torch.device) -> None:
        self.dropout = dropout
        self.generator = torch.Generator(device).manual_seed(int(seed))

    def next(self, like: Tensor, tile: Tile) -> Tensor:
        """For each weight of the tile, which comes after the last one: 0, or 1 / (1 − dropout)."""
        # Drawn once more for a gradient, also one of many at once, where vmap allows no new draws.
        with torch._C._ExcludeDispatchKeyGuard(_VMAP):
            chance = torch.rand(
                like.shape, generator=self.generator, dtype=torch.float32, device=like.device
            )
        return (chance >= self.dropout).to(like.dtype).div_(1.0 - self.dropout)


class _NativeDropper(Dropper):
    """By the native backend's hash: the weights that it drops itself, from sequence `first` on."""

    def __init__(self, dropout: float, seed: Tensor, first: int) -> None:
        self.dropout, self.seed, self.first = dropout, seed, first

    def next(self, like: Tensor, tile: Tile) -> Tensor:
        return native.kept(like.shape, tile, self.dropout, self.seed, self.first).to(like.dtype)


def dropper(
    backend: str, dropout: float, seed: Tensor | None, device: torch.device, first: int = 0
) -> Dropper | None:
    """What drops weights in this backend's way; None without a seed, which is without dropout."""
    if seed is None:
        return None
    if backend == "native":
        return _NativeDropper(dropout, seed, first)
    return Dropper(dropout, seed, device)
