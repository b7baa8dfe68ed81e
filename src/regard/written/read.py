"""A document to what is found in it, whatever its format."""

from __future__ import annotations

import re

from regard.written.exponentials import by_exponentials
from regard.written.factors import mark_exact
from regard.written.figures import has_decimal_commas
from regard.written.found import Found, Value
from regard.written.labels import number_rows, under_each_name
from regard.written.listings import listed_cells
from regard.written.moments import by_moments
from regard.written.notebooks import is_notebook, read_notebook
from regard.written.piece import Piece
from regard.written.programs import equalities
from regard.written.read_structured import is_structured, read_structured
from regard.written.scan import Passage, clean, scan
from regard.written.source import PROSE_LIMIT, Source, Unreadable
from regard.written.statements import Sentence
from regard.written.symbols import by_symbols
from regard.written.tables import read_table
from regard.written.temperatures import at_temperatures

__all__ = ["read_document"]

_MOST_TITLES = 8
_PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html)\b", re.IGNORECASE)
_TOKENS = re.compile(
    r"\[(\s*+(?:(?:\"[^\"\n]*+\"|'[^'\n]*+'|“[^”\n]*+”|‘[^’\n]*+’)[\s,]*+)++)\\?\]"
)
_QUOTED = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|“([^”\n]*)”|‘([^’\n]*)’")


# UTF-8 that was read as Windows-1252: a first byte of two to four, then the others.
_MISREAD = re.compile(r"[\u00c2-\u00f4][^\x00-\x7f]{1,400}")


def read_document(source: Source) -> Found:
    """Everything that looks like a matrix, a vector, a list of tokens or an equation."""
    if not is_notebook(source) and is_structured(source):
        return read_structured(source)
    limit = PROSE_LIMIT * (8 if source.suffix in (".html", ".htm") else 1)  # most of it is markup
    if len(source.text) > limit and not is_notebook(source):
        raise Unreadable(
            f"{source.name} has over {limit:,} characters, which no worked example has: not read."
        )
    if is_notebook(source):
        try:
            passages, cells = read_notebook(source)
            found = _Reader(passages).read(passages)
            found.equations += equalities(cells)
            return found
        except (ValueError, AttributeError, RecursionError) as error:
            raise Unreadable(f"{source.name} is no notebook: {error}.") from None
    piece, remarks = _as_meant(Piece.whole(source.text))
    if source.suffix in (".html", ".htm") or _PAGE.match(source.text):
        from regard.written.html_pages import read_html  # which takes a while

        passages = read_html(piece)
    elif "<table" in source.text.casefold():
        from regard.written.html_pages import read_with_tables

        passages = read_with_tables(piece)
    else:
        passages = scan(clean(piece))
    found = _Reader(passages).read(passages)
    found.equations += equalities(listed_cells(source.text, found.values))
    pictures = re.findall(r"\(Page (\d+) has pictures: what", source.text)
    if pictures:
        remarks.append(f"Numbers in pictures were not read (pages {', '.join(pictures[:20])}).")
    found.remarks += remarks
    return found


def _as_meant(piece: Piece) -> tuple[Piece, list[str]]:
    """With letters that were decoded wrongly put right, and what is to be said of that."""
    remarks: list[str] = []
    runs = [m[0] for m in _MISREAD.finditer(piece.text)] if not piece.text.isascii() else []
    if sum(_decoded(run, "strict") is not None for run in runs) > len(runs) / 2:
        piece = piece.replaced(_MISREAD, lambda m: _decoded(m[0], "ignore") or m[0])
        remarks.append(
            "Letters of this file were decoded wrongly (UTF-8 read as Windows-1252): it was read "
            "as it was meant, as far as no bytes are lost."
        )
    if re.search(r"\\\\(?:begin|frac|sqrt|text|cdot)\b", piece.text):
        remarks.append("The backslashes of its LaTeX are doubled: read as single ones.")
    return piece, remarks


def _decoded(run: str, errors: str) -> str | None:
    """The letters that a run of misread bytes stands for; None if it cannot be such a run."""
    try:
        content = b"".join(c.encode("latin-1") if ord(c) < 256 else c.encode("cp1252") for c in run)
        return content.decode("utf-8", errors)
    except UnicodeError:
        return None


class _Reader:
    def __init__(self, passages: list[Passage]) -> None:
        self.found = Found()
        self.titles: list[str] = []  # the lines above, the nearest last
        text = "\n".join(passage.piece.text for passage in passages)
        self.decimal_comma = has_decimal_commas(text)
        self.found.lines = [
            (line.start, ("# " if passage.is_heading else "") + line.text.rstrip("\n"))
            for passage in passages
            for line in (passage.whole or passage.piece).lines()
        ]
        for match in _TOKENS.finditer(text):
            words = ["".join(quoted.groups("")) for quoted in _QUOTED.finditer(match[1])]
            self.found.tokens = self.found.tokens or words

    def read(self, passages: list[Passage]) -> Found:
        for passage in passages:
            known = len(self.found.values)
            if passage.rows:
                self._table(passage)
            else:
                self._text(passage.piece)
            for value in self.found.values[known:]:
                value.is_code = passage.is_code
                value.refine_units()
                if passage.shown is not None and not value.is_number:
                    passage.shown.append(value)
        self.found.equations += at_temperatures(self.found.values)
        self.found.equations += by_moments(self.found.values)
        self.found.equations += by_exponentials(self.found.values)
        self.found.equations += by_symbols(self.found.values)
        number_rows(self.found.values)
        mark_exact(self.found)
        return self.found

    def _table(self, passage: Passage) -> None:
        values, equations, problem = read_table(passage.rows, decimal_comma=self.decimal_comma)
        self.found.equations += equations
        if problem:
            self.found.passed_over.append((passage.piece.start, problem))
        for value in values:
            value.titles = self.titles[: -_MOST_TITLES - 1 : -1]
        self.found.values += values
        if values:
            self.titles = []

    def _text(self, piece: Piece) -> None:
        sentence = Sentence(piece, decimal_comma=self.decimal_comma)
        self.found.equations += sentence.equations
        self.found.passed_over += sentence.passed_over
        values = iter([*sentence.values, None])
        value = next(values)
        for line in piece.lines():
            here: list[Value] = []
            while value is not None and value.start <= line.at[-1]:
                here.append(value)
                value = next(values)
            for each in here:
                each.titles = self.titles[: -_MOST_TITLES - 1 : -1]
                self.found.values += under_each_name(each)
            if any(each.shape[0] > 1 for each in here):
                self.titles = []
            elif not any(each.is_vector for each in here) and re.search(r"\w", line.text):
                self.titles.append(line.text.strip())
                del self.titles[: -2 * _MOST_TITLES]
