"""`See`, what attention is to look at, and `Observation`, what it saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from regard._arguments import WrongType, flag, shown, whole

MOST_CELLS = 2**31  # of a picture
_MOST_TOP = 2**20


@dataclass(frozen=True, eq=False)
class See:
    """What attention is to report. The log-sum-exp always comes with it.

    - `entropy`: of each query's weights
    - `top`: how many of the strongest keys of each query, at most 2**20
    - `map`: (rows, columns) of a picture of all weights, with at most 2**31 cells
    - `received`: the weight that each key received from all queries; costs a second pass
    - `distance`: how far from its own position each query looks, on average
    - `queries`: (B, Nq) bool, which queries count in `map` and `received`; the output and all else
      are unaffected. Padding should not count.

    Two are equal if they ask for the same, of queries that are equal one by one.

    >>> See(entropy=True, top=8, map=(128, 128))
    See(entropy=True, top=8, map=(128, 128), received=False, distance=False, queries=None)
    """

    entropy: bool = False
    top: int = 0
    map: tuple[int, int] | None = None
    received: bool = False
    distance: bool = False
    queries: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("entropy", "received", "distance"):
            flag("See()", name, getattr(self, name))
        remedy = "It is how many keys of each query are named."
        whole("See()", "top", self.top, 0, _MOST_TOP, remedy)
        shape, queries = cast("object", self.map), cast("object", self.queries)
        if shape is not None and not (
            isinstance(shape, tuple)
            and len(shape) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in shape)
            and shape[0] * shape[1] <= MOST_CELLS
        ):
            raise ValueError(
                "See(): map must be (rows, columns), each 1 or more, with at most 2**31 cells, or "
                f"None; got {shown(shape)}. It is the size of the picture."
            )
        found: object = None
        if queries is None:
            return  # all of them count
        if not isinstance(queries, Tensor) or queries.dtype != torch.bool:
            found = getattr(queries, "dtype", type(queries).__name__)
        elif queries.is_nested or queries.layout != torch.strided:
            found = "a nested one" if queries.is_nested else queries.layout
        elif queries.dim() != 2:
            found = tuple(queries.shape)
        if found is not None:
            raise WrongType(
                f"See(): queries must be a boolean tensor (B, Nq), and dense; got {found}. "
                "It is True for each query that counts in map and received, for all heads alike."
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, See):
            return NotImplemented
        return self._flags == other._flags and _are_equal(self.queries, other.queries)

    def __hash__(self) -> int:
        return hash(self._flags)

    @property
    def _flags(self) -> tuple[object, ...]:
        """All but the queries, which may change."""
        return self.entropy, self.top, self.map, self.received, self.distance


def _are_equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None or one is other:
        return one is other
    # On the meta device there is nothing to compare.
    return one.device == other.device and not one.is_meta and torch.equal(one, other)


# What can be seen, in order: the axes of each tensor, and what it holds.
FIELDS = {
    "lse": (("B", "H", "Nq"), "log-sum-exp of a query's scores, sink included"),
    "entropy": (("B", "H", "Nq"), "−Σ w ln w of a query's weights, in nats"),
    "top_keys": (("B", "H", "Nq", "top"), "a query's strongest keys, −1 where there is none"),
    "top_weights": (("B", "H", "Nq", "top"), "their weights, strongest first"),
    "map": (("B", "H", "R", "C"), "mean over a row's queries of their weights by column"),
    "received": (("B", "H", "Nk"), "sum over all queries of their weight on a key"),
    "distance": (("B", "H", "Nq"), "Σ w |p − j|: how far from its own place a query looks"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Observation:
    """What attention looked at; None where it was not asked for. No gradient flows through it.

    All are float32, or float64 for float64 inputs, and of the weights before dropout; keys are
    int64. A query without a key has lse −inf, entropy and distance 0, and top keys −1 with weight
    0. Printed, it says what it holds:

    >>> import regard
    >>> q = k = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, k, k, scale=9.0, see=See(top=2, received=True))
    >>> seen.top_keys[0, 0].tolist(), seen.received[0, 0].round(decimals=3).tolist()
    ([[0, 1], [1, 0], [2, 0]], [1.0, 1.0, 1.0])
    >>> print(seen)
    Observation: seen.lse[b, h] is that of sequence b and head h
      lse          (B, H, Nq) = (1, 1, 3)          log-sum-exp of a query's scores, sink included
      top_keys     (B, H, Nq, top) = (1, 1, 3, 2)  a query's strongest keys, −1 where there is none
      top_weights  (B, H, Nq, top) = (1, 1, 3, 2)  their weights, strongest first
      received     (B, H, Nk) = (1, 1, 3)          sum over all queries of their weight on a key
    not asked for in regard.See(…): entropy, map, distance
    """

    lse: Tensor
    entropy: Tensor | None = None
    top_keys: Tensor | None = None
    top_weights: Tensor | None = None
    map: Tensor | None = None
    received: Tensor | None = None
    distance: Tensor | None = None
    n_keys: int = 0  # Nk
    position: int | None = None  # query i stood at i + position
    sinks: Tensor | None = None  # (H,) the sinks that took their share

    def __repr__(self) -> str:
        rows = [
            (name, f"({', '.join(axes)}) = {tuple(x.shape)}", meaning)
            for name, (axes, meaning) in FIELDS.items()
            if (x := getattr(self, name)) is not None
        ]
        wide = max(len(shape) for _, shape, _ in rows)
        lines = [f"  {name:11}  {shape:{wide}}  {meaning}" for name, shape, meaning in rows]
        absent = [name for name in FIELDS if getattr(self, name) is None]
        if absent:
            lines.append(f"not asked for in regard.See(…): {', '.join(absent)}")
        return "\n".join(["Observation: seen.lse[b, h] is that of sequence b and head h", *lines])
