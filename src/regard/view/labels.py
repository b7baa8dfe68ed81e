"""Labels: tokens of any script made harmless, measured in cells, and cut between characters.

Terminals disagree on the width of some characters: vowel signs that follow a letter (Bengali া), or
emoji of several code points. Two measures bound it: `cell_len` of rich, which newer ones agree with
and by which the columns are aligned, and `most_cells`, by which the room is reserved.
"""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, get_character_cell_size, split_graphemes

from regard.text import JOINERS, is_flag_letter, is_skin_tone

_LONGEST = 1024  # code points of a label that are looked at: more than fit on any line
_LONGEST_CHARACTER = 16  # code points; the longest joined emoji has ten


def visible(text: str) -> str:
    """The text with nothing in it that a terminal would obey or hide.

    Control characters become their pictures, and what turns the direction of writing, has no width
    or is no character becomes its number.

    >>> visible("a\\x1b[31m"), visible("b\\u202ec"), visible("[red]")
    ('a␛[31m', 'b<U+202E>c', '[red]')
    """
    return "".join(character if character.isalnum() else _harmless(character) for character in text)


def _harmless(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    unseen = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    no_character = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    if (unseen and character not in JOINERS) or no_character:
        return f"<U+{code:04X}>"
    return character


def most_cells(text: str) -> int:
    """The most cells that a terminal may give the text.

    >>> most_cells("phones"), most_cells("전화"), most_cells("আমি"), cell_len("আমি")
    (6, 4, 3, 2)
    """
    if text.isascii():
        return len(text)
    cells = 0
    for character in text:
        if is_skin_tone(character):
            cells += 2
        else:
            is_mark = unicodedata.category(character) == "Mc"
            cells += get_character_cell_size(character) or int(is_mark)
    return max(cell_len(text), cells)


def fit(text: str, width: int) -> str:
    """The text on one line of at most `width` cells, made `visible`; `…` stands for what is cut.

    A character that is written with several code points is kept or cut as a whole.

    >>> fit("phones", 6), fit("telephones", 6), fit("전화기입니다", 6)
    ('phones', 'telep…', '전화…')
    """
    whole = visible(text[:_LONGEST])
    characters = _characters(whole)
    if most_cells(whole) <= width and len(text) <= _LONGEST:
        return "".join(characters)
    kept = ""
    for character in characters:
        if most_cells(kept + character) > width - 1:
            break
        kept += character
    return kept + "…"


def fold(text: str, width: int) -> list[str]:
    """The text in pieces of at most `width` cells, divided between characters.

    >>> fold("telephones", 4), fold("전화기", 5)
    (['tele', 'phon', 'es'], ['전화', '기'])
    """
    pieces: list[str] = []
    for character in _characters(text):
        if pieces and most_cells(pieces[-1] + character) <= width:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text with blanks up to `width` cells; `right` puts them before it.

    Where its width is in doubt, the room for the widest reading stays free on its right.

    >>> pad("한", 4), pad("한", 4, right=True), pad("আমি", 4, right=True)
    ('한  ', '  한', ' আমি ')
    """
    before = width - most_cells(text) if right else 0
    return " " * before + text + " " * (width - before - cell_len(text))


def _characters(text: str) -> list[str]:
    """The text in pieces that must not be torn."""
    pieces: list[str] = []
    for start, end, _ in split_graphemes(text)[0]:
        piece = text[start:end][:_LONGEST_CHARACTER]
        if pieces and _belong_together(pieces[-1], piece):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces


def _belong_together(before: str, piece: str) -> bool:
    if len(before) > _LONGEST_CHARACTER:
        return False
    if is_flag_letter(piece[0]):
        return len(before) == 1 and is_flag_letter(before)
    joined_letters = unicodedata.combining(before[-1]) == 9 and piece[0].isalpha()  # after a virama
    return joined_letters or unicodedata.category(piece[0]).startswith("M")
