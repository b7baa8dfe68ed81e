"""A picture of lines of text: one SVG file that needs no font, no script and no network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.view.colours import DARK, LIGHT, Colours
from regard.view.labels import fit, most_cells

_CELL, _LINE, _SIZE, _MARGIN = 8.4, 19, 14, 16
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_NAMED = ("red", "yellow", "cyan")  # the terminal's own colours that the views use
_CLASSES = ("dim", "bold", "italic", "underline")


def _rules(colours: Colours) -> str:
    named = " ".join(f".{name} {{ fill: {getattr(colours, name)}; }}" for name in _NAMED)
    page = f".page {{ fill: {colours.page}; stroke: {colours.edge}; }}"
    return f"text {{ fill: {colours.ink}; }} {page} .dim {{ fill: {colours.faint}; }} {named}"


_STYLES = f"""
    text {{ font: {_SIZE}px {_FONTS}; white-space: pre; }}
    {_rules(LIGHT)}
    @media (prefers-color-scheme: dark) {{ {_rules(DARK)} }}
    .bold {{ font-weight: bold; }}
    .italic {{ font-style: italic; }}
    .underline {{ text-decoration: underline; }}
"""


def picture(lines: Sequence[Text], width: int, title: str, told: str = "") -> str:
    """The lines as an SVG picture of `width` cells, under a first line that shows `title`.

    Every piece of text is given its place and its length, so that columns stay aligned in any
    font. Light or dark follows the reader's system. `told` says what is seen, for those who do not.

    >>> svg = picture([Text("love"), Text("phones", "bold")], 80, "regard explain")
    >>> svg.splitlines()[0][:4], "phones" in svg, "http" in svg.replace("http://www.w3.org", "")
    ('<svg', True, False)
    """
    title = fit(title, width - 2)
    drawn = [Text.assemble(("$ ", "dim"), title), Text(), *lines]
    across = round(width * _CELL + 2 * _MARGIN)
    down = len(drawn) * _LINE + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {across} {down}" '
        f'width="{across}" height="{down}">',
        f"  <title>{escape(title)}</title>",
        *([f"  <desc>{escape(told, quote=False)}</desc>"] if told else []),
        f"  <style>{_STYLES}  </style>",
        f'  <rect class="page" x="0.5" y="0.5" width="{across - 1}" height="{down - 1}" rx="8"/>',
    ]
    console = Console(width=width, color_system="truecolor")
    for number, line in enumerate(drawn):
        parts += _line(line, _MARGIN + number * _LINE, console)
    return "\n".join([*parts, "</svg>", ""])


def _line(line: Text, top: int, console: Console) -> list[str]:
    """Backgrounds first, a run of one colour in one piece; then the text over them."""
    cells = 0
    shades: list[tuple[str, int, int]] = []  # colour, first cell, the cell after the last
    texts: list[str] = []
    for segment in Text.assemble(line).render(console):
        style = segment.style or Style()
        for match in re.finditer(r"\S+(?: \S+)*", segment.text):
            start = cells + cell_len(segment.text[: match.start()])
            texts.append(_piece(match.group(), start, top, style))
        end = cells + segment.cell_length
        if style.bgcolor is not None and style.bgcolor.triplet is not None:
            colour, first = style.bgcolor.triplet.hex, cells
            if shades and shades[-1][::2] == (colour, cells):
                first = shades.pop()[1]
            shades.append((colour, first, end))
        cells = end
    boxes = [
        f'  <rect x="{_number(_MARGIN + first * _CELL)}" y="{top}" '
        f'width="{_number((end - first) * _CELL)}" height="{_LINE}" fill="{colour}"/>'
        for colour, first, end in shades
    ]
    return boxes + texts


def _piece(text: str, start: int, top: int, style: Style) -> str:
    names = [name for name in _CLASSES if getattr(style, name)]
    attributes = ""
    if style.color is not None:
        names += [style.color.name] if style.color.name in _NAMED else []
        if style.color.triplet is not None:
            attributes = f' style="fill: {style.color.triplet.hex}"'
    if names:
        attributes = f' class="{" ".join(names)}"{attributes}'
    # Glyphs are stretched, not set apart: joined letters stay joined.
    return (
        f'  <text x="{_number(_MARGIN + start * _CELL)}" y="{top + 14}" '
        f'textLength="{_number(most_cells(text) * _CELL)}" '
        f'lengthAdjust="spacingAndGlyphs"{attributes}>{escape(text, quote=False)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
