"""A stretch of text as it is meant, each character with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.written.figures import Figure, read_figure, usual_figure

__all__ = ["Piece", "joined"]


@dataclass(slots=True)
class Piece:
    """`text`, and for each of its characters where it stands in the source. Never changed."""

    text: str
    at: Sequence[int]

    @classmethod
    def whole(cls, text: str) -> Piece:
        return cls(text, range(len(text)))

    def cut(self, start: int, end: int) -> Piece:
        return Piece(self.text[start:end], self.at[start:end])

    @property
    def start(self) -> int:
        return self.at[0] if len(self.at) else 0

    def lines(self) -> Iterator[Piece]:
        """Its lines, each with its line break."""
        for match in re.finditer(r"[^\n]*\n|[^\n]+$", self.text):
            yield self.cut(*match.span())

    def stripped(self, characters: str | None = None) -> Piece:
        left = len(self.text) - len(self.text.lstrip(characters))
        right = max(left, len(self.text.rstrip(characters)))
        return self.cut(left, right) if left or right < len(self.text) else self

    def replaced(
        self, pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str]
    ) -> Piece:
        """With each match replaced; what is new stands where the match stood.

        >>> Piece.whole("a&lt;b").replaced(re.compile("&lt;"), "<")
        Piece(text='a<b', at=[0, 1, 5])
        """
        parts: list[str] = []
        at: list[int] = []
        end = placed = 0  # up to where the text is done, and the places
        for match in pattern.finditer(self.text):
            text = new if isinstance(new, str) else new(match)
            if text == match[0]:
                continue
            start = match.start()
            parts += [self.text[end:start], text]
            end = match.end()
            # Of equal length: character by character; else from where the match starts.
            if len(text) != end - start:
                at += self.at[placed:start]
                at += [self.at[min(start + k, end - 1)] for k in range(len(text))]
                placed = end
        if not parts:
            return self
        parts.append(self.text[end:])
        return Piece("".join(parts), [*at, *self.at[placed:]] if at or placed else self.at)

    def figure(self, start: int, end: int, *, decimal_comma: bool = False) -> Figure:
        """The number that is printed from `start` to `end`. Raises ValueError if there is none."""
        text = self.text[start:end]
        if usual := usual_figure(text, self.at[start], self.at[end - 1] + 1) if text else None:
            return usual
        read = read_figure(text, start, decimal_comma=decimal_comma)
        first, last = self.at[read.start], self.at[read.end - 1]
        return Figure(read.text, first, read.value, read.unit, stop=last + 1)


def joined(pieces: Sequence[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    at: list[int] = []
    for piece in pieces:
        at += piece.at
    return Piece("".join(piece.text for piece in pieces), at)
