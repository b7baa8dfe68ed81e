"""A trace as one HTML file: every step of it, and how each of its numbers came about."""

from __future__ import annotations

import json
from importlib.metadata import version

from regard._trace import Trace
from regard.view.html.page import page

_LONGEST = 90  # characters of a title


def trace_page(trace: Trace) -> str:
    """The page; it holds every number of the trace without loss.

    >>> from regard.worked import example
    >>> "<title>I love apple phones</title>" in trace_page(example("apple").trace())
    True
    """
    title = _beginning(trace.title) or "Attention, step by step"
    content = {
        "kind": "trace",
        "version": 1,
        "made": version("regard"),
        "title": title,
        "subtitle": trace.note,
        "trace": json.loads(trace.to_json()),
    }
    return page(title, content)


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else words[:_LONGEST].rsplit(" ", 1)[0] + " …"
