"""`RunError`: a folder is no run, or a damaged one."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from regard._checkpoint.errors import CheckpointError

AGAIN = "Save the run again, or restore the folder."


class RunError(ValueError):
    """A run could not be read or written. The message names the file, and what to do."""


@contextlib.contextmanager
def refusing(call: str, remedy: str | None = None) -> Generator[None]:
    """What is refused of a file inside the `with`, as a RunError in the name of `call`."""
    try:
        yield
    except CheckpointError as error:
        raise RunError(
            f"{call}: {error.file} must {error.expected}; got {error.found}. "
            f"{remedy or error.next_step}"
        ) from None
