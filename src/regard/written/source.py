"""The text of a worked example: read safely from a file, with lines and columns."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.written.slides import is_slides, text_of_slides

__all__ = ["LIMIT", "Source", "Unreadable", "numbers", "read_source"]

LIMIT = 4 * 2**20  # bytes of JSON or TOML; prose takes longer to read
PROSE_LIMIT = 250_000  # characters: far more than any worked example


class Unreadable(ValueError):
    """The worked example cannot be read, or cannot be what it says. One line, for its author."""


@dataclass(frozen=True)
class Source:
    """A text and its name; `mark` is the byte-order mark that stood before it, if one did."""

    name: str
    text: str
    mark: str = ""

    @classmethod
    def of(cls, name: str, text: str) -> Source:
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        return cls(name, text[len(mark) :], mark)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(r"\n", self.text))]

    def line(self, offset: int) -> int:
        """The line of an offset, counted from 1."""
        return bisect.bisect_right(self._line_starts, offset)

    def line_at(self, offset: int) -> str:
        """The line that an offset is in."""
        start = self._line_starts[self.line(offset) - 1]
        return self.text[start : start + 1000].partition("\n")[0]

    def place(self, offset: int) -> str:
        """An offset in words: `line 12, column 5`."""
        line = self.line(offset)
        return f"line {line}, column {offset - self._line_starts[line - 1] + 1}"

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix.lower()


def numbers(count: int) -> str:
    """A count in words: `1 number`, `2 numbers`."""
    return "1 number" if count == 1 else f"{count} numbers"


def read_source(path: str | Path) -> Source:
    """The text of a file. Raises Unreadable if it is no text, or far too much of it."""
    path = Path(path)
    try:
        if path.is_dir():
            raise Unreadable(f"{path} is a folder; a file is needed.")
        with path.open("rb") as file:
            content = file.read(LIMIT + 1)
    except FileNotFoundError:
        raise Unreadable(f"There is no file {path}.") from None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(content) > LIMIT:
        raise Unreadable(
            f"{path} is larger than {LIMIT // 2**20} MB, which no worked example is: not read."
        )
    if is_slides(path.suffix.lower()):
        try:
            return Source.of(str(path), text_of_slides(content, path.suffix.lower()))
        except (ValueError, ImportError) as error:
            raise Unreadable(f"{path}: {error}") from None
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return Source.of(str(path), content.decode("utf-16", errors="replace"))
    if b"\0" in content:
        raise Unreadable(f"{path} is binary (it has a zero byte), not text.")
    try:
        return Source.of(str(path), content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}. "
            "Save it as UTF-8."
        ) from None
