"""Nested matrices that stand side by side over several lines, each in one piece.

    Q = [[1, 0],    K = [[2, 1],
         [0, 3]]         [1, 1]]

Rows of one matrix start in about one column. What stands left of a matrix stands in the first line:
a name and a sign of equality begin a line of their own, an operator goes on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from regard.written.piece import Piece, joined

__all__ = ["one_by_one"]

_NUMBER = r"[-−–]?(?:\d+(?:\.\d*)?|\.\d+)"
_ROW = re.compile(
    rf"(?P<open>\[?)\[[ \t]*(?P<cells>{_NUMBER}(?:[ \t]*,[ \t]*{_NUMBER}|[ \t]+{_NUMBER})*+)"
    r"[ \t]*\](?P<close>\]?),?"
)
_SIDE_BY_SIDE = re.compile(r"\][ \t]*,[ \t]+[^\n\[\]]{0,40}\[\[")
_NAMED = re.compile(r"[^\W\d].*=\s*$")
_MOST_LINES = 24
_LONGEST = 300  # characters of a line
_SLANT = 2  # columns by which a row may stand beside the one above it


@dataclass
class _Block:
    column: int  # of the bracket that opens a row
    rows: list[tuple[int, re.Match[str]]] = field(default_factory=list)  # with their lines
    is_closed: bool = False


def one_by_one(piece: Piece) -> Piece:
    """With each group of such lines as the matrices that stand in it."""
    if not _SIDE_BY_SIDE.search(piece.text):
        return piece
    lines = list(piece.lines())
    parts: list[Piece] = []
    i = 0
    while i < len(lines):
        group = lines[i : i + _MOST_LINES]
        blocks = _blocks(group) if _SIDE_BY_SIDE.search(lines[i].text) else None
        if blocks is None:
            parts.append(lines[i])
            i += 1
            continue
        parts += _written(blocks, group)
        i += 1 + max(number for block in blocks for number, _ in block.rows)
    return joined(parts)


def _blocks(lines: list[Piece]) -> list[_Block] | None:
    """The matrices that begin in the first line, if each of them ends and nothing else is there."""
    blocks: list[_Block] = []
    for number, line in enumerate(lines):
        rows = list(_ROW.finditer(line.text)) if len(line.text) <= _LONGEST else []
        if number and (not rows or _ROW.sub("", line.text).strip()):
            return None
        for row in rows:
            column = row.end("open")
            if number == 0:
                blocks.append(_Block(column))
                if not row["open"] or row["close"]:
                    return None
            own = [b for b in blocks if not b.is_closed and abs(b.column - column) <= _SLANT]
            if len(own) != 1 or (number and row["open"]):
                return None
            own[0].rows.append((number, row))
            own[0].is_closed = bool(row["close"])
        if all(block.is_closed for block in blocks):
            break
    even = all(
        [number for number, _ in block.rows] == list(range(len(block.rows)))
        and len({len(re.findall(_NUMBER, row["cells"])) for _, row in block.rows}) == 1
        for block in blocks
    )
    closed = len(blocks) > 1 and all(block.is_closed for block in blocks)
    return blocks if closed and even else None


def _written(blocks: list[_Block], lines: list[Piece]) -> list[Piece]:
    first = lines[0]
    parts: list[Piece] = []
    at = 0
    for block in blocks:
        row = block.rows[0][1]
        before = first.cut(at, row.start())
        if at and _NAMED.search(before.text):
            parts.append(Piece("\n", [before.start]))
        parts.append(before)
        for number, each in block.rows:
            parts.append(lines[number].cut(*each.span()))
        at = row.end()
    return [*parts, first.cut(at, len(first.text))]
