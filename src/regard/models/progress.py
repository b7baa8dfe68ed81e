"""A line on the standard error stream while something takes its time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator

__all__ = ["working"]


@contextlib.contextmanager
def working(what: str, progress: bool | None = None) -> Generator[None]:
    """Say what is being done, and for how long, until it is done; then the line goes away.

    `progress` None says it if the standard error stream is a terminal, True always (elsewhere as
    one plain line), False never.

    >>> with working("Counting to three", progress=False):
    ...     1 + 2
    3
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
