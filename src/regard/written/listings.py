"""Programs in Markdown: what stands in fences, and what it puts out in comments or right below.

`p = softmax(z)  # [0.67, 0.33]` tells how the numbers were made, as a cell of a notebook does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent

from regard.written.found import Value
from regard.written.programs import Shown

__all__ = ["listed_cells"]

_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)[ \t]*(\w*)")
_LANGUAGE = re.compile("python3?|py|ipython3?", re.IGNORECASE)
_PROGRAM = re.compile(r"(?m)^[A-Za-z_]\w*(?:, ?\w+)*[ \t]*=[^=]|^print\(")
_FAR = 80  # characters between a program and what it puts out


@dataclass(frozen=True)
class _Listing:
    """What stands between two fences, `start` to `end` in the text."""

    language: str
    start: int
    end: int


def listed_cells(text: str, values: list[Value]) -> list[Shown]:
    """The programs of a text in order, each with the values that it puts out."""
    arrays = [value for value in values if not value.is_number]
    starts = [value.start for value in arrays]
    listings = list(_listings(text))
    cells: list[Shown] = []
    last = 0  # where the last program ends
    ends = [*(listing.start for listing in listings[1:]), len(text)]
    for listing, following in zip(listings, ends, strict=False):
        code = text[listing.start : listing.end]
        inner = arrays[bisect_left(starts, listing.start) : bisect_left(starts, listing.end)]
        if _LANGUAGE.fullmatch(listing.language) or (
            not listing.language and _PROGRAM.search(code)
        ):
            cells.append(Shown(dedent(code)))
            cells[-1].beside = [
                (1 + code.count("\n", 0, at), value)
                for value in inner
                if "#" in code[code.rfind("\n", 0, at := value.start - listing.start) + 1 : at]
            ]
            last = listing.end
        elif cells and len(text[last : listing.start].strip()) <= _FAR:
            _output(cells[-1], inner)
        below = arrays[bisect_left(starts, listing.end) : bisect_left(starts, following)]
        if cells and last == listing.end:
            _output(cells[-1], [v for v in below if _is_indented(text[listing.end : v.start])])
    return cells


def _output(cell: Shown, values: list[Value]) -> None:
    (cell.printed if "print(" in cell.source else cell.displayed).extend(values)


def _is_indented(between: str) -> bool:
    """Whether all lines from a fence to a value are indented, as the output of notebooks is."""
    lines = between.split("\n")[1:]
    return len(lines) > 1 and all(not line.strip() or line.startswith("    ") for line in lines)


def _listings(text: str) -> Iterator[_Listing]:
    at, opened = 0, -1
    language = ""
    for line in text.splitlines(keepends=True):
        if fence := _FENCE.match(line):
            if opened < 0:
                opened, language = at + len(line), fence[1]
            else:
                yield _Listing(language, opened, at)
                opened = -1
        at += len(line)
