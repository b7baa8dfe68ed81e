"""Whether what is being computed is still wanted, asked between pieces of work."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("regard-wanted", default=None)


@contextmanager
def asking(check: Callable[[], None]) -> Generator[None]:
    """Inside the `with`, work that takes long calls `check` now and then, which may raise.

    >>> with asking(lambda: print("go on")):
    ...     still_wanted()
    go on
    """
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def still_wanted() -> None:
    """To be called every tenth of a second or so: raises whatever shall end the work.

    >>> still_wanted()
    """
    check = _check.get()
    if check is not None:
        check()
