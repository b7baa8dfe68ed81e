"""Sentences that ship with the lab, with marks around some of their words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from regard.text import Token

Span = tuple[int, int]


@dataclass(frozen=True)
class Marked:
    """A sentence without its marks, and where in it the marked words stand, by kind of mark."""

    text: str
    spans: Mapping[str, Sequence[Span]]


@cache
def data(name: str) -> Mapping[str, Any]:
    """The file of that name in `data/`.

    >>> sorted(data("meaning"))
    ['apple', 'bank', 'creature']
    """
    file = files("regard.lab").joinpath("data", f"{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def unmark(sentence: str, marks: Mapping[str, str]) -> Marked:
    """A sentence without its marks; `marks` has the two signs of each kind.

    >>> unmark("The [cat] sat on the (mat).", {"right": "[]", "other": "()"})
    Marked(text='The cat sat on the mat.', spans={'right': [(4, 7)], 'other': [(19, 22)]})
    """
    spans: dict[str, list[Span]] = {kind: [] for kind in marks}
    ways = [
        f"{re.escape(a)}(?P<{kind}>[^{re.escape(b)}]+){re.escape(b)}"
        for kind, (a, b) in marks.items()
    ]
    text, end = "", 0
    for match in re.finditer("|".join(ways), sentence):
        text += sentence[end : match.start()]
        kind = str(match.lastgroup)
        spans[kind].append((len(text), len(text) + len(match[kind])))
        text += match[kind]
        end = match.end()
    return Marked(text + sentence[end:], spans)


def find(text: str, word: str) -> list[Span]:
    """Where a word stands in a text, whole, in upper or lower case.

    >>> find("It bit the rabbit, and it ran.", "it")
    [(0, 2), (23, 25)]
    """
    found = re.finditer(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
    return [match.span() for match in found]


def places(tokens: Sequence[Token], spans: Sequence[Span]) -> list[int]:
    """The numbers of the tokens that these spans are made of, or have a part in.

    >>> places([Token("[CLS]", 0, 0), Token("ra", 0, 2), Token("bbit", 2, 6)], [(0, 6)])
    [1, 2]
    """
    return [
        number
        for number, token in enumerate(tokens)
        for start, end in spans
        if max(token.start, start) < min(token.end, end)
    ]
