"""Attention a second time, for the tests: plain loops over Python floats, from the contract alone.

Nothing here is shared with `regard.reference`: no NumPy arithmetic, no largest score taken out,
sums by `math.fsum`. Scores must stay within ±700, where `math.exp` has a value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class ByHand(NamedTuple):
    """What the loops found, under the names of `reference.Attention`."""

    scores: Array
    scaled: Array
    allowed: NDArray[np.bool_]
    lse: Array
    weights: Array
    output: Array


def at(array: Any, *place: int) -> Any:
    """The element of `array` at `place`, with axes lined up from the right and size 1 repeated."""
    array = np.asarray(array)
    index = place[len(place) - array.ndim :]
    return array[tuple(0 if size == 1 else i for i, size in zip(index, array.shape, strict=True))]


def may_attend(
    i: int,
    j: int,
    n_queries: int,
    n_keys: int,
    causal: bool,
    window: tuple[int | None, int | None] | None,
    position: int | None = None,
) -> bool:
    """Whether position allows it: query i stands at i + Nk − Nq or where it is told, key j at j."""
    p = i + (n_keys - n_queries if position is None else position)
    if causal and j > p:
        return False
    left, right = window or (None, None)
    return (left is None or p - left <= j) and (right is None or j <= p + right)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    mask: Any = None,
    bias: Any = None,
    lengths: Sequence[int] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Sequence[float] | None = None,
    position: int | None = None,
) -> ByHand:
    """q (B, H, Nq, D), k (B, Hkv, Nk, D), v (B, Hkv, Nk, Dv); finite inputs only."""
    (n_batch, n_heads, n_queries, width), (_, n_shared, n_keys, _) = q.shape, k.shape
    scale = 1 / math.sqrt(width) if scale is None else scale
    square = (n_batch, n_heads, n_queries, n_keys)
    found = ByHand(
        scores=np.zeros(square),
        scaled=np.full(square, -np.inf),
        allowed=np.zeros(square, dtype=bool),
        lse=np.full(square[:-1], -np.inf),
        weights=np.zeros(square),
        output=np.zeros((*square[:-1], v.shape[-1])),
    )
    for b, h, i in itertools.product(range(n_batch), range(n_heads), range(n_queries)):
        shared = h // (n_heads // n_shared)
        exponentials: dict[int, float] = {}
        for j in range(n_keys):
            score = math.fsum(
                float(q[b, h, i, d]) * float(k[b, shared, j, d]) for d in range(width)
            )
            found.scores[b, h, i, j] = score
            added = 0.0 if bias is None else float(at(bias, b, h, i, j))
            if (
                not may_attend(i, j, n_queries, n_keys, causal, window, position)
                or (mask is not None and not at(mask, b, h, i, j))
                or (lengths is not None and j >= lengths[b])
                or added == -math.inf
            ):
                continue
            score *= scale
            if softcap is not None:
                score = softcap * math.tanh(score / softcap)
            score += added
            found.allowed[b, h, i, j] = True
            found.scaled[b, h, i, j] = score
            exponentials[j] = math.exp(score)
        if not exponentials:
            continue
        sink = [] if sinks is None else [math.exp(sinks[h])]
        total = math.fsum([*exponentials.values(), *sink])
        found.lse[b, h, i] = math.log(total)
        for j, exponential in exponentials.items():
            found.weights[b, h, i, j] = exponential / total
        for d in range(v.shape[-1]):
            found.output[b, h, i, d] = math.fsum(
                exponential / total * float(v[b, shared, j, d])
                for j, exponential in exponentials.items()
            )
    return found


def product(a: Array, b: Array) -> Array:
    """The matrix product of two matrices, cell by cell."""
    return np.array(
        [
            [
                math.fsum(float(x) * float(y) for x, y in zip(row, column, strict=True))
                for column in b.T
            ]
            for row in a
        ]
    ).reshape(len(a), b.shape[1])
