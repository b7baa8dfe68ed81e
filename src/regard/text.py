"""Text to tokens, each with its span: words and marks of any script, without a model.

A model brings its own tokenizer. This one is for looking at attention without any: it splits where
a reader would, and never inside a character that is written with several code points.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

JOINERS = {"\u200c", "\u200d"}  # zero-width non-joiner and joiner: part of the word they stand in
_APOSTROPHES = {"'", "’"}
# Signs drawn around or before digits and letters, though Unicode calls them format characters.
_DRAWN = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
_BY_CHARACTER = ("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA", "KATAKANA")


@dataclass(frozen=True)
class Token:
    """A piece of a text: `text[start:end]`."""

    text: str
    start: int
    end: int

    @property
    def label(self) -> str:
        """Its text without the blanks around it, if it is more than blanks."""
        return self.text.strip() or self.text


def labels_of(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The labels of tokens; where several make a letter, with the number of the piece.

    >>> labels_of([Token(" a", 0, 2), Token("한", 2, 3), Token("한", 2, 3), Token("!", 3, 4)])
    ('a', '한 (1/2)', '한 (2/2)', '!')
    """
    found: list[str] = []
    for _, group in groupby(enumerate(tokens), lambda each: _letter(*each)):
        pieces = [token for _, token in group]
        several = len(pieces) > 1
        for n, token in enumerate(pieces, 1):
            found.append(f"{token.label} ({n}/{len(pieces)})" if several else token.label)
    return tuple(found)


def _letter(place: int, token: Token) -> tuple[int, int]:
    """What tokens have in common that are pieces of one letter: its place; others have nothing."""
    return (token.end, 0) if token.start < token.end else (place, 1)


def tokenize(text: str) -> list[Token]:
    """The words and punctuation marks of `text`, in order.

    Words are runs of letters, digits and the marks that combine with them; Chinese characters and
    kana stand alone, as there is no space between their words; so does every other visible mark.

    >>> [token.text for token in tokenize("I don't, you know.")]
    ['I', "don't", ',', 'you', 'know', '.']
    >>> [token.text for token in tokenize("আমি ভাত খাই")]
    ['আমি', 'ভাত', 'খাই']
    """
    tokens: list[Token] = []
    start = 0
    while start < len(text):
        end = _end_of_token(text, start)
        if any(map(_is_visible, text[start:end])):
            tokens.append(Token(text[start:end], start, end))
        start = end
    return tokens


def place_tokens(text: str, names: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[Token]:
    """The tokens that a tokenizer has made of a text, by what stands at their spans.

    One with an empty span, as [SEP] has, is called by its name, and stands behind those before it.

    >>> place_tokens("Hi you", ["hi", "you", "[SEP]"], [(0, 2), (3, 6), (0, 0)])[1:]
    [Token(text='you', start=3, end=6), Token(text='[SEP]', start=6, end=6)]
    """
    tokens: list[Token] = []
    reached = 0
    for name, (start, end) in zip(names, spans, strict=True):
        if start < end:
            tokens.append(Token(text[start:end], start, end))
            reached = max(reached, end)
        else:
            tokens.append(Token(name, reached, reached))
    return tokens


def readable(text: str) -> str:
    """A text that UTF-8 can hold: half of a surrogate pair becomes �.

    >>> readable("a\\ud800b")
    'a�b'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def counted(number: int, of: str) -> str:
    """How many there are.

    >>> counted(1, "token"), counted(1200, "token")
    ('1 token', '1,200 tokens')
    """
    return f"{number:,} {of}" if number == 1 else f"{number:,} {of}s"


def _end_of_token(text: str, start: int) -> int:
    end = _end_of_cluster(text, start)
    if not _in_word(text[start]) or _stands_alone(text[start]):
        return end
    while end < len(text):
        inner = end + 1 if text[end] in _APOSTROPHES else end
        if inner >= len(text) or not _in_word(text[inner]) or _stands_alone(text[inner]):
            break
        end = _end_of_cluster(text, inner)
    return end


def _end_of_cluster(text: str, start: int) -> int:
    """Past the character at `start` and all that is drawn on it: marks, joined emoji, flags.

    Nothing is drawn on a space or a control character.
    """
    end = start + 1
    if not _is_visible(text[start]) and text[start] not in JOINERS:
        return end
    if is_flag_letter(text[start]) and end < len(text) and is_flag_letter(text[end]):
        end += 1
    while end < len(text):
        category = unicodedata.category(text[end])
        joined = text[end - 1] == "\u200d" and category.startswith("S")
        if not (joined or category.startswith("M") or _is_drawn_on(text[end])):
            break
        end += 1
    return end


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character in JOINERS


def _is_visible(character: str) -> bool:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Zs", "Zl", "Zp")
    return not hidden or character in _DRAWN


def _stands_alone(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_BY_CHARACTER)


def is_flag_letter(character: str) -> bool:
    """Is it half of a flag?"""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def is_skin_tone(character: str) -> bool:
    """Does it colour the emoji before it?"""
    return "\U0001f3fb" <= character <= "\U0001f3ff"


def _is_drawn_on(character: str) -> bool:
    """Joiners, skin tones, and the tags that make a black flag that of Scotland or Wales."""
    is_tag = "\U000e0020" <= character <= "\U000e007f"
    return character in JOINERS or is_skin_tone(character) or is_tag
