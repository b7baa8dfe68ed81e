"""What a run is asked by the views: rows, links, maps, tiles, as plain arrays of float32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard._wanted import still_wanted

if TYPE_CHECKING:
    from torch import Tensor

    from regard.run import Layer, Run

TILE = 256
Answer = tuple[NDArray[Any], dict[str, Any]]  # an array, and what is said about it


class Answers:
    """The questions of `RunSource` in view/web/source.js, each with the parameters of its address.
    Raises ValueError for a place that is not there.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._layers = list(run.layers.values())

    def info(self) -> dict[str, Any]:
        from regard.run.info import run_info
        from regard.run.rollout import has_rollout
        from regard.run.stages import stages

        tops = [0 if x.top_keys is None else x.top_keys.shape[3] for x in self._layers]
        whole = all(layer.has_weights for layer in self._layers)
        return {
            **run_info(self._run),
            "notes": [*self._run.notes, *self._run.unseen],
            "whole": whole,
            "top": 8 if whole else min(tops, default=0),
            "bits": 32,
            "level": 0 if whole else None,
            "reduces": ["mean", "max"] if whole else [],
            "rollout": whole and has_rollout(self._run),
            "stages": list(stages(self._run)) or None,
        }

    def _layer(self, layer: int) -> Layer:
        if not 0 <= layer < len(self._layers):
            raise ValueError(f"There are layers from 0 to {len(self._layers) - 1}.")
        return self._layers[layer]

    def _place(self, sequence: int, layer: int, head: int | None) -> Layer:
        found = self._layer(layer)
        batch, heads, _, _ = found.shape
        if not 0 <= sequence < batch:
            raise ValueError(f"There are texts from 0 to {batch - 1}.")
        if head is not None and not 0 <= head < heads:
            raise ValueError(f"There are heads from 0 to {heads - 1}.")
        return found

    # ── rows, columns, links ──────────────────────────────────────────────────────────────────

    def row(self, sequence: int, layer: int, query: int, head: int | None = None) -> Answer:
        """The weights of one query on all keys; of all heads, their mean."""
        found = self._place(sequence, layer, head)
        if not 0 <= query < found.shape[2]:
            raise ValueError(f"There are queries from 0 to {found.shape[2] - 1}.")
        if found.has_weights:
            rows = found.weights(head, rows=slice(query, query + 1), sequence=sequence)
            return _floats(rows.reshape(-1, found.shape[3]).mean(0)), {"rest": 0.0}
        keys, weights = self._top(found, sequence, head)
        total = np.zeros(found.shape[3], dtype=np.float64)
        for one_keys, one_weights in zip(keys[:, query], weights[:, query], strict=True):
            real = one_keys >= 0
            np.add.at(total, one_keys[real], one_weights[real] / len(keys))
        return total.astype(np.float32), {"rest": max(0.0, 1.0 - float(total.sum()))}

    def column(self, sequence: int, layer: int, key: int, head: int | None = None) -> Answer:
        """The weights of all queries on one key."""
        found = self._place(sequence, layer, head)
        if not 0 <= key < found.shape[3]:
            raise ValueError(f"There are keys from 0 to {found.shape[3] - 1}.")
        if found.has_weights:
            columns = found.weights(head, keys=slice(key, key + 1), sequence=sequence)
            return _floats(columns.reshape(-1, found.shape[2]).mean(0)), {"rest": 0.0}
        keys, weights = self._top(found, sequence, head)
        total = np.where(keys == key, weights, 0.0).sum(-1).mean(0)
        return total.astype(np.float32), {"rest": None}

    def _top(
        self, layer: Layer, sequence: int, head: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        if layer.top_keys is None or layer.top_weights is None:
            raise ValueError("Neither q and k nor the strongest weights of this run were kept.")
        heads = slice(None) if head is None else slice(head, head + 1)
        return (
            layer.top_keys[sequence, heads].numpy(),
            layer.top_weights[sequence, heads].float().numpy(),
        )

    def links(self, sequence: int, layer: int, head: int) -> Answer:
        """The strongest keys of each query and their weights, side by side: (queries, 2 · top)."""
        found = self._place(sequence, layer, head)
        if found.top_keys is not None:
            keys, weights = self._top(found, sequence, head)
            both = np.concatenate([keys[0].astype(np.float32), weights[0]], axis=-1)
            return both, {}
        if not found.has_weights:
            raise ValueError("Neither q and k nor the strongest weights of this run were kept.")
        parts: list[NDArray[np.float32]] = []
        count, step = min(8, found.shape[3]), max(1, 2**22 // max(found.shape[3], 1))
        for start in range(0, found.shape[2], step):
            still_wanted()
            rows = slice(start, min(start + step, found.shape[2]))
            weights, keys = found.weights(head, rows, sequence=sequence).topk(count)
            keys = keys.masked_fill(weights <= 0, -1)
            parts.append(np.concatenate([_floats(keys), _floats(weights)], axis=-1))
        empty = np.zeros((0, 2 * count), dtype=np.float32)
        return np.concatenate(parts or [empty]), {}

    # ── pictures ──────────────────────────────────────────────────────────────────────────────

    def map(self, sequence: int, layer: int, head: int) -> Answer:
        from regard.run.atlas import small_map

        found = self._place(sequence, layer, head)
        picture = small_map(found, head, sequence=sequence)
        if picture is None:
            raise ValueError("Neither maps nor q and k of this run were kept.")
        return _floats(picture), {}

    def tile(
        self,
        sequence: int,
        layer: int,
        head: int,
        level: int,
        row: int,
        column: int,
        reduce: Literal["mean", "max"] = "mean",
    ) -> Answer:
        """Tile (row, column) of a level: 256 × 256 cells of 2^level × 2^level weights each."""
        from regard.run.atlas import blocks

        found = self._place(sequence, layer, head)
        if not 0 <= level <= 40 or row < 0 or column < 0:
            raise ValueError("There is no such tile.")
        size = 1 << level
        rows, columns = (math.ceil(n / size) for n in found.shape[2:])
        top, left = row * TILE, column * TILE
        if top >= rows or left >= columns:
            raise ValueError("There is no such tile.")
        bottom, right = min(top + TILE, rows), min(left + TILE, columns)
        tile = blocks(found, head, level, (top, bottom), (left, right), reduce, sequence=sequence)
        return _floats(tile), {}

    # ── through the layers ────────────────────────────────────────────────────────────────────

    def rollout(self, sequence: int, token: int) -> Answer:
        return _floats(self._run.rollout(token, sequence)), {}

    def hidden_states(self, sequence: int, tokens: str) -> Answer:
        """(tokens, stages, width), of tokens by their numbers with commas between them."""
        import torch

        from regard.run.stages import stages

        parts = tokens.split(",")
        if len(parts) > 1000 or not all(part.isdecimal() and len(part) < 10 for part in parts):
            raise ValueError("Tokens are whole numbers with commas between them.")
        places = [int(part) for part in parts]
        kept = list(stages(self._run).values())
        if not kept:
            raise ValueError("The hidden states of the tokens were not kept.")
        batch, length = kept[0].shape[:2]
        if not 0 <= sequence < batch or max(places) >= length:
            raise ValueError(f"There are tokens from 0 to {length - 1}.")
        return _floats(torch.stack([x[sequence, places] for x in kept], dim=1)), {}


def _floats(x: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(x.detach().float().cpu().numpy())
