"""Which figures a text says, so that the same text in two languages can be compared."""

from __future__ import annotations

import re
from collections import Counter

_LEFT_OUT = re.compile(r"\{[^}]*\}|\b\d+(?:st|nd|rd|th)\b")  # what is filled in; “1st” is a word
_FIGURE = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_WRITTEN_OUT = set(map(str, range(11)))  # “a tenth” may be 10분의 1


def figures(text: str) -> Counter[str]:
    """Every number that a text itself says, and how often."""
    return Counter(_FIGURE.findall(_LEFT_OUT.sub(" ", text)))


def says_the_same_figures(english: str, other: str) -> bool:
    """Does the other text say every figure of the English one, and no other? Small whole numbers
    may be figures in the one and words in the other.
    """
    said, told = figures(english), figures(other)
    return said <= told and set(told - said) <= _WRITTEN_OUT
