"""The edges of one layer that are strong enough, and the rows of which that cannot be said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard._arguments import shown
from regard.run.errors import RunError
from regard.run.layer import Layer

# How much the listed weights of a row, added up, may be wrong by rounding.
_ROUNDING = 1e-3
_MOST = 2  # that the weights of a row may add up to, of which the rounding of no type makes 1

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FilteredEdges:
    """Edges in the order of sequence, head, query and falling weight, one array a column.

    `truncated` is (rows, 3), the sequence, head and query of each row that may have more edges.
    `not_finite` is how many rows have none because a NaN or an infinity got into them.
    """

    sequence: Ints
    head: Ints
    query: Ints
    key: Ints
    weight: NDArray[np.floating]
    truncated: Ints
    not_finite: int


def filter_edges(
    layer: Layer, min_weight: float, top: int | None, heads: list[int]
) -> FilteredEdges:
    """The edges of some heads between real queries and real keys.

    A list of the strongest keys is all there is of a row if its last weight is too small, if it
    names every key that the query may attend to, if it names `top` keys, or if what the listed
    weights leave of 1 is too small. Other rows are computed from q and k; without these they are
    truncated, and what was listed of them is all that is known.

    >>> import regard
    >>> q = k = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, k, k, scale=2.0, see=regard.See(top=1))
    >>> found = filter_edges(Layer("a", seen), 0.1, None, [0])
    >>> found.key.tolist(), found.truncated.tolist()
    ([0, 1, 2], [[0, 0, 0], [0, 0, 1], [0, 0, 2]])
    """
    batch, n_heads, n_queries, n_keys = layer.shape

    def of_heads(x: Tensor) -> NDArray[Any]:
        array = x.detach().cpu().numpy()
        return array if len(heads) == n_heads else array[:, heads]

    lse = of_heads(layer.lse)
    rows = lse != -np.inf  # (B, heads, Nq)
    if layer.queries is not None:
        rows &= layer.queries.cpu().numpy()[:, None]
    not_finite = rows & ~np.isfinite(lse)
    rows &= ~not_finite

    # The strongest keys and their weights, (B, heads, Nq, top).
    keys, values = np.empty((*lse.shape, 0), dtype=np.int64), np.empty((*lse.shape, 0), lse.dtype)
    if layer.top_keys is not None and layer.top_weights is not None:
        keys, values = of_heads(layer.top_keys), of_heads(layer.top_weights)
    named = keys >= 0
    if layer.keys is not None and n_keys:
        real = layer.keys.cpu().numpy()
        named &= real[np.arange(batch)[:, None, None, None], keys]
    count = np.count_nonzero(named, axis=-1)
    proven = count >= of_heads(layer.allowed)  # the list of a row is all that there is of it
    if top is not None:
        proven |= count >= top
    if keys.shape[-1]:
        last = values[..., -1]
        proven |= (last < values.dtype.type(min_weight)) | (last <= 0)
        proven |= 1 - values.sum(-1, dtype=np.float64) < min_weight - _ROUNDING

    unproven = rows & ~proven
    truncated = np.empty((0, 3), dtype=np.int64)
    exact: list[tuple[Ints, Ints, NDArray[np.floating]]] = []
    chosen = np.asarray(heads, dtype=np.int64)
    if layer.has_weights:
        rows &= proven
        exact = _exact(layer, unproven, min_weight, top, heads)
    else:
        truncated = np.argwhere(unproven)
        truncated[:, 1] = chosen[truncated[:, 1]]

    strong = rows[..., None] & named & (values > 0) & (values >= values.dtype.type(min_weight))
    place = np.flatnonzero(strong)
    row = place // max(keys.shape[-1], 1)
    key, weight = keys.reshape(-1)[place], values.reshape(-1)[place]
    if exact:
        found = [(row, key, weight), *exact]
        row, key, weight = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((key, -weight, row))
        row, key, weight = row[order], key[order], weight[order]
    if top is not None:
        place = np.arange(len(row))
        starts = np.diff(row, prepend=-1) != 0
        within = place - np.maximum.accumulate(np.where(starts, place, 0)) < top
        row, key, weight = row[within], key[within], weight[within]
    row, query = np.divmod(row, max(n_queries, 1))
    sequence, head = np.divmod(row, max(len(heads), 1))
    head = chosen[head]
    return FilteredEdges(sequence, head, query, key, weight, truncated, int(not_finite.sum()))


def _exact(
    layer: Layer, wanted: NDArray[np.bool_], min_weight: float, top: int | None, heads: list[int]
) -> list[tuple[Ints, Ints, NDArray[np.floating]]]:
    """Row, key and weight of the edges of the rows that are wanted, from q and k."""
    batch, n_heads, n_queries = wanted.shape
    found: list[tuple[Ints, Ints, NDArray[np.floating]]] = []
    for b in range(batch):
        padding = None if layer.keys is None else (~layer.keys[b]).nonzero()[:, 0]
        for h in range(n_heads):
            first = (b * n_heads + h) * n_queries
            for rows, tile in layer.weights_of_rows(b, heads[h], np.flatnonzero(wanted[b, h])):
                if padding is not None:
                    tile.index_fill_(1, padding.to(tile.device), 0.0)
                keys = None
                if top is not None and top < tile.shape[1]:
                    tile, keys = tile.topk(top, dim=1)
                strong = (tile > 0) & (tile >= min_weight)
                # A file may say any lse. With one that is not of q and k every weight may be
                # strong, and their table larger than the memory.
                total = int(strong.sum()) * min_weight
                if total > _MOST * len(rows):
                    raise RunError(
                        f"edges(): the weights of a query of {shown(layer.name)} must add up to 1; "
                        f"they add up to {total / len(rows):,.0f} or more. Its lse is not that of "
                        "its q and k: make the run anew."
                    )
                row, place = torch.nonzero(strong, as_tuple=True)
                weight = tile[row, place].cpu().numpy()
                key = place if keys is None else keys[row, place]
                found.append((first + rows[row.cpu().numpy()], key.cpu().numpy(), weight))
    return found
