"""The exact weights of any queries of one head, a few at a time, from q and k."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard._attention import weights
from regard.run.layer import Layer

__all__ = ["weights_of_rows"]

_CELLS = 2**22  # of the weights in memory at a time: 16 MB


def weights_of_rows(
    layer: Layer, sequence: int, head: int, rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Some of the rows, which are in order, with their weights (rows, Nk), until all were there.

    >>> import regard
    >>> q = k = torch.eye(5)[None, None]
    >>> _, seen = regard.attention(q, k, k, see=regard.See())
    >>> [(some, w)] = weights_of_rows(Layer("a", seen, q=q, k=k), 0, 0, np.array([0, 3]))
    >>> some.tolist(), tuple(w.shape)
    ([0, 3], (2, 5))
    """
    assert layer.q is not None
    assert layer.k is not None
    _, n_heads, n_queries, n_keys = layer.shape
    one, options = slice(sequence, sequence + 1), layer.options
    shared = head // (n_heads // layer.k.shape[1])
    q, k = layer.q[one, head : head + 1], layer.k[one, shared : shared + 1]
    lse = layer.lse[one, head : head + 1]
    mask, bias = (
        None if x is None else _of_head(x, sequence, head) for x in (options.mask, options.bias)
    )
    lengths = None if options.lengths is None else options.lengths[one]
    position = n_keys - n_queries if options.position is None else options.position
    height = max(_CELLS // max(n_keys, 1), 1)
    for start in range(0, len(rows), height):
        some = rows[start : start + height]
        first, end = int(some[0]), int(some[-1]) + 1
        if end - first == len(some):
            tile = weights(
                q,
                k,
                rows=(first, end),
                lse=lse,
                causal=options.causal,
                window=options.window,
                mask=mask,
                bias=bias,
                lengths=lengths,
                scale=options.scale,
                softcap=options.softcap,
                position=position,
            )
        else:
            # Queries with gaps between them have no one position: a mask says what they reach.
            index = torch.from_numpy(some).to(q.device)
            reach = _reach(layer, index + position)
            tile = weights(
                q[:, :, index],
                k,
                lse=lse[:, :, index],
                mask=reach if mask is None else reach & _rows_of(mask, index),
                bias=None if bias is None else _rows_of(bias, index),
                lengths=lengths,
                scale=options.scale,
                softcap=options.softcap,
            )
        yield some, tile[0, 0]


def _of_head(x: Tensor, sequence: int, head: int) -> Tensor:
    """A mask or a bias with four axes, of one sequence and one head."""
    x = x.view((1,) * (4 - x.dim()) + tuple(x.shape))
    b = sequence if x.shape[0] > 1 else 0
    h = head if x.shape[1] > 1 else 0
    return x[b : b + 1, h : h + 1]


def _rows_of(x: Tensor, index: Tensor) -> Tensor:
    return x[:, :, index] if x.shape[2] > 1 else x


def _reach(layer: Layer, positions: Tensor) -> Tensor:
    """(1, 1, rows, Nk): which keys a query at each position may attend to."""
    ahead = torch.arange(layer.shape[3], device=positions.device) - positions[:, None]
    reach = torch.ones_like(ahead, dtype=torch.bool)
    left, right = layer.options.window or (None, None)
    if layer.options.causal:
        reach &= ahead <= 0
    if left is not None:
        reach &= ahead >= -left
    if right is not None:
        reach &= ahead <= right
    return reach[None, None]
