"""A matrix in at most so many blocks: of each the number of the largest size, or its share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.reference import Array

SIDE = 64


class Picture(NamedTuple):
    """A matrix in blocks, and how many rows and columns a block has; the last ones have fewer."""

    values: NDArray[np.float32]
    block: tuple[int, int]


def picture_of(array: Array, *, weights: bool = False, side: int = SIDE) -> Picture:
    """The picture of a matrix (rows, columns).

    A block has the number of the largest size in it, with its sign; −∞, which is masked, only if
    all of it is. Of weights it is the mean times the width of the block, so that rows sum to 1.

    >>> picture_of(np.array([[1.0, -3.0, 0.5], [2.0, -np.inf, -np.inf]]), side=2).values.tolist()
    [[-3.0, 0.5], [2.0, -inf]]
    >>> picture_of(np.array([[0.5, 0.25, 0.25]]), weights=True, side=2).values.tolist()
    [[0.75, 0.25]]
    """
    block = block_of(array.shape, side)
    return Picture(blocks(array, block, weights=weights), block)


def block_of(shape: tuple[int, ...], side: int = SIDE) -> tuple[int, int]:
    """How many rows and columns a block has, so that there are at most `side` of them."""
    tall, wide = (max(1, math.ceil(size / side)) for size in shape[-2:])
    return tall, wide


def blocks(array: Array, block: tuple[int, int], *, weights: bool = False) -> NDArray[np.float32]:
    """A matrix, or some rows of it that begin with a block, in blocks of that size."""
    (rows, columns), (tall, wide) = array.shape, block
    if block == (1, 1):
        return array.astype(np.float32)
    starts = np.arange(0, rows, tall), np.arange(0, columns, wide)

    def reduced(how: np.ufunc, x: NDArray[Any]) -> Any:
        return how.reduceat(how.reduceat(x, starts[1], axis=1), starts[0], axis=0)

    if weights:
        counts = np.diff(np.append(starts[0], rows))[:, None]
        return (reduced(np.add, array) / counts).astype(np.float32)
    masked = np.isneginf(array)
    some = np.where(masked, 0.0, array) if masked.any() else array
    high, low = reduced(np.maximum, some), reduced(np.minimum, some)
    values = np.where(high >= -low, high, low)
    if some is not array:
        values = np.where(reduced(np.logical_and, masked), -np.inf, values)
    return values.astype(np.float32)
