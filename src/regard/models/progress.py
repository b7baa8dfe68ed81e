"""What is shown while something takes its time: a line of ours, and nothing of transformers'."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Generator

# What transformers says belongs to the process: of several threads that silence it, the first
# finds how it was, and the last puts that back.
_lock = threading.RLock()
_users = 0
_before = (0, False)


@contextlib.contextmanager
def working(what: str, progress: bool | None = None) -> Generator[None]:
    """Say what is being done, and for how long, until it is done; then the line goes away.

    `progress` None says it if the standard error stream is a terminal, True always (elsewhere as
    one plain line), False never.
    """
    if progress is False:
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr, highlight=False)  # this one, even if it is redirected later
    if not console.is_terminal:
        if progress:
            console.print(f"{what} …", markup=False, soft_wrap=True)
        yield
        return
    text = TextColumn("{task.description}", markup=False)
    with Progress(
        SpinnerColumn(), text, TimeElapsedColumn(), console=console, transient=True
    ) as line:
        line.add_task(what, total=None)
        yield


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Silence the reports and progress bars of transformers; what it raises is raised as ever."""
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
