"""A picture of lines of text: one SVG file that needs no font, no script and no network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.view.labels import fit, most_cells

_CELL, _LINE, _SIZE, _MARGIN = 8.4, 19, 14, 16
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

_STYLES = f"""
    svg {{ --page: #ffffff; --ink: #1f2328; --faint: #59636e; --edge: #d1d9e0;
      --red: #b3261e; --yellow: #8a5a00; --cyan: #006a80; }}
    @media (prefers-color-scheme: dark) {{
      svg {{ --page: #0d1117; --ink: #e6edf3; --faint: #9198a1; --edge: #3d444d;
        --red: #ff8a80; --yellow: #e3b341; --cyan: #56d4e8; }}
    }}
    text {{ font: {_SIZE}px {_FONTS}; fill: #1f2328; fill: var(--ink); white-space: pre; }}
    .page {{ fill: #ffffff; fill: var(--page); stroke: #d1d9e0; stroke: var(--edge); }}
    .dim {{ fill: #59636e; fill: var(--faint); }}
    .red {{ fill: #b3261e; fill: var(--red); }}
    .yellow {{ fill: #8a5a00; fill: var(--yellow); }}
    .cyan {{ fill: #006a80; fill: var(--cyan); }}
    .bold {{ font-weight: bold; }}
    .italic {{ font-style: italic; }}
    .underline {{ text-decoration: underline; }}
"""
_NAMED = ("red", "yellow", "cyan")  # the terminal's own colours that the views use


def picture(lines: Sequence[Text], width: int, title: str) -> str:
    """The lines as an SVG picture of `width` cells, under a first line that shows `title`.

    Every piece of text is given its place and its length, so that columns stay aligned in any
    font. Light or dark follows the reader's system.

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
        f"  <style>{_STYLES}  </style>",
        f'  <rect class="page" x="0.5" y="0.5" width="{across - 1}" height="{down - 1}" rx="8"/>',
    ]
    console = Console(width=width, color_system="truecolor")
    for number, line in enumerate(drawn):
        parts += _line(line, _MARGIN + number * _LINE, console)
    return "\n".join([*parts, "</svg>", ""])


def _line(line: Text, top: int, console: Console) -> Iterator[str]:
    """Backgrounds first, a run of one colour in one piece; then the text over them."""
    cells = 0
    shades: list[tuple[str, int, int]] = []  # colour, first cell, number of cells
    texts: list[str] = []
    for segment in Text.assemble(line).render(console):
        style = segment.style or Style()
        length = segment.cell_length
        if style.bgcolor is not None and style.bgcolor.triplet is not None:
            colour = style.bgcolor.triplet.hex
            if shades and (shades[-1][0], sum(shades[-1][1:])) == (colour, cells):
                shades[-1] = (colour, shades[-1][1], shades[-1][2] + length)
            else:
                shades.append((colour, cells, length))
        for match in re.finditer(r"\S+(?: \S+)*", segment.text):
            start = cells + cell_len(segment.text[: match.start()])
            texts.append(_piece(match.group(), start, top, style))
        cells += length
    for colour, first, length in shades:
        size = f'width="{_number(length * _CELL)}" height="{_LINE}"'
        yield f'  <rect x="{_x(first)}" y="{top}" {size} fill="{colour}"/>'
    yield from texts


def _piece(text: str, start: int, top: int, style: Style) -> str:
    names = [name for name in ("dim", "bold", "italic", "underline") if getattr(style, name)]
    if style.color is not None and style.color.name in _NAMED:
        names.append(style.color.name)
    attributes = f' class="{" ".join(names)}"' if names else ""
    if style.color is not None and style.color.triplet is not None:
        attributes += f' style="fill: {style.color.triplet.hex}"'
    length = _number(most_cells(text) * _CELL)
    # Glyphs are stretched, not set apart: joined letters stay joined.
    return (
        f'  <text x="{_x(start)}" y="{top + 14}" textLength="{length}" '
        f'lengthAdjust="spacingAndGlyphs"{attributes}>{escape(text, quote=False)}</text>'
    )


def _x(cells: int) -> str:
    return _number(_MARGIN + cells * _CELL)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
