"""HTML as passages: headings, paragraphs, tables and printed text, each letter with its place."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

from regard.written.piece import Piece, joined
from regard.written.scan import Passage, clean, scan

__all__ = ["read_html", "read_with_tables"]

_BLOCK = re.compile(
    "p|div|li|ul|ol|section|article|br|tr|blockquote|figure|figcaption|d[td]|pre|h[1-6]|table|body"
)
_TABLE = re.compile(r"<table\b(?:(?!</?table\b).)*</table\s*>", re.DOTALL | re.IGNORECASE)
_SKIPPED = frozenset(("script", "style", "svg", "head", "nav", "footer", "button", "annotation"))


def read_html(piece: Piece) -> list[Passage]:
    """The passages of a page, in order."""
    reader = _Reader(piece)
    tags = piece.text.rfind(">") + 1  # what is never closed takes the parser long
    reader.feed(piece.text[:tags] + piece.text[tags:].replace("<", " "))
    reader.close()
    reader.end_block()
    return reader.passages


def read_with_tables(piece: Piece) -> list[Passage]:
    """The passages of Markdown with tables of HTML in it."""
    passages: list[Passage] = []
    at = 0
    for table in _TABLE.finditer(piece.text):
        passages += scan(clean(piece.cut(at, table.start())))
        passages += read_html(piece.cut(*table.span()))
        at = table.end()
    return passages + scan(clean(piece.cut(at, len(piece.text))))


class _Reader(HTMLParser):
    def __init__(self, piece: Piece) -> None:
        super().__init__(convert_charrefs=False)
        self.piece, self.passages = piece, list[Passage]()
        self.parts: list[Piece] = []
        self.rows: list[list[Piece]] | None = None
        self.skipped = self.printed = 0
        self.raised = ""
        starts = [0, *(m.end() for m in re.finditer(r"\n", piece.text))]
        self.line_starts = starts

    def _at(self) -> int:
        line, column = self.getpos()
        return self.line_starts[line - 1] + column

    def _add(self, text: str, start: int, length: int) -> None:
        if self.skipped:
            return
        places = range(start, start + length)
        at = [self.piece.at[places[min(k, length - 1)]] for k in range(len(text))]
        part = Piece(text, at)
        if not self.printed:
            part = part.replaced(re.compile(r"\s+"), " ")
        self.parts.append(part)

    def handle_data(self, data: str) -> None:
        self._add(data, self._at(), len(data))

    def handle_entityref(self, name: str) -> None:
        self._add(unescape(f"&{name};")[:1], self._at(), len(name) + 2)

    def handle_charref(self, name: str) -> None:
        self._add(unescape(f"&#{name};")[:1], self._at(), len(name) + 3)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self.skipped += 1
        elif tag == "table":
            self.end_block()
            self.rows = []
        elif tag == "tr" and self.rows is not None:
            self.rows.append([])
        elif tag in ("td", "th") and self.rows is not None:
            self.parts = []
        elif tag == "br" and self.rows is None:
            self._add("\n", self._at(), 1)
        elif _BLOCK.fullmatch(tag) and self.rows is None:
            self.end_block()
            self.printed += tag == "pre"
        elif tag in ("sub", "sup"):
            self._add("_{" if tag == "sub" else "^{", self._at(), 1)

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED:
            self.skipped = max(0, self.skipped - 1)
        elif tag == "table" and self.rows is not None:
            rows, self.rows, self.parts = self.rows, None, []
            cells = [cell for row in rows for cell in row]
            if cells:
                self.passages.append(Passage(joined(cells), [row for row in rows if row]))
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append(clean(joined(self.parts)).stripped())
            self.parts = []
        elif tag in ("sub", "sup"):
            self._add("}", self._at(), 1)
        elif _BLOCK.fullmatch(tag) and self.rows is None:
            self.end_block(is_heading=bool(re.fullmatch(r"h[1-6]", tag)))
            self.printed = max(0, self.printed - (tag == "pre"))

    def end_block(self, *, is_heading: bool = False) -> None:
        """Close a paragraph; what is printed as it is may hold tables of its own."""
        piece = clean(joined(self.parts))
        self.parts = []
        if not piece.text.strip():
            return
        found = scan(piece) if not is_heading else [Passage(piece, is_heading=True)]
        self.passages += found
