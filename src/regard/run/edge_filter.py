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
    real_queries = _real(layer.queries, batch, n_queries)
    real_keys = _real(layer.keys, batch, n_keys)
    lse = _pick(layer.lse, heads, n_heads)
    rows = real_queries[:, None] & (lse != -np.inf)  # (B, heads, Nq)
    not_finite = rows & ~np.isfinite(lse)
    rows &= ~not_finite
    keys, values = _lists(layer, heads)
    named = keys >= 0
    if layer.keys is not None and n_keys:
        named &= real_keys[np.arange(batch)[:, None, None, None], keys]
    proven = _proven(layer, keys, values, named, min_weight, top, heads)
    unproven = rows & ~proven
    truncated = np.empty((0, 3), dtype=np.int64)
    exact: list[tuple[Ints, Ints, NDArray[np.floating]]] = []
    if layer.has_weights:
        rows &= proven
        exact = _exact(layer, unproven, real_keys, min_weight, top, heads)
    else:
        truncated = np.argwhere(unproven)
        truncated[:, 1] = np.asarray(heads, dtype=np.int64)[truncated[:, 1]]

    strong = rows[..., None] & named & (values > 0) & (values >= values.dtype.type(min_weight))
    place = np.flatnonzero(strong)
    row = place // max(keys.shape[-1], 1)
    key, weight = keys.reshape(-1)[place], values.reshape(-1)[place]
    if exact:
        row = np.concatenate([row, *(part[0] for part in exact)])
        key = np.concatenate([key, *(part[1] for part in exact)])
        weight = np.concatenate([weight, *(part[2] for part in exact)])
        order = np.lexsort((key, -weight, row))
        row, key, weight = row[order], key[order], weight[order]
    if top is not None:
        within = _rank(row) < top
        row, key, weight = row[within], key[within], weight[within]
    row, query = np.divmod(row, max(n_queries, 1))
    sequence, head = np.divmod(row, max(len(heads), 1))
    if heads != list(range(len(heads))):
        head = np.asarray(heads, dtype=np.int64)[head]
    return FilteredEdges(sequence, head, query, key, weight, truncated, int(not_finite.sum()))


def _real(given: Tensor | None, batch: int, size: int) -> NDArray[np.bool_]:
    return np.ones((batch, size), dtype=np.bool_) if given is None else given.cpu().numpy()


def _pick(x: Tensor, heads: list[int], n_heads: int) -> NDArray[Any]:
    array = x.detach().cpu().numpy()
    return array if len(heads) == n_heads else array[:, heads]


def _lists(layer: Layer, heads: list[int]) -> tuple[Ints, NDArray[np.floating]]:
    """The strongest keys and their weights, (B, heads, Nq, top)."""
    batch, n_heads, n_queries, _ = layer.shape
    if layer.top_keys is None or layer.top_weights is None:
        kind = np.float64 if layer.lse.dtype == torch.float64 else np.float32
        shape = (batch, len(heads), n_queries, 0)
        return np.empty(shape, dtype=np.int64), np.empty(shape, dtype=kind)
    keys = _pick(layer.top_keys, heads, n_heads).astype(np.int64, copy=False)
    return keys, _pick(layer.top_weights, heads, n_heads)


def _proven(
    layer: Layer,
    keys: Ints,
    values: NDArray[np.floating],
    named: NDArray[np.bool_],
    min_weight: float,
    top: int | None,
    heads: list[int],
) -> NDArray[np.bool_]:
    """(B, heads, Nq): is the list of a row all that there is of it?"""
    count = np.count_nonzero(named, axis=-1)
    proven = count >= _pick(layer.allowed, heads, layer.shape[1])
    if top is not None:
        proven |= count >= top
    if keys.shape[-1]:
        last = values[..., -1]
        proven |= (last < values.dtype.type(min_weight)) | (last <= 0)
        proven |= 1 - values.sum(-1, dtype=np.float64) < min_weight - _ROUNDING
    return proven


def _exact(
    layer: Layer,
    wanted: NDArray[np.bool_],
    real_keys: NDArray[np.bool_],
    min_weight: float,
    top: int | None,
    heads: list[int],
) -> list[tuple[Ints, Ints, NDArray[np.floating]]]:
    """Row, key and weight of the edges of the rows that are wanted, from q and k."""
    batch, n_heads, n_queries = wanted.shape
    found: list[tuple[Ints, Ints, NDArray[np.floating]]] = []
    for b in range(batch):
        hidden = torch.from_numpy(np.flatnonzero(~real_keys[b])).to(layer.lse.device)
        for h in range(n_heads):
            first = (b * n_heads + h) * n_queries
            for rows, tile in layer.weights_of_rows(b, heads[h], np.flatnonzero(wanted[b, h])):
                if len(hidden):
                    tile.index_fill_(1, hidden, 0.0)
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


def _rank(row: Ints) -> Ints:
    """How many entries of the same row stand before each."""
    place = np.arange(len(row))
    starts = np.diff(row, prepend=-1) != 0
    return place - np.maximum.accumulate(np.where(starts, place, 0))
