"""transformers without its own progress bars and reports: what matters is raised or noted here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

__all__ = ["quiet"]

# What transformers says belongs to the process: of several threads that silence it, the first
# finds how it was, and the last puts that back.
_lock = threading.RLock()
_users = 0
_before = (0, False)


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Silence transformers for a while; what it raises is raised as ever.

    >>> with quiet():
    ...     pass
    """
    from logging import CRITICAL

    from transformers.utils import logging

    global _users, _before
    with _lock:
        if not _users:
            _before = logging.get_verbosity(), logging.is_progress_bar_enabled()
        _users += 1
        logging.set_verbosity(CRITICAL)
        logging.disable_progress_bar()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                level, bars = _before
                logging.set_verbosity(level)
                if bars:
                    logging.enable_progress_bar()
