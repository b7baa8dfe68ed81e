"""A word of the reader's own for `meaning`: one text as what the shipped data has of a word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from regard._arguments import shown
from regard.lab.marked import find, unmark
from regard.text import tokenize

_FEWEST = 3  # sentences of a sense
_FORM = "word | sense words | sense words | sentence / sentence / … | sentence / sentence / …"


def read_own(text: str) -> tuple[str, Mapping[str, Any]]:
    """The word, and of each sense its words and its sentences; a sense is called by its first word.

    >>> word, senses = read_own(
    ...     "bass | fish, trout | music, guitar"
    ...     " | I *caught* a bass. / A bass *swam* by. / We *grilled* the bass."
    ...     " | He plays bass. / The bass is too *loud*. / Turn up the bass *amplifier*."
    ... )
    >>> word, list(senses), senses["music"]["sentences"][0]
    ('bass', ['fish', 'music'], '*He* *plays* bass.')
    >>> read_own("bass | fish")
    Traceback (most recent call last):
    ValueError: lab meaning: own must be five parts with | between them (word | ...); got 2 parts.
    """
    parts = [part.strip() for part in text.split("|")]
    if len(parts) != 5:
        raise _wrong(f"be five parts with | between them ({_FORM})", f"{len(parts)} parts")
    word = parts[0]
    if word == "":
        raise _wrong("begin with a word", "none before the first |")
    senses: dict[str, Any] = {}
    for named, told in zip(parts[1:3], parts[3:], strict=True):
        by = r"," if "," in named else r"\s"
        words = [each.strip() for each in re.split(by, named) if each.strip()]
        if not words:
            raise _wrong("name each sense by at least one word", "none")
        if words[0] in senses:
            raise _wrong("begin the two senses with different words", f"{shown(words[0])} twice")
        sentences = [each.strip() for each in re.split(r"\s/\s", told) if each.strip(" /")]
        if len(sentences) < _FEWEST:
            expected = f"have at least {_FEWEST} sentences of each sense, with / between them"
            raise _wrong(expected, f"{len(sentences)} of {shown(words[0])}")
        senses[words[0]] = {
            "words": words,
            "sentences": [_with_cues(sentence, word) for sentence in sentences],
        }
    return word, senses


def _with_cues(sentence: str, word: str) -> str:
    """The sentence with stars around its cues; where none are marked, around all other words."""
    sentence = sentence.replace("**", "*")
    found = unmark(sentence, {"cue": "**"})
    places = find(found.text, word)
    if "*" in found.text:
        raise _wrong("have a star on either side of a cue", shown(sentence))
    if len(places) != 1:
        expected = f"have the word {shown(word)} once in each sentence"
        raise _wrong(expected, f"it {len(places)} times in {shown(found.text)}")
    (start, end) = places[0]
    if any(start < last and first < end for first, last in found.spans["cue"]):
        raise _wrong(f"mark other words than {shown(word)} as cues", shown(sentence))
    if found.spans["cue"]:
        return sentence
    marked, at = "", 0
    for token in tokenize(sentence):
        is_cue = not (start < token.end and token.start < end) and token.text[0].isalnum()
        marked += sentence[at : token.start] + (f"*{token.text}*" if is_cue else token.text)
        at = token.end
    if "*" not in marked:
        raise _wrong(f"have other words than {shown(word)} in each sentence", shown(sentence))
    return marked + sentence[at:]


def _wrong(expected: str, got: str) -> ValueError:
    return ValueError(f"lab meaning: own must {expected}; got {got}.")
