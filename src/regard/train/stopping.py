"""Ctrl-C and SIGTERM while it trains: the step is finished and saved; a second one ends at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAID = "this step is finished and saved, then it ends; {} once more ends it at once"
_KEYS = {"SIGINT": "Ctrl-C"}


class Stop:
    """Whether somebody asked to stop, and how."""

    asked: str | None = None


@contextlib.contextmanager
def stopping(say: Callable[[str], None] = lambda text: None) -> Generator[Stop]:
    """Inside the `with` signals are noted, not obeyed; elsewhere than in the main thread, never.

    `say` is told of the first one, in a thread of its own: handlers have to wait until a call into
    PyTorch is back, which may take as long as a step.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if stop.asked is not None:
            os._exit(128 + number)  # at once: what was saved before is whole
        stop.asked = signal.Signals(number).name

    with _heard(say):
        before = {each: signal.signal(each, note) for each in _SIGNALS}
        try:
            yield stop
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


@contextlib.contextmanager
def _heard(say: Callable[[str], None]) -> Generator[None]:
    """Listen to signals beside the main thread: at the first `say` so, at the second one end."""
    here, there = socket.socketpair()
    there.setblocking(False)
    before = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)

    def listen() -> None:
        count = 0
        while numbers := here.recv(64):
            for number in numbers:
                if number not in _SIGNALS:
                    if before != -1:  # it is for who listened before
                        with contextlib.suppress(OSError):
                            os.write(before, bytes([number]))
                    continue
                count += 1
                if count > 1:
                    os._exit(128 + number)
                name = signal.Signals(number).name
                with contextlib.suppress(OSError, ValueError):  # nobody reads it
                    say(f"{name}: {_SAID.format(_KEYS.get(name, name))}")

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        there.close()
        listener.join()
        here.close()
