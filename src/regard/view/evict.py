"""What policies of forgetting came to, as a table in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from regard.view.lines import paragraph
from regard.view.table import table_lines


def render_evict(document: Mapping[str, Any], width: int = 80) -> list[Text]:
    """A line a policy, the full cache first.

    >>> score = {"policy": "Full", "keep": 1.0, "kept": 48, "bytes": 2**20, "loss": 2.5, "found": 5}
    >>> about = {"model": "smollm2", "prefix": 48, "continuation": 15, "needles": 5}
    >>> print(*render_evict({**about, "scores": [score]}), sep="\\n")
    smollm2: 48 tokens in the cache, the loss of 15 that follow, 5 needles
    <BLANKLINE>
    policy  keep  keys  MB  loss  worse by  needles
    Full       1    48   1   2.5         0  5 of 5
    """
    scores, needles = document["scores"], document["needles"]
    full = scores[0]["loss"]
    about = (
        f"{document['model']}: {document['prefix']:,} tokens in the cache, the loss of "
        f"{document['continuation']:,} that follow, {needles:,} needles"
    )
    columns = {
        "policy": [each["policy"] for each in scores],
        "keep": [each["keep"] for each in scores],
        "keys": [each["kept"] for each in scores],
        "MB": [round(each["bytes"] / 2**20, 1) for each in scores],
        "loss": [round(each["loss"], 3) for each in scores],
        "worse by": [round(each["loss"] - full, 3) for each in scores],
        "needles": [f"{each['found']} of {needles}" if needles else "–" for each in scores],
    }
    lines = table_lines(columns, list(columns.values()), width)
    return [*paragraph(about, width, indent=0), Text(), *lines]
