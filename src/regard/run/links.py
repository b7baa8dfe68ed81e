"""Links between tokens: the strongest of each head, and which of them stand out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regard.reference import Array

if TYPE_CHECKING:
    from regard.run.run import Run

LEAST_WEIGHT = 0.1  # a link of less weight does not stand out


@dataclass(frozen=True)
class Link:
    """One weight: which head, from which token, to which; `heads` is how many have it strongest."""

    layer: int
    head: int
    query: int
    key: int
    weight: float
    heads: int = 1

    @property
    def name(self) -> str:
        return f"{self.layer}.{self.head}"


def links_of_heads(
    run: Run,
    layer: int | None = None,
    head: int | None = None,
    query: int | None = None,
    *,
    everything: bool = True,
) -> list[Link]:
    """The strongest link of every head in the first sequence, in the order of the heads; those of
    one layer, head or query only, if it is given.

    Unless `everything`, links that are trivial are left out: those on the first token, on itself,
    and from or to special tokens. They are exact: the eight strongest keys of a query always have
    one that is not trivial, if there is one.
    """
    links: list[Link] = []
    for index, one in enumerate(run.layers.values()):
        if layer not in (None, index) or one.top_keys is None or one.top_weights is None:
            continue
        keys = one.top_keys[0].cpu().numpy()  # (H, Nq, top)
        n_queries, n_keys = one.shape[2:]
        counts = keys >= 0
        if not everything:
            special = np.zeros(n_keys, bool)
            for place, token in enumerate(run.tokens[0][:n_keys] if run.tokens else []):
                special[place] = token.start == token.end and not one.cross
            places = np.arange(n_queries) + one.offset
            counts &= (keys != 0) & (keys != places[:, None]) & ~special[keys]
            counts &= ~special[np.clip(places, 0, n_keys - 1)][:, None]
        if query is not None:
            counts &= (np.arange(n_queries) == query)[:, None]
        strength = np.where(counts, one.top_weights[0].double().cpu().numpy(), -1.0)
        strength = strength.reshape(len(keys), -1)
        for h, best in enumerate(strength.argmax(1).tolist() if strength.shape[1] else []):
            if strength[h, best] > 0 and head in (None, h):
                row, column = divmod(best, keys.shape[2])
                weight = float(strength[h, best])
                links.append(Link(index, h, row, int(keys[h, row, column]), weight))
    return links


def strongest_links(
    run: Run,
    layer: int | None = None,
    head: int | None = None,
    query: int | None = None,
    *,
    everything: bool = False,
) -> list[Link]:
    """The strongest link of each head, the strongest first; a pair of tokens only once."""
    each = links_of_heads(run, layer, head, query, everything=everything)
    found: dict[tuple[int, int], Link] = {}
    for link in sorted(each, key=lambda link: -link.weight):
        first = found.setdefault((link.query, link.key), replace(link, heads=0))
        found[link.query, link.key] = replace(first, heads=first.heads + 1)
    return list(found.values())


def links_that_stand_out(
    run: Run, layer: int | None = None, head: int | None = None, query: int | None = None
) -> tuple[list[Link], bool]:
    """The links, and whether trivial ones are among them, as there are no better ones."""
    links = strongest_links(run, layer, head, query)
    links = [link for link in links if link.weight >= LEAST_WEIGHT]
    if links:
        return links, False
    return strongest_links(run, layer, head, query, everything=True), True


def most_telling(links: Iterable[Link]) -> Link | None:
    """The link that says most: strong, and of tokens that stand far apart, as what stands side by
    side is often looked at for its place alone. That is the weight times the logarithm of the
    distance. None of no links.

    >>> near, far = Link(2, 11, 7, 6, weight=0.88), Link(3, 1, 10, 2, weight=0.68)
    >>> most_telling([near, far]).name
    '3.1'
    """

    def told(link: Link) -> float:
        return link.weight * math.log2(1 + abs(link.query - link.key))

    return max(links, key=told, default=None)


def mean_looks(run: Run, token: int) -> Array:
    """(layers, Nk): the weights of the token in each layer, on average over its heads.

    Of the first sequence, from q and k.
    """
    rows = [
        layer.weights(rows=slice(token, token + 1), sequence=0)[:, 0].double().mean(0).cpu().numpy()
        for layer in run.layers.values()
    ]
    return np.stack(rows) if rows else np.zeros((0, 0))
