"""The exact weights of any queries of one head, a few at a time, from q and k."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard._attention import weights
from regard._wanted import still_wanted
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
    q, k, options = layer.inputs("weights()", head, sequence)
    _, _, n_queries, n_keys = layer.shape
    if options["position"] is None:
        options["position"] = n_keys - n_queries
    height = max(_CELLS // max(n_keys, 1), 1)
    for start in range(0, len(rows), height):
        still_wanted()
        some = rows[start : start + height]
        first, end = int(some[0]), int(some[-1]) + 1
        if end - first == len(some):
            tile = weights(q, k, rows=(first, end), **options)
        else:
            index = torch.from_numpy(some).to(q.device)
            tile = weights(q[:, :, index], k, **_options_of_rows(layer, options, index))
        yield some, tile[0, 0]


def _options_of_rows(layer: Layer, options: dict[str, Any], index: Tensor) -> dict[str, Any]:
    """Queries with gaps between them have no one position: a mask says what they reach."""
    mask, bias = options["mask"], options["bias"]
    reach = _reach(layer, index + options["position"])
    return options | {
        "lse": options["lse"][:, :, index],
        "mask": reach if mask is None else reach & _rows_of(mask, index),
        "bias": None if bias is None else _rows_of(bias, index),
        "causal": False,
        "window": None,
        "position": None,
    }


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
