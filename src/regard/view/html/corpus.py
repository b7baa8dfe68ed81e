"""A corpus as one HTML file: all heads by a statistic, and the texts that show it most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.view.html.page import page


def corpus_page(document: Mapping[str, Any], language: str = "en") -> str:
    """The page, of what `regard.corpus.document.document_of` tells."""
    content = {"corpus": dict(document)}
    return page("corpus", document["name"], document["model"], content, language=language)
