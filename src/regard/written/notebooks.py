"""Jupyter notebooks as passages: text, code, and what the code printed."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from typing import Any

from regard.written.found import Value
from regard.written.piece import Piece, joined
from regard.written.programs import Shown
from regard.written.scan import Passage, clean, scan
from regard.written.source import Source

__all__ = ["is_notebook", "read_notebook"]

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}


def is_notebook(source: Source) -> bool:
    return source.suffix == ".ipynb" or bool(
        re.match(r'\s*\{\s*"(?:cells|nbformat|metadata)"', source.text) and '"cells"' in source.text
    )


def read_notebook(source: Source) -> tuple[list[Passage], list[Shown]]:
    """The passages of all cells, and the cells of code. Raises ValueError if it is no notebook."""
    content = json.loads(source.text)
    texts = _Strings(source.text)
    passages: list[Passage] = []
    cells: list[Shown] = []
    for cell in content.get("cells", []):
        start = texts.at
        ends = [start]
        source_lines = cell.get("source", "")
        is_code = cell.get("cell_type") == "code"
        shown = Shown("".join(source_lines) if is_code else "")
        parts: list[tuple[Any, list[Value] | None]] = [(source_lines, None)]
        for output in cell.get("outputs", []):
            data: dict[str, Any] = output.get("data", {})
            of = shown.printed if output.get("text") else shown.displayed
            parts.append((output.get("text") or data.get("text/plain") or "", of))
        for written, of in parts:  # in the file the outputs may stand first
            texts.at = start
            passages += (new := _passages(texts, written, is_code))
            for passage in new:
                passage.shown = of
            ends.append(texts.at)
        texts.at = max(ends)
        cells += [shown] if is_code else []
    return passages, cells


def _passages(texts: _Strings, written: Any, is_code: bool) -> list[Passage]:
    lines = [written] if isinstance(written, str) else written
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return []
    piece = texts.take(lines)
    if piece is None:
        return []
    if not is_code and "<table" in piece.text.casefold():
        from regard.written.html_pages import read_with_tables  # which takes a while

        return read_with_tables(piece)
    passages = scan(clean(piece))
    for passage in passages:
        passage.is_code = is_code
    return passages


class _Strings:
    """The strings of a JSON file in the order in which they stand, each letter with its place."""

    def __init__(self, text: str) -> None:
        self.strings = [self._unescaped(match) for match in _STRING.finditer(text)]
        self.places = defaultdict[str, list[int]](list)  # where a string stands among them
        for place, string in enumerate(self.strings):
            self.places[string.text].append(place)
        self.at = 0

    def take(self, lines: list[str]) -> Piece | None:
        """The next strings that read as `lines`, as one piece."""
        parts: list[Piece] = []
        start = self.at
        for line in lines:
            places = self.places.get(line, [])
            following = bisect_left(places, self.at)
            if following == len(places):
                self.at = start
                return None
            parts.append(self.strings[places[following]])
            self.at = places[following] + 1
        return joined(parts)

    @staticmethod
    def _unescaped(match: re.Match[str]) -> Piece:
        inner = Piece(match[1], range(match.start(1), match.end(1)))
        return inner.replaced(
            _ESCAPE, lambda m: chr(int(m[1], 16)) if m[1] else _LETTERS.get(m[2], m[2])
        )
