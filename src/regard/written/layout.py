"""Matrices that stand side by side over several lines, as one line.

    [1 2]   [5 6]   [19 22]
    [3 4] × [7 8] = [43 50]

Rows of one matrix start in one column; what stands between the matrices stands in one of the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from regard.written.piece import Piece, joined

__all__ = ["laid_out"]

_NUMBER = r"[-−–]?(?:\d+(?:\.\d*)?|\.\d+)"
_ROW = re.compile(
    rf"(?<!\[)[\[│┃║⎡⎢⎣][ \t]*(?P<cells>{_NUMBER}(?:[ \t]*,[ \t]*{_NUMBER}|[ \t]+{_NUMBER})*+)"
    r"[ \t]*[\]│┃║⎤⎥⎦](?!\])"
)
_CELL = re.compile(_NUMBER)
_EQUAL = re.compile(r"\s*(?:=|≈|==)\s*")
_MOST_LINES = 24
_LONGEST = 300  # characters of a line

_Rows = list[re.Match[str]]


def laid_out(piece: Piece) -> Piece:
    """With each such group of lines as the equation that it stands for."""
    if not re.search(r"[\]│┃║⎤⎥⎦][ \t]+(?:[^\s\w][ \t]+|[xX][ \t]+)?[\[│┃║⎡⎢⎣]", piece.text):
        return piece
    parts: list[Piece] = []
    group: list[tuple[Piece, _Rows]] = []
    for line in [*piece.lines(), None]:
        rows = list(_ROW.finditer(line.text)) if line and len(line.text) <= _LONGEST else []
        if rows and line is not None:
            group.append((line, rows))
            continue
        parts += _as_one_line(group)
        group = []
        parts += [line] if line is not None else []
    return joined(parts)


def _as_one_line(group: list[tuple[Piece, _Rows]]) -> Iterator[Piece]:
    lines = [line for line, _ in group]
    if not 1 < len(group) <= _MOST_LINES:
        yield from lines
        return
    # The rows of each matrix, by the column in which they start.
    blocks: dict[int, list[tuple[int, re.Match[str]]]] = {}
    for number, (_, rows) in enumerate(group):
        for row in rows:
            blocks.setdefault(row.start(), []).append((number, row))
    spoken = [n for n, (line, rows) in enumerate(group) if _beside(line, rows).strip()]
    if len(spoken) != 1 or not _are_matrices(blocks, spoken[0]):
        yield from lines
        return
    line, rows = group[spoken[0]]
    between = [line.text[a.end() : b.start()] for a, b in pairwise(rows)]
    if not any(_EQUAL.fullmatch(text) for text in between):
        yield from lines
        return
    at = 0
    for row in rows:
        before = line.cut(at, row.start())
        # Side by side is multiplied.
        yield before if at == 0 or before.text.strip() else line.cut(at, at)
        yield from _written(blocks[row.start()], lines)
        at = row.end()
    yield line.cut(at, len(line.text))


def _beside(line: Piece, rows: _Rows) -> str:
    """What stands in a line besides its rows."""
    ends = [0, *(row.end() for row in rows)]
    starts = [*(row.start() for row in rows), len(line.text)]
    return " ".join(line.text[a:b] for a, b in zip(ends, starts, strict=True))


def _are_matrices(blocks: dict[int, list[tuple[int, re.Match[str]]]], spoken: int) -> bool:
    """Whether each block has rows of one length, one below the other, one where the sign stands."""
    if len(blocks) < 2 or max(map(len, blocks.values())) < 2:
        return False
    for rows in blocks.values():
        numbers = [number for number, _ in rows]
        widths = {len(_CELL.findall(row["cells"])) for _, row in rows}
        together = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        if len(widths) > 1 or not together or spoken not in numbers:
            return False
    return True


def _written(rows: list[tuple[int, re.Match[str]]], lines: list[Piece]) -> Iterator[Piece]:
    """`[[1, 2], [3, 4]]`, each number where it stands."""
    for k, (number, row) in enumerate(rows):
        line, start = lines[number], row.start("cells")
        yield _mark("[[" if k == 0 else "[", line.at[row.start()])
        for cell in _CELL.finditer(row["cells"]):
            if cell.start():
                yield _mark(", ", line.at[start + cell.start()])
            yield line.cut(start + cell.start(), start + cell.end())
        yield _mark("]]" if k == len(rows) - 1 else "], ", line.at[row.end() - 1])


def _mark(text: str, place: int) -> Piece:
    return Piece(text, [place] * len(text))
