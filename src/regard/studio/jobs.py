"""What takes long: one thing at a time, with progress, and a way to stop it."""

from __future__ import annotations

import queue
import re
import secrets
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_MOST_WAITING = 3
_MOST_KEPT = 50
_NO_MEMORY = "There is not enough memory for that."


class Cancelled(Exception):
    """The reader does not want it any more."""


class Full(ValueError):
    """So much is waiting that nothing more is taken."""


def plain_words(error: BaseException) -> str:
    """What an error says to a reader, who never called the function that it names.

    >>> plain_words(ValueError("see(): text must have a token."))
    'text must have a token.'
    """
    said = re.sub(r"^[\w.]+\(\): ", "", str(error))
    out_of_memory = isinstance(error, MemoryError) or "DefaultCPUAllocator" in said
    return _NO_MEMORY if out_of_memory else said


def failure(error: Exception) -> str:
    """What went wrong; what nobody expected is printed as well, with where it happened."""
    said = plain_words(error)
    if isinstance(error, ValueError | ImportError) or said == _NO_MEMORY:
        return said
    traceback.print_exception(error)
    return f"That went wrong, and should not have: {type(error).__name__}: {said}"


@dataclass
class Job:
    """Something that is being done, or waits for it."""

    what: str
    work: Callable[[Job], Any] = field(repr=False)
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: str = "waiting"  # then "running", and one of "done", "failed", "cancelled"
    step: str = ""
    done: int = 0
    total: int = 0
    result: Any = None
    error: str = ""
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)

    def tell(self, step: str, done: int = 0, total: int = 0) -> None:
        """How far it is. Raises Cancelled if the reader has given up."""
        if self._stop.is_set():
            raise Cancelled
        self.step, self.done, self.total = step, done, total

    def cancel(self) -> None:
        self._stop.set()
        if self.state == "waiting":
            self.state = "cancelled"

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    def public(self) -> dict[str, Any]:
        """What a page may know of it."""
        names = ("id", "what", "state", "step", "done", "total", "result", "error")
        return {name: getattr(self, name) for name in names}


class Jobs:
    """A queue with one worker, which starts when there is something to do.

    >>> jobs = Jobs()
    >>> job = jobs.add("adding", lambda job: 1 + 2)
    >>> jobs.wait()
    >>> job.state, job.result
    ('done', 3)
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[Job] = queue.Queue()
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None

    def add(self, what: str, work: Callable[[Job], Any]) -> Job:
        """Have something done. Raises Full if too much is waiting."""
        with self._lock:
            waiting = [job for job in self._jobs.values() if job.state == "waiting"]
            if len(waiting) >= _MOST_WAITING:
                raise Full(f"{len(waiting)} things are waiting already. Cancel one, or wait.")
            for old in [job.id for job in self._jobs.values() if job.is_over][:-_MOST_KEPT]:
                del self._jobs[old]
            job = Job(what, work)
            self._jobs[job.id] = job
            if self._worker is None:
                self._worker = threading.Thread(target=self._run, daemon=True, name="regard-jobs")
                self._worker.start()
        self._queue.put(job)
        return job

    def get(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def wait(self) -> None:
        """Until all is over."""
        self._queue.join()

    def _run(self) -> None:
        while True:
            job = self._queue.get()
            try:
                if not job.is_over:
                    job.state = "running"
                    job.result = job.work(job)
                    job.state = "done"
            except Cancelled:
                job.state = "cancelled"
            except Exception as error:  # noqa: BLE001, as it is told to the reader
                job.error, job.state = failure(error), "failed"
            finally:
                self._queue.task_done()
