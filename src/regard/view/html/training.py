"""A training as one HTML file: its curves, and how attention formed, head by head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.view.html.page import Part, page, room_for_parts

LIMIT = 10_000_000  # bytes of a page


def training_page(
    document: Mapping[str, Any],
    weights: Mapping[str, NDArray[np.float16]],
    language: str = "en",
    limit: int = LIMIT,
) -> str:
    """The page, of at most about `limit` bytes: the chosen heads first, then all for which there is
    room, each a part with the bits of its weights (pictures, queries, keys).
    """
    arrays = list(weights.values())
    every = [(layer, head) for layer, x in enumerate(arrays) for head in range(x.shape[1])]
    wanted = [tuple(each) for each in document["chosen"]]
    wanted += [each for each in every if each not in wanted]
    room, parts, held = room_for_parts(limit, document), dict[str, Part](), list[list[int]]()
    for layer, head in wanted:
        part = Part.of(arrays[layer][:, head].astype(np.float16).view(np.uint16))
        room -= len(part.packed)
        if room < 0:
            break
        parts[f"head-{layer}-{head}"] = part
        held.append([layer, head])
    content = {"training": {**document, "held": sorted(held)}}
    return page("training", document["name"], "", content, parts, language)
