"""Pieces of lines that the views of a run share."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from regard.view.labels import fit, most_cells, visible

INDENT = 4
LABEL = 14  # cells of a token, at most
_LEAST = 6  # cells of a word that is cut to make room for its number


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


def counted(number: int, of: str) -> str:
    """How many there are.

    >>> counted(1, "token"), counted(1200, "token")
    ('1 token', '1,200 tokens')
    """
    return f"{number:,} {of}" if number == 1 else f"{number:,} {of}s"


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


def looks_told(looks: Iterable[tuple[str, float]], room: int, most: int = 3) -> str:
    """Tokens with their weights: the first of them, as many as there is room for.

    >>> looks_told([("it", 0.75), ("animal", 0.25)], 80), looks_told([("it", 0.75)], 6)
    ('it 0.75 · animal 0.25', 'nothing')
    """
    told = ""
    for label, weight in list(looks)[:most]:
        piece = f"{' · ' if told else ''}{fit_name(label, LABEL)} {weight:.2f}"
        if most_cells(told + piece) > room:
            break
        told += piece
    return told or "nothing"
