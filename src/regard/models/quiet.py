"""transformers without its own progress bars and reports: what matters is raised or noted here."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

__all__ = ["quiet"]


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Silence transformers for a while; what it raises is raised as ever.

    >>> with quiet():
    ...     pass
    """
    from logging import CRITICAL

    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
