"""Policies: how much each key of a cache is worth to those that come after it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

from regard._arguments import number, whole
from regard._attention import attention
from regard.observation import See
from regard.run import Layer

Shape = tuple[int, int, int]  # sequences, key heads, keys


@dataclass(frozen=True)
class Policy:
    """Which keys of a layer stay, if so many may: those of the greatest worth.

    A subclass says what `worth` (B, Hkv, N) is, infinite for what stays in any case, and whether it
    `looks`, that is, needs to have seen the layer.

    >>> SlidingWindow().kept((1, 1, 5), 2).tolist()
    [[[3, 4]]]
    """

    looks: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return type(self).__name__

    def worth(self, shape: Shape, count: int, layer: Layer | None) -> Tensor:
        raise NotImplementedError

    def kept(self, shape: Shape, count: int, layer: Layer | None = None) -> Tensor:
        """The `count` keys that stay, (B, Hkv, count), in their order."""
        worth = self.worth(shape, count, layer)
        return worth.topk(count, dim=2).indices.sort(2).values


@dataclass(frozen=True)
class Full(Policy):
    """Nothing is forgotten: what the others are measured by, from above.

    >>> Full().kept((1, 1, 3), 1).tolist()
    [[[0, 1, 2]]]
    """

    def kept(self, shape: Shape, count: int, layer: Layer | None = None) -> Tensor:
        return torch.arange(shape[2]).expand(shape)


@dataclass(frozen=True)
class Random(Policy):
    """Keys that are drawn, for each head: what the others are measured by, from below.

    >>> Random(seed=3).kept((1, 2, 7), 3).shape
    torch.Size([1, 2, 3])
    """

    seed: int = 0

    def __post_init__(self) -> None:
        whole("Random()", "seed", self.seed, 0)

    def worth(self, shape: Shape, count: int, layer: Layer | None) -> Tensor:
        # Each layer draws other keys, and the same ones every time.
        own = 0 if layer is None else sum(layer.name.encode())
        return torch.rand(shape, generator=torch.Generator().manual_seed(self.seed + own))


@dataclass(frozen=True)
class SlidingWindow(Policy):
    """The last keys.

    >>> SlidingWindow().kept((1, 1, 7), 3).tolist()
    [[[4, 5, 6]]]
    """

    def worth(self, shape: Shape, count: int, layer: Layer | None) -> Tensor:
        return torch.arange(shape[2], dtype=torch.float64).expand(shape)


@dataclass(frozen=True)
class SinkAndWindow(Policy):
    """The first `sinks` keys, on which weight rests that has nowhere to go, and the last ones.

    >>> SinkAndWindow(sinks=1).kept((1, 1, 7), 3).tolist()
    [[[0, 5, 6]]]
    """

    sinks: int = 4

    def __post_init__(self) -> None:
        whole("SinkAndWindow()", "sinks", self.sinks, 0)

    def worth(self, shape: Shape, count: int, layer: Layer | None) -> Tensor:
        worth = torch.arange(shape[2], dtype=torch.float64)
        worth[: self.sinks] = math.inf
        return worth.expand(shape)


@dataclass(frozen=True)
class HeavyHitters(Policy):
    """The keys that have received most from all queries so far; `recent` of those that stay are the
    last ones, which few queries have seen yet.

    Heads that share keys are added up.

    >>> HeavyHitters(recent=0.5).looks
    True
    """

    recent: float = 0.5
    looks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("HeavyHitters()", "recent", self.recent, 0, 1)

    def worth(self, shape: Shape, count: int, layer: Layer | None) -> Tensor:
        received = None if layer is None else layer.received
        if received is None:
            raise _unseen(self, "what each key has received", "see=regard.See(received=True)")
        worth = _by_key_head(received, shape)
        worth[:, :, shape[2] - int(self.recent * count) :] = math.inf
        return worth


@dataclass(frozen=True)
class WindowVote(Policy):
    """The keys that the last `window` queries look at most; these themselves stay.

    A key's votes are the mean over `smooth` neighbours, so that what stands beside it stays, too.
    Heads that share keys are added up.

    >>> WindowVote(window=16).looks
    True
    """

    window: int = 32
    smooth: int = 5
    looks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole("WindowVote()", "window", self.window, 1)
        if whole("WindowVote()", "smooth", self.smooth, 1) % 2 == 0:
            raise ValueError(
                f"WindowVote(): smooth must be odd; got {self.smooth}. It is how many neighbours "
                "a key's votes are the mean of, with itself in the middle."
            )

    def worth(self, shape: Shape, count: int, layer: Layer | None) -> Tensor:
        if layer is None or layer.q is None or layer.k is None:
            raise _unseen(self, "q and k", 'keep=("q", "k")')
        n_queries, n_keys = layer.shape[2:]
        window = min(self.window, n_queries)
        rows = slice(n_queries - window, n_queries)
        options: dict[str, Any] = layer.options.rows(rows, n_queries, n_keys).arguments()
        see, k = See(received=True), layer.k
        _, seen = attention(layer.q[:, :, rows], k, k[..., :0], see=see, **options)
        assert seen.received is not None
        votes = _by_key_head(seen.received, shape)
        half = self.smooth // 2
        worth = avg_pool1d(votes, self.smooth, 1, half, count_include_pad=False)
        worth[:, :, n_keys - window :] = math.inf
        # Where not even the window fits, its last ones stay.
        return SlidingWindow().worth(shape, count, layer) if count <= window else worth


# Those that `compare` tries, the bounds first and last.
POLICIES: tuple[Policy, ...] = (
    Full(),
    WindowVote(),
    HeavyHitters(),
    SinkAndWindow(),
    SlidingWindow(),
    Random(),
)


def _by_key_head(received: Tensor, shape: Shape) -> Tensor:
    """(B, H, N) as (B, Hkv, N), in float64."""
    return received.double().unflatten(1, (shape[1], -1)).sum(2)


def _unseen(policy: Policy, what: str, how: str) -> ValueError:
    return ValueError(
        f"forget(): run must hold {what} of each layer for {policy.name}; it does not. "
        f"Watch the prefix: regard.watch(model, {how})."
    )
