"""A lesson of the course as one HTML file, with its examples and what was measured inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.view.html.page import page


def lesson_page(document: Mapping[str, Any]) -> str:
    """The page; lessons that stand beside it as `NAME.html` are linked."""
    content, language = {"lesson": dict(document)}, document["language"]
    return page("lesson", document["title"], "", content, language=language)
