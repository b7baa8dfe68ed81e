"""`check` in a process of its own, which is ended when a text takes too long.

A regular expression holds the interpreter while it searches: in a thread of the studio it would
keep every page waiting, and nothing could stop it.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

from regard.studio.places import Settings
from regard.studio.process import Teller, Worker


class Checker(Worker):
    """Has texts checked, one at a time."""

    def __init__(self, seconds: float = Settings.check_seconds) -> None:
        super().__init__(__name__)
        self._seconds = seconds

    def check(self, text: str, name: str, taken_as: dict[str, str] | None = None) -> dict[str, Any]:
        """What `answer` makes of a text. Raises ValueError, also when that takes too long."""
        late = (
            f"This text takes more than {self._seconds:g} seconds to read. Shorten it, or start "
            "the studio with regard studio --check-seconds S."
        )
        ended = "The process that read the text ended ({}): is there enough memory?"
        with self.lend() as process:
            question = {"text": text, "name": name, "taken_as": taken_as or {}}
            found = process.ask(question, self._seconds, late=late, ended=ended)
        if "error" in found:
            raise ValueError(found["error"])
        return found


def main(handle: int) -> None:
    """Answer what is asked, one text after the other."""
    teller = Teller(handle)
    importlib.import_module("regard.worked")  # which takes a while
    while True:
        teller.tell(answer(**teller.begin()))


def answer(text: str, name: str, taken_as: dict[str, str] | None = None) -> dict[str, Any]:
    """The report on a text as JSON, and the wrong places of the text; or what is wrong with it.

    >>> answer("no numbers", "text")
    {'error': 'There is nothing to check: no number that follows.'}
    """
    from regard.worked import Unreadable, check_text, fix_text
    from regard.written.names import SYMBOLS

    try:
        report = check_text(text, name, taken_as)
        nothing = not report.checked and not report.passed_over
        if nothing and report.questions[0].startswith("There is nothing to check: no"):
            return {"error": report.questions[0]}
        fixed = fix_text(report) if report.exit_code == 1 else None
    except Unreadable as error:
        return {"error": str(error)}
    marks = [
        {
            "start": cell.figure.start,
            "end": cell.figure.end,
            "name": cell.name,
            "line": cell.line,
            "right": cell.right_text,
            "first": cell.origin == "first",
            "cause": cell.cause,
        }
        for cell in report.wrong
    ]
    found = json.loads(report.to_json())
    kinds = list(dict.fromkeys(SYMBOLS.values()))
    own = {"text": report.source.text, "marks": marks, "fixed": fixed, "kinds": kinds}
    return {**found, **own}
