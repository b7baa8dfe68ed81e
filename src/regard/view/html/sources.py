"""Where an answer came from as one HTML file: a sentence is chosen, and its sources light up."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from regard.ask import Sources
from regard.view.html.page import beginning, page


def sources_page(found: Sources, language: str = "en") -> str:
    """The page of what `regard.ask.sources` found."""
    title = beginning(found.text[slice(*found.answer)])
    return page("sources", title, found.model, {"sources": sources_info(found)}, language=language)


def sources_info(found: Sources) -> dict[str, Any]:
    """What the element shows: `info`, and the text in pieces, each with the number of its source
    and of its sentence, as pages do not count characters as Python does.
    """
    info = found.info()
    del info["text"]
    edges = {0, len(found.text), *found.answer}
    for each in (*found.sources, *found.sentences):
        edges |= {each.start, each.end}
    order = sorted(edges)
    pieces: list[list[Any]] = []
    for start, end in pairwise(order):
        own = [n for n, each in enumerate(found.sources) if each.start <= start < each.end]
        said = [n for n, each in enumerate(found.sentences) if each.start <= start < each.end]
        pieces.append([found.text[start:end], own[0] if own else None, said[0] if said else None])
    return {**info, "pieces": pieces}
