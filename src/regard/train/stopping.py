"""Ctrl-C and SIGTERM while it trains: the step is finished and saved; a second one ends at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Generator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether somebody asked to stop, and how."""

    asked: str | None = None


@contextlib.contextmanager
def stopping() -> Generator[Stop]:
    """Inside the `with` signals are noted, not obeyed; elsewhere than in the main thread, never."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if stop.asked is not None:
            os._exit(128 + number)  # at once: what was saved before is whole
        stop.asked = signal.Signals(number).name

    before = {each: signal.signal(each, note) for each in _SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
