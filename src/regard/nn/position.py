"""Where a token stands, as objects: what is added to it, what turns it, what biases its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.nn.serialization import Bounds, Described

Base = Annotated[float, Bounds(1.0)]


class Position(Described):
    """The base of all positions: NoPosition, Sinusoidal, Learned, Rotary, ALiBi, RelativeBias.

    A position is a description; the modules that take one make what it says.

    >>> isinstance(Rotary(), Position), Rotary().is_added, Learned(512).is_added
    (True, False, True)
    """

    is_added = False  # to the embeddings, rather than used inside attention


@dataclass(frozen=True)
class NoPosition(Position):
    """Nothing: attention then does not know the order of its tokens.

    >>> NoPosition()
    NoPosition()
    """


@dataclass(frozen=True)
class Sinusoidal(Position):
    """Added to the embeddings: sin(p·ωᵢ) and cos(p·ωᵢ), ωᵢ = base^(−2i/width), i < width/2.

    `layout` "interleaved" puts sine and cosine of a frequency side by side (Vaswani),
    "halves" all sines before all cosines (Marian).

    >>> Sinusoidal().layout
    'interleaved'
    """

    is_added = True
    base: Base = 10_000.0
    layout: Literal["interleaved", "halves"] = "interleaved"


@dataclass(frozen=True)
class Learned(Position):
    """Added to the embeddings: row p of a learned table (length, width).

    >>> Learned(512)
    Learned(length=512)
    """

    is_added = True
    length: int


@dataclass(frozen=True)
class Rotary(Position):
    """Turns queries and keys: each pair (a, b) of a head's numbers by the angle p·ωᵢ.

        a′ = a·cos(p·ωᵢ) − b·sin(p·ωᵢ)      ωᵢ = base^(−2i/width)
        b′ = b·cos(p·ωᵢ) + a·sin(p·ωᵢ)

    So a score depends on how far apart query and key stand, and on nothing else of where they are.
    `pairing` "halves" pairs number i with number i + width/2 (Llama), "neighbours" 2i with 2i + 1
    (RoFormer). `width` is how many of a head's numbers are turned, from the first; None is all.

    >>> Rotary(base=500_000.0).pairing
    'halves'
    """

    base: Base = 10_000.0
    pairing: Literal["halves", "neighbours"] = "halves"
    width: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width is not None and self.width % 2:
            raise self._refuse("width", "even", "Numbers are turned in pairs.")


@dataclass(frozen=True)
class ALiBi(Position):
    """Added to the scores: −mₕ·|i − j|, with a slope for each head and nothing to learn.

    The slopes are a geometric sequence: 2^(−8/H), 2^(−16/H), … for H a power of two; otherwise
    those of the next lower power of two, then every other one of the next higher.

    >>> ALiBi()
    ALiBi()
    """


@dataclass(frozen=True)
class RelativeBias(Position):
    """Added to the scores: a learned number for each head and each bucket of distances (T5).

    Half of a side's buckets are for single distances, the others widen in proportion to the
    distance up to `distance`, beyond which all is one bucket. Where keys may come later, half of
    the buckets are for those.

    >>> RelativeBias(buckets=32, distance=128)
    RelativeBias(buckets=32, distance=128)
    """

    buckets: int = 32
    distance: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buckets % 4:
            raise self._refuse("buckets", "a multiple of 4", "Each side has near and far ones.")
        if self.distance > 2**1000:  # more than a float can be divided by
            raise self._refuse("distance", "at most 2**1000")
        if self.distance <= self.buckets // 2:
            raise self._refuse(
                "distance", f"more than half of the {self.buckets} buckets", "Nearer is exact."
            )
