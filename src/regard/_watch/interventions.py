"""Heads that are ablated, and links that are blocked: looking is correlation, ablating is cause."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, cast

from torch import nn

from regard._arguments import shown
from regard._watch.call import Blocked, Call

LayerName = str | int
Link = tuple[LayerName, int | None, int | None, int]  # layer, head, query, key


def is_meant(layer: LayerName, name: str, number: int) -> bool:
    """Is it the module of this name, by its name, a pattern or its number?"""
    if isinstance(layer, int):
        return layer == number
    return layer == name or fnmatchcase(name, layer)


class Interventions:
    """What is taken out of a model: the outputs of heads, and links from queries to keys."""

    def __init__(
        self,
        model: nn.Module,
        ablate: Mapping[LayerName, Iterable[int]] | None,
        block: Iterable[Link] | None,
    ) -> None:
        if not isinstance(cast("object", ablate), Mapping | None):
            raise TypeError(
                f"watch(): ablate must be {{layer: heads}}; got {shown(ablate)}. "
                "{3: [5]} ablates head 5 of layer 3."
            )
        self._heads = {
            layer: _numbers("ablate's heads", heads) for layer, heads in (ablate or {}).items()
        }
        self._links = list(block or ())
        for link in self._links:
            if not isinstance(cast("object", link), tuple) or len(cast("Any", link)) != 4:
                raise ValueError(
                    f"watch(): block must be links (layer, head, query, key); got {shown(link)}. "
                    "None as head or query stands for every one."
                )
            _, head, query, key = link
            some = [number for number in (head, query) if number is not None]
            _numbers("block's heads and queries", some)
            _numbers("block's keys", [key])
        self._used: set[object] = set()
        self.ablated: dict[int, list[int]] = {}  # the heads that were, by the number of the layer
        given = [("ablate", layer) for layer in self._heads]
        given += [("block", link[0]) for link in self._links]
        every = model.named_modules(remove_duplicate=False) if given else ()
        names = {name or type(model).__name__ for name, _ in every}
        for argument, layer in given:
            if not isinstance(cast("object", layer), str | int) or isinstance(layer, bool):
                raise TypeError(
                    f"watch(): a layer must be a name or a number; got {shown(layer)}. "
                    "Layers are numbered from 0 in the order of computation."
                )
            if isinstance(layer, int) or any(is_meant(layer, name, -1) for name in names):
                continue
            close = difflib.get_close_matches(layer, names, n=3, cutoff=0.4)
            hint = f"Close to it are {', '.join(map(repr, close))}. " if close else ""
            raise ValueError(
                f"watch(): a layer of {argument} must be the name of a module, a pattern of names "
                f"or a number; got {shown(layer)}, and the model has none of that name. {hint}"
                "run.layers of a first run has the names."
            )

    def apply(self, name: str, index: int, call: Call, first: int) -> Call:
        """The call without the links and heads that are taken out of this layer.

        `first` is where the first query of this call stands in its own text.
        """
        if not self._heads and not self._links:
            return call
        ablated: tuple[int, ...] = ()
        for layer, heads in self._heads.items():
            if is_meant(layer, name, index):
                self._used.add(layer)
                ablated += heads
        links = [link for link in self._links if is_meant(link[0], name, index)]
        n_heads = call.q.shape[1]
        for head in (*ablated, *(link[1] or 0 for link in links)):
            if head >= n_heads:
                raise ValueError(
                    f"watch(): heads of {name} must be from 0 to {n_heads - 1}; got {head}. "
                    f"It has {n_heads} of them."
                )
        everywhere: list[Blocked] = []
        rows: dict[int, list[Blocked]] = {}
        for link in links:
            _, head, query, key = link
            head = slice(None) if head is None else head
            row = None if query is None else query - first
            is_there = row is None or 0 <= row < call.q.shape[2]
            if not call.start <= key < call.end or not is_there:
                continue
            self._used.add(link)
            if row is None:
                everywhere.append((head, slice(None), key - call.start))
            else:
                rows.setdefault(row, []).append((head, row, key - call.start))
        if everywhere:
            call = call.without(everywhere)
        call = call.with_links(rows) if rows else call
        if not ablated:
            return call
        self.ablated[index] = sorted(set(ablated))
        return replace(call, ablated=ablated)

    def unused(self) -> list[str]:
        """What named nothing that was computed."""
        layers = [
            f"ablate: no layer {layer!r} was computed, so nothing was taken out of it."
            for layer in self._heads
            if layer not in self._used
        ]
        links = [
            f"block: no query looked along {link!r} (layer, head, query, key), so nothing was "
            "taken out."
            for link in self._links
            if link not in self._used
        ]
        return [*layers, *links]


def _numbers(what: str, values: object) -> tuple[int, ...]:
    if isinstance(values, Iterable) and not isinstance(values, str):
        found = tuple(values)
        if all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in found):
            return found
    raise ValueError(
        f"watch(): {what} must be whole numbers, 0 or more; got {shown(values)}. "
        "They are counted from 0."
    )
