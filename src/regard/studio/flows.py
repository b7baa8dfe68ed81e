"""Flows for the studio's pages: which there are, and what each is asked, here or of a model."""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from regard.studio.explain import explain
from regard.studio.flowing import answer
from regard.studio.question import Question

if TYPE_CHECKING:
    from regard._flow import Flow
    from regard.models import Choice
    from regard.studio.jobs import Job
    from regard.studio.reading import Models

_MOST_KNOWN = 200  # flows whose origin is remembered
_MOST_CELLS = 65_536  # of one question
_MOST_TEXT = 100_000  # characters


class NoSuchFlow(ValueError):
    """A flow was asked for that is not there, or not any more."""


class Flows:
    """Flows by an id. One of attention alone is here; one of a model is known by what it was made
    from, and lives in the process that reads texts, where it is opened anew if it was closed.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._known: OrderedDict[str, Flow | dict[str, Any]] = OrderedDict()
        self._outlines: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def of_numbers(self, asked: Question) -> dict[str, Any]:
        """Open the flow of an example, of numbers, or of a text with random ones; its trace is
        all that a page needs.
        """
        from regard._trace import Trace

        made = explain(asked)
        flow = Trace.from_json(json.dumps(made)).flow()
        return {"id": self._add(flow, flow.outline), "outline": flow.outline, "trace": made}

    def of_text(self, origin: dict[str, Any], job: Job) -> str:
        """Open the flow of a text through a model; its id."""
        origin = {"ablate": {}, "layer": 0, "changes": [], **origin}
        outline = self._models.ask_flow(origin, "outline", {}, job)
        outline["note"] = " ".join(filter(None, (origin.get("why"), outline["note"])))
        return self._add(origin, outline)

    def _add(self, what: Any, outline: dict[str, Any]) -> str:
        name = secrets.token_hex(8)
        with self._lock:
            self._known[name], self._outlines[name] = what, outline
            while len(self._known) > _MOST_KNOWN:
                del self._outlines[self._known.popitem(last=False)[0]]
        return name

    def outline(self, name: str) -> dict[str, Any]:
        self._get(name)
        return self._outlines[name]

    def _get(self, name: str) -> Flow | dict[str, Any]:
        with self._lock:
            if name not in self._known:
                raise NoSuchFlow("This flow is not here any more. Open it once more.")
            self._known.move_to_end(name)
            return self._known[name]

    def ask(self, name: str, question: str, given: dict[str, Any]) -> Any:
        """The answer to a question, by its name and what it is given."""
        found = self._get(name)
        if question == "cells":
            sides = (
                given["end_row"] - given["first_row"],
                given["end_column"] - given["first_column"],
            )
            if min(sides) > 0 and sides[0] * sides[1] > _MOST_CELLS:
                raise ValueError(f"At most {_MOST_CELLS:,} cells can be asked for at once.")
        if isinstance(found, dict):
            return self._models.ask_flow(found, question, given, None)
        return answer(found, question, given)

    def changed(self, name: str, asked: Question) -> dict[str, Any]:
        """Another flow: the first pass with these changes, and no others."""
        from regard._flow.changes import read_changes

        found, changes = self._get(name), asked.get("changes")
        read_changes(changes)
        if isinstance(found, dict):
            origin = {**found, "changes": changes}
            outline = self._models.ask_flow(origin, "outline", {}, None)
            return {"id": self._add(origin, outline), "outline": outline}
        flow = found.changed(changes if isinstance(changes, list) else [])
        return {"id": self._add(flow, flow.outline), "outline": flow.outline}


def read_text(asked: Question, refusal: str) -> str:
    """A text that is short enough for a flow."""
    return asked.text("text", refusal, most=_MOST_TEXT)


def choose(asked: Question) -> Choice:
    """Which model reads a sentence of the reader's own."""
    from regard.models import model_for

    return model_for(read_text(asked, "Write a sentence, or choose an example."))
