"""The lessons in their order, by language, and what their pages need beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from regard._arguments import shown
from regard.lab import LANGUAGES
from regard.learn.lesson import Lesson, read

LESSONS = ("why", "words", "roles", "scores", "softmax", "output", "heads", "models")


@cache
def lesson(name: str, language: str = "en") -> Lesson:
    """One lesson.

    >>> lesson("scores").title
    'Scores: how well does a key fit a query?'
    """
    if name not in LESSONS:
        raise ValueError(
            f"learn: there must be a lesson of that name ({', '.join(LESSONS)}); got {shown(name)}."
        )
    if language not in LANGUAGES:
        raise ValueError(
            f"learn: language must be one of {', '.join(LANGUAGES)}; got {shown(language)}."
        )
    file = files("regard.learn").joinpath("lessons", language, f"{name}.md")
    return read(name, file.read_text(encoding="utf-8"))


def lessons(language: str = "en") -> list[Lesson]:
    """All of them, in order."""
    return [lesson(name, language) for name in LESSONS]


def document(found: Lesson, measured: Mapping[str, Any], language: str = "en") -> dict[str, Any]:
    """A lesson as its page needs it: with the traces of its examples, what was measured of its
    experiments, and the titles of all lessons.
    """
    return {
        "name": found.name,
        "title": found.title,
        "language": language,
        "blocks": list(found.blocks),
        "traces": _traces(found),
        "measured": {name: measured[name] for name in experiments([found]) if name in measured},
        "lessons": [{"name": each.name, "title": each.title} for each in lessons(language)],
    }


def experiments(some: Sequence[Lesson]) -> list[str]:
    """The experiments that lessons speak of, once each."""
    return list(dict.fromkeys(name for each in some for name in each.uses("lab", "experiment")))


def _traces(found: Lesson) -> dict[str, Any]:
    from regard.worked import example

    names = dict.fromkeys(found.uses("flow", "example") + found.uses("steps", "example"))
    return {name: json.loads(example(name).trace().to_json()) for name in names}
