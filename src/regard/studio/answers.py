"""What a run is asked by the views: rows, links, maps, tiles, as plain arrays of float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

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
        from regard.run.info import run_info, stages, unknown_words
        from regard.run.rollout import has_rollout

        tops = [0 if x.top_keys is None else x.top_keys.shape[3] for x in self._layers]
        whole = all(layer.has_weights for layer in self._layers)
        return {
            **run_info(self._run),
            "notes": [*unknown_words(self._run), *self._run.notes, *self._run.unseen],
            "whole": whole,
            "top": 8 if whole else min(tops, default=0),
            "bits": 32,
            "level": 0 if whole else None,
            "reduces": ["mean", "max"] if whole else [],
            "rollout": whole and has_rollout(self._run),
            "stages": list(stages(self._run)) or None,
        }

    def _place(self, sequence: int, layer: int, head: int | None) -> Layer:
        found = self._layers[_within("layers", layer, len(self._layers))]
        _within("texts", sequence, found.shape[0])
        if head is not None:
            _within("heads", head, found.shape[1])
        return found

    # ── rows, columns, links ──────────────────────────────────────────────────────────────────

    def row(self, sequence: int, layer: int, query: int, head: int | None = None) -> Answer:
        """The weights of one query on all keys; of all heads, their mean."""
        found = self._place(sequence, layer, head)
        _within("queries", query, found.shape[2])
        if found.has_weights:
            rows = found.weights(head, rows=slice(query, query + 1), sequence=sequence)
            return _floats(rows.reshape(-1, found.shape[3]).mean(0)), {"rest": 0.0}
        keys, weights = (x[:, query] for x in _top(found, sequence, head))
        listed = keys >= 0
        total = np.bincount(keys[listed], weights[listed] / len(keys), found.shape[3])
        return total.astype(np.float32), {"rest": max(0.0, 1.0 - float(total.sum()))}

    def column(self, sequence: int, layer: int, key: int, head: int | None = None) -> Answer:
        """The weights of all queries on one key."""
        found = self._place(sequence, layer, head)
        _within("keys", key, found.shape[3])
        if found.has_weights:
            columns = found.weights(head, keys=slice(key, key + 1), sequence=sequence)
            return _floats(columns.reshape(-1, found.shape[2]).mean(0)), {"rest": 0.0}
        keys, weights = _top(found, sequence, head)
        total = np.where(keys == key, weights, 0.0).sum(-1).mean(0)
        return total.astype(np.float32), {"rest": None}

    def links(self, sequence: int, layer: int, head: int) -> Answer:
        """The strongest keys of each query and their weights, side by side: (queries, 2 · top)."""
        found = self._place(sequence, layer, head)
        if found.top_keys is not None or not found.has_weights:
            return np.concatenate(_top(found, sequence, head), axis=-1)[0].astype(np.float32), {}
        count = min(8, found.shape[3])
        parts = [np.zeros((0, 2 * count), dtype=np.float32)]
        for _, tile in found.weights_of_rows(sequence, head, np.arange(found.shape[2])):
            weights, keys = tile.topk(count)
            keys = keys.masked_fill(weights <= 0, -1)
            parts.append(np.concatenate([_floats(keys), _floats(weights)], axis=-1))
        return np.concatenate(parts), {}

    # ── pictures ──────────────────────────────────────────────────────────────────────────────

    def map(self, sequence: int, layer: int, head: int) -> Answer:
        from regard.run.atlas import small_map

        picture = small_map(self._place(sequence, layer, head), head, sequence=sequence)
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
        if not 0 <= level <= 40:
            raise ValueError("There is no such tile.")
        height, width = (-(-n >> level) for n in found.shape[2:])
        top, left = row * TILE, column * TILE
        if not (0 <= top < height and 0 <= left < width):
            raise ValueError("There is no such tile.")
        rows, columns = (top, min(top + TILE, height)), (left, min(left + TILE, width))
        return _floats(blocks(found, head, level, rows, columns, reduce, sequence=sequence)), {}

    # ── through the layers ────────────────────────────────────────────────────────────────────

    def rollout(self, sequence: int, token: int) -> Answer:
        return _floats(self._run.rollout(token, sequence)), {}

    def hidden_states(self, sequence: int, tokens: str) -> Answer:
        """(tokens, stages, width), of tokens by their numbers with commas between them."""
        import torch

        from regard.run.info import stages

        parts = tokens.split(",")
        if len(parts) > 1000 or not all(part.isdecimal() and len(part) < 10 for part in parts):
            raise ValueError("Tokens are whole numbers with commas between them.")
        places = [int(part) for part in parts]
        kept = list(stages(self._run).values())
        if not kept:
            raise ValueError("The hidden states of the tokens were not kept.")
        _within("texts", sequence, kept[0].shape[0])
        _within("tokens", max(places), kept[0].shape[1])
        return _floats(torch.stack([x[sequence, places] for x in kept], dim=1)), {}


def _within(what: str, place: int, size: int) -> int:
    if not 0 <= place < size:
        raise ValueError(f"There are {what} from 0 to {size - 1}.")
    return place


def _top(
    layer: Layer, sequence: int, head: int | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The strongest keys that were recorded, and their weights: (heads, queries, top)."""
    if layer.top_keys is None or layer.top_weights is None:
        raise ValueError("Neither q and k nor the strongest weights of this run were kept.")
    heads = slice(None) if head is None else slice(head, head + 1)
    weights = layer.top_weights[sequence, heads].float()
    return layer.top_keys[sequence, heads].numpy(), weights.numpy()


def _floats(x: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(x.detach().float().cpu().numpy())
