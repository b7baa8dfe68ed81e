"""A run of an experiment as one HTML file: question, guess, verdict, charts and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.view.html.page import page


def lab_page(document: Mapping[str, Any]) -> str:
    """The page; it asks for a guess before it shows what came out."""
    content, language = {"lab": dict(document)}, document["language"]
    return page("lab", document["title"], document["claim"], content, language=language)
