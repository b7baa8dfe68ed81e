"""Experiments of the lab, for the studio: which there are, and the process that measures."""

from __future__ import annotations

import secrets
import threading
import warnings
from collections.abc import Callable
from typing import Any

from regard._wanted import asking
from regard.studio.jobs import Cancelled, Job, failure
from regard.studio.process import Ended, Teller, Worker, follow
from regard.studio.question import Question

_MOST_KEPT = 100
_STEPS = 1000  # of the progress that is told


class NoSuchResult(ValueError):
    """It was let go, or never was."""


class Experiments:
    """What can be measured, and what came out of the last runs, by their ids.

    The process that measures is kept for the next one; what is cancelled ends with it.
    """

    def __init__(self, closing: threading.Event) -> None:
        self._closing = closing
        self._worker = Worker(__name__)
        self._results: dict[str, dict[str, Any]] = {}

    def list(self, language: str = "en") -> list[dict[str, Any]]:
        """Every experiment with its texts, guesses and settings."""
        from regard.lab import NAMES, about, experiment

        return [about(experiment(name), language) for name in NAMES]

    def ask(self, asked: Question) -> tuple[str, Callable[[Job], str]]:
        """What a job is called and does. Raises ValueError in words if nothing can be measured."""
        from regard.lab import LANGUAGES, experiment

        found = experiment(asked.text("experiment", "Choose an experiment.", most=50))
        settings = asked.get("settings", {})
        if not isinstance(settings, dict) or len(settings) > 50:
            raise ValueError("settings must be an object of settings by their names.")
        false, quick = asked.flag("false", False), asked.flag("quick", False)
        question: dict[str, Any] = {
            "experiment": found.name,
            "settings": found.values(settings, quick=quick, false=false),
            "false": false,
            "quick": quick,
            "seed": asked.number("seed", 0, most=2**31 - 1),
            "language": asked.choice("language", LANGUAGES, "en"),
        }
        title = found.said("title").text(question["language"])
        return title, lambda job: self._measure(question, job)

    def result(self, name: str) -> dict[str, Any]:
        if name not in self._results:
            raise NoSuchResult("This run of the experiment is gone: measure once more.")
        return self._results[name]

    def _measure(self, question: dict[str, Any], job: Job) -> str:
        """Its id, once it is there."""
        try:
            with self._worker.lend() as process:
                process.tell(question)
                found = follow(process, job, self._closing)
        except Ended as error:
            raise ValueError(
                f"The process that measured ended ({error}): is there enough memory?"
            ) from None
        if "error" in found:
            raise ValueError(found["error"])
        if "document" not in found:
            raise Cancelled
        name = secrets.token_hex(8)
        self._results[name] = found["document"]
        for old in list(self._results)[:-_MOST_KEPT]:
            del self._results[old]
        return name


# ── in the process ────────────────────────────────────────────────────────────────────────────


def main(handle: int) -> None:
    """Measure until nobody asks any more."""
    teller = Teller(handle)

    def check() -> None:
        if teller.stop.is_set():
            raise Cancelled

    while True:
        asked = teller.hear()
        try:
            from regard.lab import Said, experiment
            from regard.lab.result import perform

            found = experiment(asked["experiment"])
            title = found.said("title").text(asked["language"])

            language = asked["language"]
            at = {"step": title, "done": 0, "total": _STEPS}

            def tell(share: float, at: dict[str, Any] = at) -> None:
                at["done"] = round(share * _STEPS)
                teller.tell(at)

            def say(said: Said | None, at: dict[str, Any] = at, language: str = language) -> None:
                teller.tell(at if said is None else {"step": said.text(language)})

            with warnings.catch_warnings(), asking(check):
                warnings.simplefilter("ignore")
                result = perform(
                    found,
                    asked["settings"],
                    seed=asked["seed"],
                    quick=asked["quick"],
                    is_false=asked["false"],
                    tell=tell,
                    say=say,
                )
            teller.tell({"document": result.document(asked["language"])})
        except Cancelled:
            teller.tell({"stopped": True})
        except Exception as error:  # noqa: BLE001, as it is told to the reader
            teller.tell({"error": failure(error)})
