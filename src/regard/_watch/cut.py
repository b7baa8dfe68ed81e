"""Heads that are cut, and links that are blocked: looking is correlation, cutting is cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from regard._watch.call import Call
from regard.observation import Observation, See, shown

__all__ = ["Cuts", "Link"]

Link = tuple[str | int, int | None, int | None, int]  # layer, head, query, key


class Cuts:
    """What is taken out of a model: the outputs of heads, and links from queries to keys."""

    def __init__(
        self,
        cut: Mapping[str | int, Iterable[int]] | None,
        block: Iterable[Link] | None,
    ) -> None:
        self._heads: dict[str | int, tuple[int, ...]] = {}
        for layer, heads in (cut or {}).items():
            self._heads[layer] = tuple(heads)
        self._links: dict[str | int, list[tuple[int | None, int | None, int]]] = {}
        for link in block or ():
            if len(cast("tuple[object, ...]", link)) != 4:
                raise ValueError(
                    f"watch(): block must be links (layer, head, query, key); got {shown(link)}. "
                    "None as head or query stands for every one."
                )
            layer, head, query, key = link
            self._links.setdefault(layer, []).append((head, query, key))
        self._used: set[str | int] = set()

    def of(
        self, name: str, index: int, call: Call
    ) -> tuple[tuple[int, ...], list[tuple[int | None, int | None, int]]]:
        """The heads and links to take out of a call of this layer; their numbers are checked."""
        heads: tuple[int, ...] = ()
        links: list[tuple[int | None, int | None, int]] = []
        for layer in (name, index):
            if layer in self._heads or layer in self._links:
                self._used.add(layer)
            heads += self._heads.get(layer, ())
            links += self._links.get(layer, [])
        n_heads = call.q.shape[1]
        for head in (*heads, *(head for head, _, _ in links if head is not None)):
            if not 0 <= head < n_heads:
                raise ValueError(
                    f"watch(): heads of {name} must be from 0 to {n_heads - 1}; got {head}. "
                    f"It has {n_heads} of them."
                )
        first = call.position + call.start  # where the first query of this call stands
        last = first + call.q.shape[2]
        n_keys = call.start + call.k.shape[2]
        here = [
            (head, query if query is None else query - first, key - call.start)
            for head, query, key in links
            if (query is None or first <= query < last) and call.start <= key < n_keys
        ]
        return heads, here

    def without(
        self, call: Call, see: See, links: list[tuple[int | None, int | None, int]]
    ) -> tuple[Tensor, Observation]:
        """The output of the call without these links, and what was seen of it."""
        n_heads, n_keys = call.q.shape[1], call.k.shape[2]
        every = [(head, key) for head, query, key in links if query is None]
        if every:
            allowed = torch.ones((1, n_heads, 1, n_keys), dtype=torch.bool, device=call.q.device)
            for head, key in every:
                allowed[0, slice(None) if head is None else head, 0, key] = False
            mask = call.options.mask
            mask = allowed if mask is None else mask & allowed
            call = replace(call, options=replace(call.options, mask=mask))
        rows: dict[int, list[tuple[int, int]]] = {}
        for head, query, key in links:
            if query is not None:
                heads = range(n_heads) if head is None else (head,)
                rows.setdefault(query, []).extend((each, key) for each in heads)
        if rows:
            return call.without_links(see, rows)
        out, seen = call.compute(see)
        assert seen is not None
        return out, seen

    def unused(self) -> list[str]:
        """What named no layer that was computed."""
        asked = dict.fromkeys((*self._heads, *self._links))
        return [
            f"cut or block: no layer {layer!r} was computed, so nothing was taken out of it."
            for layer in asked
            if layer not in self._used
        ]
