"""A text cut into pieces: sentences, paragraphs, turns of a chat; and which tokens are in one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.text import Token

Range = tuple[int, int]  # of characters: where it starts, and where it ends

# A mark, and quotes or brackets that close behind it. What follows begins no lower-case word, or
# the mark is one that never stands for anything else.
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s+(?![a-z]))|[。！？।]+[」』”’）]*|(?=\n)")
_INITIAL = re.compile(r"(?:^|[\s.(])[A-Z]\.$")  # of a name
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
TURN = "<|im_start|>"
END_OF_TURN = "<|im_end|>"
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", re.DOTALL)


def sentences(text: str, start: int = 0, end: int | None = None) -> list[Range]:
    """Where each sentence of a part of a text stands, without the blanks around it.

    >>> text = "Dr. J. Bell came at 3 p.m. and left. Why? 왜요?  몰라요"
    >>> [text[a:b] for a, b in sentences(text)]
    ['Dr.', 'J. Bell came at 3 p.m. and left.', 'Why?', '왜요?', '몰라요']
    """
    end = len(text) if end is None else end
    found: list[Range] = []
    first = start
    for mark in _END.finditer(text, start, end):
        if mark.end() > first and not _INITIAL.search(text, first, mark.end()):
            found.append((first, mark.end()))
            first = mark.end()
    found.append((first, end))
    return [piece for piece in (_trimmed(text, *each) for each in found) if piece[0] < piece[1]]


def paragraphs(text: str, start: int = 0, end: int | None = None) -> list[Range]:
    """What stands between blank lines.

    >>> paragraphs("One.\\nTwo.\\n\\n \\nThree.")
    [(0, 9), (13, 19)]
    """
    end = len(text) if end is None else end
    edges = [start]
    for gap in _PARAGRAPH.finditer(text, start, end):
        edges += [gap.start(), gap.end()]
    edges.append(end)
    pieces = (_trimmed(text, *each) for each in zip(edges[::2], edges[1::2], strict=True))
    return [piece for piece in pieces if piece[0] < piece[1]]


def usual_spans(text: str, end: int, has_question: bool) -> dict[str, Range]:
    """What an answer that begins at `end` may have come from, if nobody says it.

    In a chat: each turn before the one that is answered, and the paragraphs of that one, the last
    of which is the question, unless that is told. In any other text: the paragraphs that end
    before the answer's own begins.

    >>> usual_spans("A cat.\\n\\nA dog.\\n\\nWho barks? The dog.", 27, False)
    {'paragraph 1': (0, 6), 'paragraph 2': (8, 14)}
    """
    turns = [(turn[1], *_trimmed(text, *turn.span(2))) for turn in _TURN.finditer(text, 0, end)]
    if turns:
        *earlier, (_, first, last) = turns
        found = {
            f"turn {n}, {role}": (start, stop)
            for n, (role, start, stop) in enumerate(earlier, 1)
            if start < stop
        }
        pieces = paragraphs(text, first, last)
        pieces = pieces if has_question else pieces[:-1]
    else:
        found, pieces = {}, paragraphs(text, 0, end)
        if pieces and not _PARAGRAPH.search(text, pieces[-1][1], end):
            pieces = pieces[:-1]
    return found | {f"paragraph {n}": piece for n, piece in enumerate(pieces, 1)}


def tokens_in(tokens: Sequence[Token], start: int, end: int) -> list[int]:
    """Which tokens end inside of a range: the blank before a word may stand outside.

    >>> tokens_in([Token("a", 0, 1), Token("b", 1, 3), Token("</s>", 3, 3)], 2, 4)
    [1]
    """
    return [
        n for n, token in enumerate(tokens) if token.start < token.end and start < token.end <= end
    ]


def _trimmed(text: str, start: int, end: int) -> Range:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
