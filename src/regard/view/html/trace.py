"""A trace as one HTML file: every step of it, and how each of its numbers came about."""

from __future__ import annotations

import json

from regard._trace import Trace
from regard.view.html.page import beginning, page


def trace_page(trace: Trace) -> str:
    """The page; it holds every number of the trace without loss.

    >>> from regard.worked import example
    >>> "<title>I love apple phones</title>" in trace_page(example("apple").trace())
    True
    """
    title = beginning(trace.title) or "Attention, step by step"
    return page("trace", title, trace.note, {"trace": json.loads(trace.to_json())})
