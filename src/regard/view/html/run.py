"""A run as one HTML file: whole if it is small, else the strongest of it and its maps."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.ask import Why, lens_info, predictions_info
from regard.run import Run
from regard.run.atlas import block_sizes, blocks, small_map
from regard.run.info import finite, run_info, stages, unknown_words
from regard.run.rollout import has_rollout
from regard.view.html.flow import packed_flow
from regard.view.html.page import Part, beginning, frame, page, room_for_parts
from regard.view.names import model_name

LIMIT = 24_000_000  # bytes of a page, unless another is asked for
_NOTEBOOK = 4_000_000  # of one in a notebook, which keeps all that it shows
_WHOLE = 5_000_000  # weights that a page may hold one by one
_HIDDEN_STATES = 2_500_000  # numbers of hidden states
_SIXTEEN = 65535
_NO_ROOM = "The hidden states of so many tokens have no room in this file."


def run_page(
    run: Run,
    limit: int = LIMIT,
    name: str | None = None,
    layer: int | str | None = None,
    *,
    lens: bool = False,
    why: Why | None = None,
) -> str:
    """The page, of at most about `limit` bytes; `name` is the model's, if it has a better one.

    With a `layer` it has the whole pass, too, and the steps of the heads of that layer; with `lens`
    what the model would predict after each of its layers; with `why` where a logit comes from.
    """
    if not run.layers:
        raise ValueError(
            "html(): the run must have seen a layer; it has none. run.unseen and run.notes say why."
        )
    packing = _Packing(run, limit)
    info = packing.info()
    info["lens"] = lens_info(run) if lens else None
    info["why"] = None if why is None else finite(why.info())
    title = model_name(run) if name is None else name
    if isinstance(run.text, str) and run.text:
        title += ": " + beginning(run.text)
    n_tokens = max(layer["keys"] for layer in info["layers"])
    subtitle = f"{len(info['layers'])} layers, {len(info['heads'])} heads, {n_tokens:,} tokens. "
    content, parts = {"info": info}, packing.parts
    if layer is not None:
        content["flow"], more = packed_flow(run.flow(layer), packing.left)
        parts |= more
    return page("run", title, subtitle + "Where did each head look?", content, parts)


def run_frame(run: Run) -> str:
    """A run in the cell of a notebook; a sentence if there is nothing to show.

    >>> run_frame(Run(model="a < b"))
    '<p>Run(&#x27;a &lt; b&#x27;: 0 layers, 0 heads, 0 tokens): no attention was seen.</p>'
    """
    if not run.layers:
        return f"<p>{escape(repr(run))}: no attention was seen.</p>"
    return frame(run_page(run, limit=_NOTEBOOK))


class _Packing:
    """What goes into the page, and what is said about it."""

    def __init__(self, run: Run, limit: int) -> None:
        self.run, self.layers = run, list(run.layers.values())
        texts = run.tokens and [[token.text for token in one] for one in run.tokens]
        self.room = room_for_parts(limit, texts)  # bytes of all parts
        self.parts: dict[str, Part] = {}
        self.notes: list[str] = []

    def info(self) -> dict[str, Any]:
        whole = self._put_whole()
        top = 8 if whole else self._put_links()
        for n, layer in enumerate(self.layers):
            picture = small_map(layer)
            if picture is not None:
                self.parts[f"map-{n}"] = Part.of(_sixteen(picture))
        stages = self._put_hidden_states()
        level = 0 if whole else self._put_level()
        return {
            **run_info(self.run),
            "notes": [
                *unknown_words(self.run),
                *self.run.notes,
                *self.run.unseen,
                *self.notes,
            ],
            "whole": whole,
            "top": top,
            "bits": 16,
            "level": level,
            "reduces": ["mean", "max"] if whole else [] if level is None else ["mean"],
            "rollout": whole and has_rollout(self.run),
            "stages": stages,
            "no_stages": _NO_ROOM if _NO_ROOM in self.notes else "",
            "predictions": predictions_info(self.run),
        }

    def _size(self) -> int:
        return sum(len(part.packed) for part in self.parts.values())

    @property
    def left(self) -> int:
        """The bytes that there is room for besides."""
        return self.room - self._size()

    def _put_whole(self) -> bool:
        """Every weight, if they are few and can be had."""
        few = sum(math.prod(layer.shape) for layer in self.layers) <= _WHOLE
        if not few or not all(layer.has_weights for layer in self.layers):
            return False
        for n, layer in enumerate(self.layers):
            self.parts[f"weights-{n}"] = Part.of(_sixteen(layer.weights()))
        if self._size() <= self.room:
            return True
        self.parts.clear()
        return False

    def _put_links(self) -> int:
        """The strongest keys of each query, as many as most of the page has room for."""
        kept = [
            (layer.top_keys, layer.top_weights)
            for layer in self.layers
            if layer.top_keys is not None and layer.top_weights is not None
        ]
        if len(kept) < len(self.layers):
            self.notes.append(
                "The strongest weights of each query were not recorded: "
                "See(top=8), or q and k of a short text, would bring links and shades."
            )
            return 0
        room = self.room * 0.75  # the rest is for pictures
        top = min(keys.shape[3] for keys, _ in kept)
        while top > 0:
            for n, (keys, weights) in enumerate(kept):
                numbers = keys[..., :top].cpu().numpy()
                if self.layers[n].shape[3] < _SIXTEEN:
                    numbers = np.where(numbers < 0, _SIXTEEN, numbers).astype(np.uint16)
                else:
                    numbers = numbers.astype(np.int32)
                self.parts[f"link-keys-{n}"] = Part.of(numbers)
                self.parts[f"link-weights-{n}"] = Part.of(_sixteen(weights[..., :top]))
            if self._size() <= room or top == 1:
                break
            # What is left out are the weakest, so the rest packs about as well as it did.
            top = max(1, min(top - 1, int(top * room / self._size())))
        return top

    def _put_level(self) -> int | None:
        """The finest level of every head's picture for which there is room; None: there is none."""
        if not all(layer.has_weights for layer in self.layers):
            self.notes.append("The atlas needs q and k: regard.watch(…, keep=('q', 'k')).")
            return None
        # A cell takes as much room as in the small maps, which are of the same weights.
        maps = [part for name, part in self.parts.items() if name.startswith("map-")]
        cells = sum(math.prod(part.shape) for part in maps)
        of_a_cell = 1.1 * sum(len(part.packed) for part in maps) / cells if cells else 3.0
        longest = max(max(layer.shape[2:]) for layer in self.layers)
        level = max(0, math.ceil(math.log2(longest / 512)))
        while longest >> level >= 8:
            cells = sum(
                math.prod(layer.shape[:2]) * math.prod(-(-n >> level) for n in layer.shape[2:])
                for layer in self.layers
            )
            if cells * of_a_cell <= self.left:
                break
            level += 1
        else:
            return None
        for n, layer in enumerate(self.layers):
            rows, columns = (-(-size >> level) for size in layer.shape[2:])
            picture = blocks(layer, None, level, (0, rows), (0, columns))
            wide = block_sizes(layer.shape[3], level, 0, columns)
            self.parts[f"level-mean-{n}"] = Part.of(_sixteen(picture * wide.to(picture)))
        return level

    def _put_hidden_states(self) -> list[str] | None:
        """Each token at each stage, (B, N, stages, width), where that was kept and is little."""
        kept = stages(self.run)
        if not kept:
            return None
        if sum(x.numel() for x in kept.values()) <= _HIDDEN_STATES:
            stacked = torch.stack(list(kept.values()), dim=2).float()
            part = Part.of(stacked.cpu().numpy())
            if len(part.packed) <= self.left:
                self.parts["hidden_states"] = part
                return list(kept)
        self.notes.append(_NO_ROOM)
        return None


def _sixteen(weights: Tensor) -> NDArray[np.uint16]:
    """Weights from 0 to 1 as whole numbers from 0 to 65,535; what is no number as 0."""
    numbers = torch.nan_to_num(weights.detach().double().cpu(), nan=0.0).clamp_(0.0, 1.0)
    return (numbers * _SIXTEEN).round_().numpy().astype(np.uint16)
