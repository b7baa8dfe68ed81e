"""What `regard.watch` saw of a batch, as numbers of each text and head, and their strong links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.corpus.sketch import STATISTICS, Gathered
from regard.observation import See
from regard.run import Layer
from regard.run.heads import measure

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Links:
    """The strongest weights of each text and head: one array a column, in the order of text, head
    and falling weight.
    """

    sequence: Ints
    head: Ints
    query: Ints
    key: Ints
    weight: NDArray[np.floating]


@dataclass(frozen=True)
class Measured:
    """Of one layer: the means over the real queries of each text, (B, H, statistics), NaN where
    there is none; how many queries there were, (B, H); how many links, and the strongest of them.
    """

    means: NDArray[np.float64]
    queries: Ints
    edges: Ints
    links: Links


def look(min_weight: float) -> See:
    """What to look at, so that no link of at least `min_weight` can be missing: the weights of a
    query add up to 1, so that it has one less at most.

    >>> look(0.25).top
    5
    """
    return See(entropy=True, distance=True, top=int(1 / min_weight) + 1)


def measure_layer(layer: Layer, gathered: Gathered, min_weight: float, most: int) -> Measured:
    """The numbers of a layer that saw a batch, which are also taken into the sketches."""
    batch, heads = layer.shape[:2]
    names, numbers = measure(layer.seen, layer.shares, layer.queries, layer.allowed)
    sums, counts = gathered.add(names, numbers)
    means = np.full((batch, heads, len(STATISTICS)), np.nan)
    for name, total, count in zip(names, sums, counts, strict=True):
        np.divide(total, count, out=means[:, :, STATISTICS.index(name)], where=count > 0)
    counted = layer.lse > -torch.inf
    if layer.queries is not None:
        counted &= layer.queries[:, None]
    edges, links = _strongest(layer, counted, min_weight, most)
    return Measured(means, counted.sum(2).numpy(), edges, links)


def _strongest(layer: Layer, counted: Tensor, min_weight: float, most: int) -> tuple[Ints, Links]:
    """How many links each text and head has, (B, H), and the `most` strongest of them; of equal
    ones those of earlier queries, and keys."""
    assert layer.top_keys is not None
    assert layer.top_weights is not None
    batch, heads, n_queries, top = layer.top_keys.shape
    weights, keys = layer.top_weights.numpy(), layer.top_keys.numpy()
    strong = weights >= weights.dtype.type(min_weight)
    strong &= (counted & layer.lse.isfinite()).numpy()[..., None]
    place = np.flatnonzero(strong)
    key = keys.reshape(-1)[place]
    if layer.keys is not None:  # a model may look at padding
        is_real = layer.keys.numpy()[place // (heads * n_queries * top), key]
        strong.reshape(-1)[place[~is_real]] = False
        place, key = place[is_real], key[is_real]
    groups = strong.reshape(batch * heads, n_queries * top)
    edges = np.count_nonzero(groups, axis=1).reshape(batch, heads)
    # Of each group what is as strong as the last of its strongest, and only then in order.
    count = min(most, groups.shape[1])
    group, weight = place // max(groups.shape[1], 1), weights.reshape(-1)[place]
    if count:
        rest = weights.reshape(groups.shape).copy()
        np.copyto(rest, 0, where=~groups)
        least = np.sort(rest, axis=1)[:, -count]
        kept = weight >= least[group]
        place, key, group, weight = place[kept], key[kept], group[kept], weight[kept]
    query = place // top % n_queries
    order = np.lexsort((key, query, -weight, group))
    nth = np.arange(len(order))
    starts = np.diff(group[order], prepend=-1) != 0
    order = order[nth - np.maximum.accumulate(np.where(starts, nth, 0)) < most]
    sequence, head = np.divmod(group[order], heads)
    return edges, Links(sequence, head, query[order], key[order], weight[order])
