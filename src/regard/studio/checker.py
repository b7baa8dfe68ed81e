"""`check` in a process of its own, which ends at a limit of time.

A regular expression holds the interpreter while it searches: in a thread of the studio it would
keep every page waiting, and nothing could stop it. Run as a program, this file is that process: it
reads one question a line, and answers each in one line. The system ends it by an alarm when one
takes too long, and when the studio is gone there is nothing more to read.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
from typing import IO, Any

__all__ = ["Checker", "limit"]

_SECONDS = 10.0
_PATIENCE = 1.0  # seconds that a text waits for the one before


def limit() -> float:
    """The seconds that a text may take: REGARD_CHECK_SECONDS, or 10.

    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, {"REGARD_CHECK_SECONDS": "60"}):
    ...     limit()
    60.0
    """
    given = os.environ.get("REGARD_CHECK_SECONDS", "")
    try:
        seconds = float(given or _SECONDS)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 1e6:
        raise ValueError(f"REGARD_CHECK_SECONDS must be a number of seconds; got {given!r}.")
    return seconds


class Checker:
    """Has texts checked, one at a time. The process is started by the first, and kept."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def check(self, text: str, name: str) -> dict[str, Any]:
        """What `answer` makes of a text. Raises ValueError, also when that takes too long."""
        seconds = limit()
        if not self._lock.acquire(timeout=_PATIENCE):
            raise ValueError("Another text is being checked. Try again when that is done.")
        try:
            found = self._ask(json.dumps({"text": text, "name": name, "seconds": seconds}))
        finally:
            self._lock.release()
        if found is None:
            raise ValueError(
                f"This text takes more than {seconds:g} seconds to read. Shorten it, or start the "
                "studio with a larger REGARD_CHECK_SECONDS."
            )
        if "error" in found:
            raise ValueError(found["error"])
        return found

    def _ask(self, question: str) -> dict[str, Any] | None:
        """The answer; None if the process was ended by its alarm."""
        process = self._process
        if process is None or process.poll() is not None:
            # -P: nothing of the folder that the studio was started in is ever imported.
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="ascii",
                start_new_session=True,  # Ctrl-C is for the studio alone
            )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(question, file=process.stdin, flush=True)
            answer = process.stdout.readline()
        except OSError:  # it ended before it had read all of it
            answer = ""
        if answer:
            return json.loads(answer)
        self.close()
        if process.returncode != -signal.SIGALRM:
            raise RuntimeError(f"check() ended with {process.returncode} in its own process.")
        return None

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with (
                contextlib.suppress(OSError),
                process,
            ):  # its pipes are closed, and it is waited for
                pass


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


def _serve(questions: IO[str]) -> None:
    for line in questions:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, asked.pop("seconds"))
        said = json.dumps(answer(**asked))
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(said, flush=True)


if __name__ == "__main__":
    _serve(sys.stdin)
