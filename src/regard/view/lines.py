"""Pieces of lines that the views share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text

from regard.view.labels import fit, fold, most_cells, pad, visible

if TYPE_CHECKING:
    from regard.run.heads import Head

INDENT = 4
LABEL = 14  # cells of a token, at most
_LEAST = 6  # cells of a word that is cut to make room for its number


def paragraph(text: str, width: int, indent: int = INDENT, style: str = "") -> list[Text]:
    """The text, made harmless, in lines of at most `width` cells that begin with `indent` blanks.

    >>> print(*paragraph("What each token offers to be found by.", 26), sep="\\n")
        What each token offers
        to be found by.
    """
    lines: list[str] = []
    for word in visible(text).split():
        if lines and most_cells(f"{lines[-1]} {word}") <= width - indent:
            lines[-1] += " " + word
        else:
            lines += fold(word, width - indent)
    return [Text(" " * indent + line, style) for line in lines]


def indented(lines: Iterable[Text]) -> list[Text]:
    """The lines behind the usual blanks."""
    return [Text(" " * INDENT).append_text(line) for line in lines]


def aligned(names: Iterable[str], *, right: bool = False) -> list[str]:
    """The names with blanks up to the width of the widest; `right` puts them before.

    >>> aligned(["it", "animal"]), aligned(["it", "animal"], right=True)
    (['it    ', 'animal'], ['    it', 'animal'])
    """
    names = list(names)
    widest = max(map(most_cells, names), default=0)
    return [pad(name, widest, right=right) for name in names]


def title_line(title: str, remark: str, width: int) -> Text:
    """A title, with a remark beside it if there is room.

    >>> print(title_line("Head 3.5", "a map", 20), title_line("Head 3.5", "a map", 10), sep="\\n")
    Head 3.5   a map
    Head 3.5
    """
    line = Text.assemble((title, "bold"))
    if most_cells(title) + most_cells(remark) + 3 <= width:
        line.append(f"   {remark}", "dim")
    return line


def fit_name(name: str, width: int) -> str:
    """A token's name in at most `width` cells: the word is cut, its number stays if it can.

    >>> fit_name("it#2", 5), fit_name("telephones#2", 9), fit_name("love#2", 5)
    ('it#2', 'teleph…#2', 'love')
    """
    word, mark, number = name.rpartition("#")
    if not word or not number.isdecimal() or most_cells(visible(name)) <= width:
        return fit(name, width)
    room = width - len(mark + number)
    return fit(word, room) + mark + number if room >= _LEAST else fit(word, width)


def some(length: int, parts: int) -> str:
    """How many there are in each part of so many.

    >>> some(6, 3), some(7, 3)
    ('2', '2 or 3')
    """
    low, high = length // parts, -(-length // parts)
    return f"{low:,}" if low == high else f"{low:,} or {high:,}"


def kind_told(head: Head) -> str:
    """What kind of head it is, and the share that says so, if there is one.

    >>> from regard.run.heads import Head
    >>> kind_told(Head(3, kind="broad", score=0.853))
    'broad 0.85'
    """
    return head.kind if head.score is None else f"{head.kind} {head.score:.2f}"
