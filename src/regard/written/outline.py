"""What a place in a text is part of: its section, its example, its head, its exercise."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

from regard.written.found import Found
from regard.written.sentences import is_example, is_section
from regard.written.words import head_in

__all__ = ["Outline"]

Owner = TypeVar("Owner")


class Outline(Generic[Owner]):
    """The parts of a text by where they start; each ends where the next one starts."""

    def __init__(self, found: Found, first: Owner) -> None:
        self._sections = sorted(start for start, text in found.lines if is_section(text))
        self._examples = [start for start, text in found.lines if is_example(text)]
        self.n_examples = len(self._examples)
        heads = ((start, head_in(text)) for start, text in found.lines if found.is_prose)
        self._heads = [(start, head) for start, head in heads if head is not None]
        self._starts, self._owners = [0], [first]

    def section(self, offset: int) -> int:
        return bisect_right(self._sections, offset)

    def example(self, offset: int) -> int:
        """How many headings “Example N” stand above."""
        return bisect_right(self._examples, offset)

    def head(self, offset: int) -> int | None:
        """The head that the text last spoke of: what follows is of that head."""
        index = bisect_right(self._heads, offset, key=lambda mark: mark[0])
        return self._heads[index - 1][1] if index else None

    def owner(self, offset: int) -> Owner:
        return self._owners[bisect_right(self._starts, offset) - 1]

    def give(self, exercise: Owner, offset: int, *, to_section_end: bool) -> None:
        """Let the text from the start of a section on be an exercise's: all of it, or a section."""
        section = self.section(offset)
        start = self._sections[section - 1] if section else offset
        parts = [(start, exercise)]
        if to_section_end and section < len(self._sections):
            end = self._sections[section]
            parts.append((end, self.owner(end)))
        index = bisect_left(self._starts, start)
        self._starts[index:], self._owners[index:] = map(list, zip(*parts, strict=True))
