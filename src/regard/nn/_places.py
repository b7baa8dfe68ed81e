"""What positions do in a model: added to embeddings, turning queries and keys, biasing scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard._tokens import turn
from regard.nn._checks import check_whole
from regard.nn.config import HeadsConfig
from regard.nn.position import (
    ALiBi,
    Learned,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
)

_LARGEST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Place:
    """Where the queries and the new keys of one pass stand, worked out once for all layers."""

    cosine: Tensor | None = None  # (1 or B, 1, N, turned width)
    sine: Tensor | None = None  # the same, with the sign of each number's turn
    pairing: str = "halves"
    bias: Tensor | None = None  # (1 or B, H, Nq, Nk), added to the scores

    def turn(self, x: Tensor) -> Tensor:
        """x (B, H, N, D), each pair of its numbers turned by its angle."""
        if self.cosine is None or self.sine is None:
            return x
        return turn(x, self.cosine, self.sine, self.pairing)


class Positions(nn.Module):
    """The base: a module for what a position does. By itself it does nothing.

    `counts_keys` says that it goes by how many keys lie between, not by positions.
    """

    counts_keys = False

    def __init__(self, position: Any, config: HeadsConfig) -> None:
        super().__init__()
        self.position, self.width = position, config.width

    def embed(self, positions: Tensor, dtype: torch.dtype) -> Tensor | None:
        """What is added to the embeddings at `positions` (1 or B, N): (1 or B, N, width)."""
        return None

    def place(self, positions: Tensor, n_keys: int, causal: bool, dtype: torch.dtype) -> Place:
        """What attention is told of tokens at `positions`, the last of `n_keys` keys."""
        return Place()

    def check(self, call: str, positions: object, batch: int, n: int) -> None:
        """Raise TypeError or ValueError if these are no `positions` (1 or B, N) of a caller.

        The greatest is 2³¹ − 1: angles are products in float64, and beyond it these are less exact
        than numbers of float32.
        """
        found = tuple(positions.shape) if isinstance(positions, Tensor) else ()
        fits, used = found in ((1, n), (batch, n)), type(self) is not Positions
        shape = "" if fits else f"(1 or B, N) = (1 or {batch}, {n})"
        remedy = "Count tokens from 0, one for each."
        check_whole(call, "positions", positions, shape, fits, _LARGEST, remedy, used=used)


class _Sinusoidal(Positions):
    def embed(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        half = (self.width + 1) // 2
        angles = _angles(positions, self.width, half, self.position.base)
        waves = (angles.sin(), angles.cos())
        if self.position.layout == "halves":
            both = torch.cat([waves[0], waves[1][..., : self.width - half]], -1)
        else:
            both = torch.stack(waves, -1).flatten(-2)[..., : self.width]
        return both.to(dtype)


class _Learned(Positions):
    def __init__(self, position: Learned, config: HeadsConfig) -> None:
        super().__init__(position, config)
        self.weight = nn.Parameter(torch.empty(position.length, config.width))
        nn.init.normal_(self.weight, std=config.width**-0.5)

    def embed(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        if positions.numel() and not torch.compiler.is_compiling():
            length, n_tokens = self.position.length, int(positions.max()) + 1
            if n_tokens > length:
                raise ValueError(
                    f"Learned(length={length}): there must be at most {length} tokens, one for "
                    f"each row of the table; got {n_tokens}. Shorten the text, or make a model of "
                    "greater length."
                )
        return nn.functional.embedding(positions, self.weight)


class Rotations(Positions):
    def __init__(self, position: Rotary, config: HeadsConfig) -> None:
        super().__init__(position, config)
        self.width = config.head_width if position.width is None else position.width
        if self.width % 2 or self.width > config.head_width:
            raise ValueError(
                "Rotary(): width must be even and at most the head's width of "
                f"{config.head_width}; got {self.width}. Numbers are turned in pairs. "
                "Give another width, or another position."
            )

    def place(self, positions: Tensor, n_keys: int, causal: bool, dtype: torch.dtype) -> Place:
        angles = _angles(positions, self.width, self.width // 2, self.position.base)[:, None]
        cosine, sine = angles.cos(), angles.sin()  # (1 or B, 1, N, width / 2)
        if self.position.pairing == "halves":
            both = torch.cat([cosine, cosine], -1), torch.cat([-sine, sine], -1)
        else:
            both = cosine.repeat_interleave(2, -1), torch.stack([-sine, sine], -1).flatten(-2)
        return Place(both[0].to(dtype), both[1].to(dtype), self.position.pairing)


class AlibiBiases(Positions):
    counts_keys = True

    def __init__(self, position: ALiBi, config: HeadsConfig) -> None:
        super().__init__(position, config)
        self.slopes = slopes(config.heads)

    def place(self, positions: Tensor, n_keys: int, causal: bool, dtype: torch.dtype) -> Place:
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        distance = _distances(positions, n_keys).abs()[:, None].to(wide)
        slope = torch.tensor(self.slopes, dtype=wide, device=positions.device)
        return Place(bias=(distance * -slope[:, None, None]).to(dtype))


class RelativeBiases(Positions):
    counts_keys = True

    def __init__(self, position: RelativeBias, config: HeadsConfig) -> None:
        super().__init__(position, config)
        self.weight = nn.Parameter(torch.zeros(position.buckets, config.heads))

    def place(self, positions: Tensor, n_keys: int, causal: bool, dtype: torch.dtype) -> Place:
        distance = _distances(positions, n_keys)
        found = self.weight[self.buckets(distance, causal)]  # (1 or B, Nq, Nk, H)
        return Place(bias=found.permute(0, 3, 1, 2))

    def buckets(self, distance: Tensor, causal: bool) -> Tensor:
        """The bucket of each distance, query minus key."""
        count = self.position.buckets if causal else self.position.buckets // 2
        later = 0 if causal else (distance < 0).long() * count
        near = distance.clamp(min=0) if causal else distance.abs()
        exact = count // 2
        ratio = (near.clamp(min=1).double() / exact).log() / math.log(
            self.position.distance / exact
        )
        far = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
        return later + torch.where(near < exact, near, far)


_MODULES: dict[type[Position], type[Positions]] = {
    NoPosition: Positions,
    Sinusoidal: _Sinusoidal,
    Learned: _Learned,
    ALiBi: AlibiBiases,
    RelativeBias: RelativeBiases,
    Rotary: Rotations,
}


def positions_of(position: Position, config: HeadsConfig) -> Positions:
    """The module of a position in a model, or an attention, of this configuration.

    Raises ValueError where the two do not fit together.
    """
    for kind, module in _MODULES.items():
        if isinstance(position, kind):
            return module(position, config)
    names = ", ".join(kind.__name__ for kind in _MODULES)
    raise TypeError(f"position must be one of {names}; got {type(position).__name__}.")


def slopes(heads: int) -> list[float]:
    """The slopes of ALiBi, one a head."""
    below = 1 << (heads.bit_length() - 1)
    found = [2.0 ** (-8.0 * (h + 1) / below) for h in range(below)]
    return found + [2.0 ** (-4.0 * (2 * h + 1) / below) for h in range(heads - below)]


def _angles(positions: Tensor, width: int, count: int, base: float) -> Tensor:
    """p·base^(−2i/width) for i < count, in float64."""
    steps = torch.arange(count, dtype=torch.float64, device=positions.device)
    return positions.double()[..., None] * base ** (-2.0 * steps / width)


def _distances(positions: Tensor, n_keys: int) -> Tensor:
    """Query minus key, (1 or B, Nq, Nk); keys that are in a cache are counted from the end."""
    if positions.shape[1] == n_keys:
        return positions[:, :, None] - positions[:, None, :]
    queries = torch.arange(n_keys - positions.shape[1], n_keys, device=positions.device)
    return (queries[:, None] - torch.arange(n_keys, device=positions.device))[None]
