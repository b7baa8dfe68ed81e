"""A stretch of text as it is meant, each character with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.written.figures import Figure, read_figure

__all__ = ["Piece", "joined"]


@dataclass(frozen=True)
class Piece:
    """`text`, and for each of its characters where it stands in the source."""

    text: str
    at: Sequence[int]

    @classmethod
    def whole(cls, text: str) -> Piece:
        return cls(text, range(len(text)))

    def cut(self, start: int, end: int) -> Piece:
        return Piece(self.text[start:end], self.at[start:end])

    @cached_property
    def start(self) -> int:
        return self.at[0] if len(self.at) else 0

    def lines(self) -> Iterator[Piece]:
        """Its lines, each with its line break."""
        for match in re.finditer(r"[^\n]*\n|[^\n]+$", self.text):
            yield self.cut(*match.span())

    def stripped(self, characters: str | None = None) -> Piece:
        left = len(self.text) - len(self.text.lstrip(characters))
        return self.cut(left, max(left, len(self.text.rstrip(characters))))

    def replaced(
        self, pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str]
    ) -> Piece:
        """With each match replaced; what is new stands where the match stood.

        >>> Piece.whole("a&lt;b").replaced(re.compile("&lt;"), "<")
        Piece(text='a<b', at=[0, 1, 5])
        """
        parts: list[str] = []
        at: list[int] = []
        end = 0
        for match in pattern.finditer(self.text):
            text = new if isinstance(new, str) else new(match)
            if text == match[0]:
                continue
            parts += [self.text[end : match.start()], text]
            at += self.at[end : match.start()]
            # Of equal length: character by character; else from where the match starts.
            same = len(text) == len(match[0])
            at += (
                self.at[match.start() : match.end()]
                if same
                else [self.at[min(match.start() + k, match.end() - 1)] for k in range(len(text))]
            )
            end = match.end()
        if not parts:
            return self
        return Piece("".join([*parts, self.text[end:]]), [*at, *self.at[end:]])

    def figure(self, start: int, end: int, *, decimal_comma: bool = False) -> Figure:
        """The number that is printed from `start` to `end`. Raises ValueError if there is none."""
        read = read_figure(self.text[start:end], start, decimal_comma=decimal_comma)
        first, last = self.at[read.start], self.at[read.end - 1]
        return Figure(read.text, first, read.value, read.unit, stop=last + 1)


def joined(pieces: Sequence[Piece]) -> Piece:
    at: list[int] = []
    for piece in pieces:
        at += piece.at
    return Piece("".join(piece.text for piece in pieces), at)
