"""`RunError`: a folder is no run, or a damaged one."""

from __future__ import annotations

__all__ = ["RunError"]


class RunError(ValueError):
    """A run could not be read or written. The message names the file, and what to do.

    >>> issubclass(RunError, ValueError)
    True
    """
