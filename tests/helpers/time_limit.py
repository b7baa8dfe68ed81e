"""A limit to the time that something takes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator

__all__ = ["within"]


@contextlib.contextmanager
def within(seconds: int, what: str = "") -> Generator[None]:
    def stop(*_: object) -> None:
        raise AssertionError(f"took more than {seconds} s{f': {what!r}' if what else ''}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
