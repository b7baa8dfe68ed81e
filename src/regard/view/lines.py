"""Pieces of lines that the views of a run share."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from regard.view.labels import fit, most_cells

__all__ = ["INDENT", "LABEL", "counted", "looks_told", "title_line"]

INDENT = 4
LABEL = 14  # cells of a token, at most


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


def looks_told(looks: Iterable[tuple[str, float]], room: int, most: int = 3) -> str:
    """Tokens with their weights: the first of them, as many as there is room for.

    >>> looks_told([("it", 0.75), ("animal", 0.25)], 80), looks_told([("it", 0.75)], 6)
    ('it 0.75 · animal 0.25', 'nothing')
    """
    told = ""
    for label, weight in list(looks)[:most]:
        piece = f"{' · ' if told else ''}{fit(label, LABEL)} {weight:.2f}"
        if most_cells(told + piece) > room:
            break
        told += piece
    return told or "nothing"
