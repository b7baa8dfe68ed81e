"""`check` in a process of its own, which is ended when a text takes too long.

A regular expression holds the interpreter while it searches: in a thread of the studio it would
keep every page waiting, and nothing could stop it.
"""

from __future__ import annotations

import base64
import importlib
from typing import Any

from regard.studio.places import Settings
from regard.studio.process import Teller, Worker


class Checker(Worker):
    """Has texts checked, one at a time."""

    def __init__(self, seconds: float = Settings.check_seconds) -> None:
        super().__init__(__name__)
        self._seconds = seconds

    def text_of(self, slides: str, name: str) -> dict[str, Any]:
        """The text of a PDF or PPTX file, given in base64. Raises ValueError where it has none."""
        return self._ask({"slides": slides, "name": name})

    def check(
        self,
        text: str,
        name: str,
        taken_as: dict[str, str] | None = None,
        *,
        fix: bool = False,
    ) -> dict[str, Any]:
        """What `answer` makes of a text. Raises ValueError, also when that takes too long."""
        return self._ask({"text": text, "name": name, "taken_as": taken_as or {}, "fix": fix})

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        late = (
            f"This text takes more than {self._seconds:g} seconds to read. Shorten it, or check "
            "one part of it after the other."
        )
        ended = "The process that read the text ended ({}): is there enough memory?"
        with self.lend() as process:
            found = process.ask(question, self._seconds, late=late, ended=ended)
        if "error" in found:
            raise ValueError(found["error"])
        return found


def main(handle: int) -> None:
    """Answer what is asked, one text after the other."""
    teller = Teller(handle)
    importlib.import_module("regard.studio.checked")  # which takes a while
    while True:
        asked = teller.begin()
        teller.tell(text_of(**asked) if "slides" in asked else answer(**asked))


def text_of(slides: str, name: str) -> dict[str, Any]:
    """The text of a file of slides, or why there is none.

    >>> text_of("JVBERg==", "notes.pdf")["error"][:32]
    'notes.pdf: no PDF that can be re'
    """
    from regard.written.slides import is_slides, text_of_slides

    suffix = name[name.rfind(".") :].lower()
    if not is_slides(suffix):
        return {"error": f"{name} is neither PDF nor PPTX."}
    try:
        return {"text": text_of_slides(base64.b64decode(slides, validate=True), suffix)}
    except (ValueError, ImportError) as error:
        return {"error": f"{name}: {error}"}


def answer(text: str, name: str, taken_as: dict[str, str], *, fix: bool) -> dict[str, Any]:
    """What is found in a text, or the text put right and how that fares; or why it is not read.

    >>> answer("{", "notes.json", {}, fix=False)["error"][:23]
    'notes.json is not JSON:'
    """
    from regard.studio.checked import as_shown, in_the_page
    from regard.worked import Unreadable, check_text, fix_text

    try:
        report = check_text(text, name, taken_as)
        if not fix:
            return as_shown(report)
        fixed = fix_text(report)
        left = check_text(fixed, name, taken_as)
    except Unreadable as error:
        return {"error": in_the_page(str(error))}
    return {"fixed": fixed, "left": len(left.wrong) + left.wrong_claims}
