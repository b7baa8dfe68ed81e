"""`CheckpointError`: what is said when a folder cannot be trusted."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from dataclasses import dataclass, fields
from pathlib import Path

# What to do, where nothing more can be said.
COPY_FILE = "Copy the file again from where it came from."
COPY_FOLDER = "Copy the folder again, whole."
COPY_MODEL = "Copy the folder again, whole, and see that its config.json belongs to it."
DO_NOT_USE = "Do not use it: an honest one never looks like this."

_LONGEST_NAME = 120
_MOST_NAMES = 50


@dataclass(eq=False, repr=False)
class CheckpointError(ValueError):
    """A model folder that was refused: where, what was expected, what was found, what to do.

    >>> error = CheckpointError("model.safetensors", "be complete", "9 bytes", "Copy it again.")
    >>> print(error)
    load(): model.safetensors must be complete; got 9 bytes. Copy it again.
    >>> error.found
    '9 bytes'
    """

    file: str | Path
    expected: str
    found: str
    next_step: str
    tensor: str | None = None
    call: str = "load()"

    def __post_init__(self) -> None:
        self.file = str(self.file)
        super().__init__(*(getattr(self, each.name) for each in fields(self)))

    def __str__(self) -> str:
        place = plain(self.file, longest=10_000)
        if self.tensor is not None:
            place = f"tensor {plain(self.tensor)} in {place}"
        return f"{self.call}: {place} must {self.expected}; got {self.found}. {self.next_step}"


def plain(name: object, longest: int = _LONGEST_NAME) -> str:
    r"""A name that came from a file, fit to be printed: no control characters, not too long.

    >>> print(plain("encoder.weight"), plain("\x1b[2Jgone"), plain(""))
    encoder.weight \x1b[2Jgone ''
    """
    text = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(name)[: longest + 1]
    )
    return (text if len(text) <= longest else text[: longest - 1] + "…") or "''"


def listed(names: Iterable[object]) -> str:
    """Names in one line, in order; the first fifty of them."""
    ordered = sorted(map(str, names))
    shown = ", ".join(map(plain, ordered[:_MOST_NAMES]))
    more = len(ordered) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


@contextlib.contextmanager
def reading(path: Path) -> Generator[None]:
    """Raise CheckpointError for what the system does not let us read."""
    try:
        yield
    except OSError as error:
        found = str(error.strerror or error)
        raise CheckpointError(
            path, "be readable", found, "Check its permissions, and the disk."
        ) from error


@contextlib.contextmanager
def refusing(file: str | Path, expected: str, by: str, remedy: str) -> Generator[None]:
    """Raise CheckpointError for whatever a library raises about a file that came from elsewhere.

    That there is no memory or no time left says nothing about the file.
    """
    try:
        yield
    except (CheckpointError, MemoryError, TimeoutError):
        raise
    except BaseException as error:
        if not is_from_rust(error):
            raise
        text = plain(str(error).removesuffix("."), longest=500)
        found = f"{type(error).__name__} from {by}: {text}"
        raise CheckpointError(file, expected, found, remedy) from error


def is_from_rust(error: BaseException) -> bool:
    """Whether a library written in Rust raised it: an exception, or a panic, which is none."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
