"""A run as one HTML file: whole if it is small, else the strongest of it and its maps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.run import Layer, Run
from regard.run.atlas import blocks
from regard.run.stages import stages
from regard.view.html.page import Part, page

LIMIT = 24_000_000  # bytes of a page, unless another is asked for
_WHOLE = 5_000_000  # weights that a page may hold one by one
_HIDDEN_STATES = 2_500_000  # numbers of hidden states
_REST = 600_000  # bytes of a page that are not its parts: the script and the tokens
_MAP = 64  # cells of a head's small map, in height and in width
_SIXTEEN = 65535


def run_page(run: Run, limit: int = LIMIT, name: str | None = None) -> str:
    """The page, of at most about `limit` bytes; `name` is the model's, if it has a better one."""
    if not run.layers:
        raise ValueError(
            "html(): the run must have seen a layer; it has none. run.unseen and run.notes say why."
        )
    packing = _Packing(run, limit)
    info = packing.info()
    text = run.text if isinstance(run.text, str) else None
    n_tokens = max(layer["keys"] for layer in info["layers"])
    model = run.model if name is None else name
    title = f"{model}: {_beginning(text)}" if text else model
    subtitle = (
        f"{len(info['layers'])} layers, {len(info['heads'])} heads, {n_tokens:,} tokens. "
        "Where did each head look?"
    )
    content = {
        "kind": "run",
        "version": 1,
        "made": version("regard"),
        "title": title,
        "subtitle": subtitle,
        "info": info,
    }
    return page(title, content, packing.parts)


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 90 else words[:90].rsplit(" ", 1)[0] + " …"


@dataclass
class _Packing:
    """What goes into the page, and what is said about it."""

    run: Run
    limit: int
    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    notes: list[str] = field(default_factory=list[str])

    def info(self) -> dict[str, Any]:
        layers = list(self.run.layers.values())
        whole = self._put_whole(layers)
        top = 8 if whole else self._put_links(layers)
        self._put_maps(layers)
        level, reduces = (0, ["mean", "max"]) if whole else self._put_levels(layers)
        stages = self._put_hidden_states()
        return {
            **run_info(self.run),
            "notes": [*self.run.notes, *self.run.unseen, *self.notes],
            "whole": whole,
            "top": top,
            "bits": 16,
            "level": level,
            "reduces": reduces,
            "rollout": whole and has_rollout(self.run),
            "stages": stages,
        }

    def _size(self) -> int:
        return sum(len(part.packed) for part in self.parts.values())

    # ── weights ───────────────────────────────────────────────────────────────────────────────

    def _put_whole(self, layers: list[Layer]) -> bool:
        """Every weight, if they are few and can be had."""
        if sum(math.prod(layer.shape) for layer in layers) > _WHOLE:
            return False
        if any(layer.q is None or layer.k is None for layer in layers):
            return False
        for n, layer in enumerate(layers):
            self.parts[f"weights-{n}"] = Part.of(_sixteen(layer.weights()))
        if self._size() <= self.limit - _REST:
            return True
        self.parts.clear()
        return False

    def _put_links(self, layers: list[Layer]) -> int:
        """The strongest keys of each query, as many as half of the page has room for."""
        if any(layer.top_keys is None for layer in layers):
            self.notes.append(
                "The strongest weights of each query were not recorded: "
                "See(top=8), or q and k of a short text, would bring links and shades."
            )
            return 0
        room = (self.limit - _REST) * 0.75  # the rest is for pictures
        counts = [layer.top_keys.shape[3] for layer in layers if layer.top_keys is not None]
        top = min(counts, default=0)
        while top > 0:
            for n, layer in enumerate(layers):
                self._put_links_of(n, layer, top)
            if self._size() <= room or top == 1:
                break
            # What is left out are the weakest, so the rest packs about as well as it did.
            top = max(1, min(top - 1, int(top * room / self._size())))
        return top

    def _put_links_of(self, n: int, layer: Layer, top: int) -> None:
        assert layer.top_keys is not None
        assert layer.top_weights is not None
        keys = layer.top_keys[..., :top].cpu().numpy()
        small = layer.shape[3] < _SIXTEEN
        keys = np.where(keys < 0, _SIXTEEN, keys).astype(np.uint16) if small else keys
        self.parts[f"link-keys-{n}"] = Part.of(keys if small else keys.astype(np.int32))
        self.parts[f"link-weights-{n}"] = Part.of(_sixteen(layer.top_weights[..., :top]))

    # ── pictures ──────────────────────────────────────────────────────────────────────────────

    def _put_maps(self, layers: list[Layer]) -> None:
        for n, layer in enumerate(layers):
            picture = small_map(layer)
            if picture is not None:
                self.parts[f"map-{n}"] = Part.of(_sixteen(picture))

    def _put_levels(self, layers: list[Layer]) -> tuple[int | None, list[str]]:
        """The finest level of every head's picture for which there is room; None: there is none."""
        if any(layer.q is None or layer.k is None for layer in layers):
            self.notes.append("The atlas needs q and k: regard.watch(…, keep=('q', 'k')).")
            return None, []
        room = self.limit - self._size() - _REST
        longest = max(max(layer.shape[2:]) for layer in layers)
        level = max(0, math.ceil(math.log2(longest / 512)))
        while longest >> level >= 8:
            cells = sum(
                math.prod(layer.shape[:2]) * math.prod(-(-n >> level) for n in layer.shape[2:])
                for layer in layers
            )
            if cells * self._bytes_of_a_cell() <= room:
                break
            level += 1
        else:
            return None, []
        for n, layer in enumerate(layers):
            rows, columns = (-(-size >> level) for size in layer.shape[2:])
            picture = blocks(layer, None, level, (0, rows), (0, columns))
            wide = torch.full((columns,), float(1 << level))
            wide[-1] = layer.shape[3] - (columns - 1) * (1 << level)
            self.parts[f"level-mean-{n}"] = Part.of(_sixteen(picture * wide.to(picture)))
        return level, ["mean"]

    def _bytes_of_a_cell(self) -> float:
        """As the small maps took; finer pictures are of the same weights."""
        maps = [part for name, part in self.parts.items() if name.startswith("map-")]
        cells = sum(math.prod(part.shape) for part in maps)
        return 1.1 * sum(len(part.packed) for part in maps) / cells if cells else 3.0

    # ── hidden states ─────────────────────────────────────────────────────────────────────────

    def _put_hidden_states(self) -> list[str] | None:
        """Each token at each stage, (B, N, stages, width), where that was kept and is little."""
        kept = stages(self.run)
        if not kept:
            return None
        if sum(x.numel() for x in kept.values()) > _HIDDEN_STATES:
            self.notes.append("The hidden states of so many tokens have no room in this file.")
            return None
        stacked = torch.stack(list(kept.values()), dim=2).float()
        self.parts["hidden_states"] = Part.of(stacked.cpu().numpy().astype(np.float32))
        return list(kept)


def run_info(run: Run) -> dict[str, Any]:
    """What a run is, in words and numbers, as the page's `RunInfo` begins."""
    layers = list(run.layers.values())
    sequences = _sequences(run, layers)
    return {
        "model": run.model,
        "sequences": sequences,
        "layers": [_layer_info(layer, sequences) for layer in layers],
        "heads": [
            {name: _finite(value) for name, value in row.items() if name != "name"}
            for row in run.heads()
        ],
    }


def _layer_info(layer: Layer, sequences: list[dict[str, Any]]) -> dict[str, Any]:
    batch, heads, n_queries, n_keys = layer.shape
    known = [each["tokens"] is not None and len(each["tokens"]) == n_keys for each in sequences]
    real = [None] * batch if layer.keys is None else layer.keys.tolist()
    return {
        "name": layer.name,
        "cross": layer.cross,
        "causal": layer.options.causal,
        "heads": heads,
        "queries": n_queries,
        "keys": n_keys,
        "position": layer.offset,
        "named": not layer.cross and all(known),
        "real": real,
    }


def _sequences(run: Run, layers: list[Layer]) -> list[dict[str, Any]]:
    """The tokens at each position, of the layers that look at their own sequence."""
    from regard.run.tokens import codes_of_keys, vocabulary

    batch = max((layer.shape[0] for layer in layers), default=0)
    own = next((layer for layer in layers if not layer.cross), None)
    texts = run.text if isinstance(run.text, list) else [run.text] * batch
    found: list[dict[str, Any]] = []
    codes = None if own is None else codes_of_keys(run, own, vocabulary(run))
    for b in range(batch):
        tokens = None
        if (
            codes is not None
            and b < len(codes)
            and run.tokens is not None
            and (codes[b] >= 0).any()
        ):
            rest = iter(run.tokens[b])
            tokens = [
                vars(next(rest)) if code >= 0 else {"text": "", "start": 0, "end": 0}
                for code in codes[b]
            ]
        found.append({"text": texts[b] if b < len(texts) else None, "tokens": tokens})
    return found


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _sixteen(weights: Tensor) -> NDArray[np.uint16]:
    """Weights from 0 to 1 as whole numbers from 0 to 65,535; what is no number as 0."""
    numbers = torch.nan_to_num(weights.detach().double().cpu(), nan=0.0).clamp_(0.0, 1.0)
    return (numbers * _SIXTEEN).round_().numpy().astype(np.uint16)


def small_map(layer: Layer, head: int | None = None) -> Tensor | None:
    """A picture of 64 × 64 cells at most, whose rows sum to 1; None where it cannot be had.

    (B, H, …), or (B, …) of one head.
    """
    if layer.map is not None and max(layer.map.shape[2:]) <= 2 * _MAP:
        return layer.map if head is None else layer.map[:, head]
    if layer.q is None or layer.k is None:
        return None
    shape = tuple(min(_MAP, n) for n in layer.shape[2:])
    if 0 in shape:
        return None
    picture = layer.pooled(head, shape=(shape[0], shape[1]))
    wide = torch.bincount(torch.arange(layer.shape[3]) * shape[1] // layer.shape[3])
    return picture * wide.to(picture)


def has_rollout(run: Run) -> bool:
    """Can attention be rolled out through all layers?"""
    try:
        run.rollout(next(_real_tokens(run)))
    except (ValueError, StopIteration):
        return False
    return True


def _real_tokens(run: Run) -> Any:
    layer = next(iter(run.layers.values()))
    if layer.queries is None:
        return iter(range(layer.shape[2]))
    return iter(layer.queries[0].nonzero()[:, 0].tolist())
