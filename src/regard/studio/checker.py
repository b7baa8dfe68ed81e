"""`check` in a process of its own, which is ended when a text takes too long.

A regular expression holds the interpreter while it searches: in a thread of the studio it would
keep every page waiting, and nothing could stop it.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from regard._wanted import still_wanted
from regard.studio.process import Ended, Process, Teller

SECONDS = 10.0  # that a text may take; `regard studio --help` says how to have more


class Checker:
    """Has texts checked, one at a time. The process is started by the first, and kept."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: Process | None = None
        self._lock = threading.Lock()

    def check(self, text: str, name: str) -> dict[str, Any]:
        """What `answer` makes of a text. Raises ValueError, also when that takes too long."""
        with self._lock:
            found = self._ask({"text": text, "name": name})
        if "error" in found:
            raise ValueError(found["error"])
        return found

    def _ask(self, question: dict[str, str]) -> dict[str, Any]:
        process, self._process = self._process or Process(__name__), None
        found = None
        try:
            process.tell(question)
            end = time.monotonic() + self._seconds
            while found is None and time.monotonic() < end:
                still_wanted()
                found = process.hear(0.1)
        except Ended as error:
            raise RuntimeError(f"check() came to an end in its own process: {error}.") from None
        finally:
            if found is None:
                process.end()
            else:
                self._process = process
        if found is None:
            raise ValueError(
                f"This text takes more than {self._seconds:g} seconds to read. Shorten it, or "
                "start the studio with regard studio --check-seconds S."
            )
        return found

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.end()
            self._process = None


def main(handle: int) -> None:
    """Answer what is asked, one text after the other."""
    teller = Teller(handle)
    while True:
        teller.tell(answer(**teller.hear()))


def answer(text: str, name: str) -> dict[str, Any]:
    """The report on a text as JSON, and the wrong places of the text; or what is wrong with it.

    >>> answer("no numbers", "text")
    {'error': 'There is no matrix of numbers in text.'}
    """
    from regard.worked import Unreadable, check_text, fix_text

    try:
        report = check_text(text, name)
        fixed = fix_text(report) if report.exit_code == 1 else None
    except Unreadable as error:
        return {"error": str(error)}
    content = json.loads(report.to_json())
    content["text"] = report.source.text
    content["marks"] = [
        {
            "start": cell.figure.start,
            "end": cell.figure.end,
            "name": cell.name,
            "right": cell.right_text,
            "first": cell.origin == "first",
            "cause": cell.cause,
        }
        for cell in report.wrong
    ]
    content["fixed"] = fixed
    return content
