"""A process of its own for what may take very long: told what to do, listened to, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from multiprocessing.connection import Connection, Pipe
from typing import Any, BinaryIO, ClassVar

from regard._wanted import still_wanted
from regard.studio.jobs import Cancelled, Job

Message = dict[str, Any]

_BEGUN: Message = {"begun": True}
_GRACE = 1.0  # in which a piece of work may be finished, so that the process need not be ended
_START = 60.0  # seconds that a process may take to start, which are not those of a question


class Ended(Exception):
    """The process is no more, though nobody ended it. Says how."""


class Process:
    """Runs `main` of a module of ours, which gets the number of its end of the line.

    Native code cannot be stopped from another thread, and a thread in it makes Python abort at the
    end; a process can be killed at any time. It has a session of its own, so that Ctrl-C in the
    terminal is ours to answer, and ends by itself when the line is cut.
    """

    alive: ClassVar[set[Process]] = set()

    def __init__(self, module: str) -> None:
        self._line, theirs = Pipe()
        # What can be imported here can be there; the folder it starts in adds nothing (-P).
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from {module} import main; main({theirs.fileno()})"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._ending = threading.RLock()
        Process.alive.add(self)

    def ask(self, question: Message, seconds: float, *, late: str, ended: str) -> Message:
        """Its answer, within so many seconds of when it began. Raises ValueError, which says that
        it is `late`, or how it has `ended`, and whatever `still_wanted` does.
        """
        end = time.monotonic() + _START
        try:
            self.tell(question)
            while time.monotonic() < end:
                still_wanted()
                found = self.hear(0.1)
                if found == _BEGUN:
                    end = time.monotonic() + seconds
                elif found is not None:
                    return found
        except Ended as error:
            raise ValueError(ended.format(error)) from None
        raise ValueError(late)

    def tell(self, message: Message) -> None:
        """Raises Ended."""
        try:
            self._line.send_bytes(json.dumps(message).encode())
        except OSError:
            raise self._ended() from None

    def hear(self, seconds: float) -> Message | None:
        """What it says next; None if it says nothing in that time. Raises Ended."""
        try:
            return json.loads(self._line.recv_bytes()) if self._line.poll(seconds) else None
        except (EOFError, OSError):
            raise self._ended() from None

    def _ended(self) -> Ended:
        code = self._process.wait()
        return Ended(f"signal {-code}" if code < 0 else f"code {code}")

    def end(self) -> None:
        """Whatever it does, and whatever it has started, such as a download.

        Whoever waits for it and the end of the studio may both ask for it at once.
        """
        with self._ending:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._line.close()
            Process.alive.discard(self)


def follow(
    process: Process,
    job: Job | None,
    closing: threading.Event,
    kept: Callable[[Message], bool] = lambda told: True,
) -> Message:
    """What comes of a question, told on its way to a job. Without one, `still_wanted` is asked.

    Raises Cancelled, or what `still_wanted` does, and the process is to be ended then; but if it
    stops in time and what it says is to be `kept`, that is the answer.
    """
    told: Message = {"step": ""}
    try:
        while not closing.is_set():
            if job is None:
                still_wanted()
            else:
                job.tell(**told)
            found = process.hear(0.1)
            if found and "step" not in found:
                return found
            told = found or told
    except Ended:
        raise
    except Exception:  # nobody wants it any more
        process.tell({"stop": True})
        while (found := process.hear(_GRACE)) and "step" in found:
            pass
        if found is not None and kept(found):
            return found
        raise
    raise Cancelled


class Worker:
    """Has a process of a module ready for the next question; `once`: a new one for each."""

    def __init__(self, module: str, *, once: bool = False) -> None:
        self._module, self._once = module, once
        self._ready: Process | None = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lend(self) -> Generator[Process]:
        """A process, for one question; it is ended if that goes wrong."""
        with self._lock:
            process, self._ready = self._ready or Process(self._module), None
        try:
            yield process
        except BaseException:
            process.end()
            raise
        with self._lock:
            if self._once or self._ready is not None:
                process.end()
                process = self._ready or Process(self._module)
            self._ready = process

    def close(self) -> None:
        """End the process, if there is one."""
        if self._ready is not None:
            self._ready.end()
            self._ready = None


@contextlib.contextmanager
def shared_file() -> Generator[tuple[BinaryIO, str]]:
    """A file in memory to write to, and its path, under which another process may open it."""
    with os.fdopen(os.memfd_create("regard"), "wb") as file:
        yield file, f"/proc/{os.getpid()}/fd/{file.fileno()}"


class Teller:
    """The line as the process itself has it. When nobody is at the other end, the process ends."""

    def __init__(self, handle: int) -> None:
        self._line = Connection(handle)
        self._heard: queue.Queue[Message] = queue.Queue()
        self.stop = threading.Event()  # what is being done is not wanted any more
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = json.loads(self._line.recv_bytes())
                if message.get("stop"):
                    self.stop.set()
                else:
                    self.stop.clear()  # which may have come too late for the one before
                    self._heard.put(message)
        os.killpg(0, signal.SIGKILL)  # at once, whatever the main thread is in

    def hear(self) -> Message:
        """The next thing to do, when it comes."""
        return self._heard.get()

    def begin(self) -> Message:
        """The same, for a process that is ready: from now on its time counts (`Process.ask`)."""
        asked = self.hear()
        self.tell(_BEGUN)
        return asked

    def tell(self, message: Message) -> None:
        try:
            self._line.send_bytes(json.dumps(message).encode())
        except OSError:
            os.killpg(0, signal.SIGKILL)
