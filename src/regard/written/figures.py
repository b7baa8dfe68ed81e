"""A number as somebody printed it: its value, its digits, and where it stands in the text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

__all__ = ["NUMBER", "Figure", "as_number", "has_decimal_commas", "read_figure", "usual_figure"]

# One number: a sign (also a true minus), digits with or without a point, an exponent, a percent
# sign; or an infinity in one of the ways in which masked scores are written.
NUMBER = (
    r"[+\-−–]?\s?(?:[1-9]\d{0,2}(?:,\d{3})+(?![\d.,])|\d+(?:_\d+)*(?:\.\d*)?|\.\d+)"
    r"(?:[eE][+\-−]?\d+)?(?:\s?\\?%)?"
    r"|[+\-−–]?\s?(?:inf(?:inity)?\b|∞|\\infty\b)"
)
_NUMBER = re.compile(rf"\s*({NUMBER})\s*", re.IGNORECASE)
_USUAL = re.compile(r"[-−]?\d{1,15}(?:\.(\d{0,15}))?")  # as nearly all are
_UNITS = [10.0**-digits for digits in range(16)]
_LARGEST = 1e30  # sums of products of such numbers are still finite
_DECIMAL_COMMA = re.compile(r"\s*([+\-−–]?\s?\d+,\d+(?:\s?\\?%)?)\s*")
# `0,25` and `3,75` outside of brackets, or beside another comma: `[1,732 , 0]`, `[0,3; 0,7]`.
_WITH_COMMA = re.compile(
    r"(?<![\w.,\[(])(?:0,\d+|\d+,\d\d|\d+,\d{4,})(?!\w|[.,]\d|,\S|[\])])"
    r"|(?<![\d.,])\d+,\d+(?:\s+,|\s*;)\s*[-−]?\d"
)
_WITH_POINT = re.compile(r"(?<![\w.,])\d+\.\d+(?![\w.,]*[\w:)])|(?<![\w.])\.\d+")
_CHAPTER = re.compile(r"(?m)^[\s#*>-]*[1-9]\d*\.\d+(?=[ \t]+[^\W\d_]{2})")


@dataclass(slots=True)
class Figure:
    """A printed number: `text` at `start` in its source, `unit` one step of its last digit.

    It is never changed, and not frozen only because there are many: freezing doubles their cost.
    """

    text: str
    start: int
    value: float
    unit: float
    factor: float = 1.0  # the power of ten that is written after it
    stop: int = -1  # where it ends, if not after as many characters as its text has

    @property
    def end(self) -> int:
        return self.stop if self.stop >= 0 else self.start + len(self.text)

    def may_stand_for(self, low: float, high: float) -> bool:
        """Whether a number between `low` and `high` may be printed so; a tie may go either way.

        A masked score may stand for anything, and so may what nothing is known of (NaN).

        >>> read_figure("0.12", 0).may_stand_for(0.1249, 0.1249)
        True
        """
        if math.isinf(self.value) or math.isnan(low) or math.isnan(high):
            return True
        half = self.unit * (0.5 + 1e-6) + 1e-12 * max(1.0, abs(self.value))
        if self.unit <= 1.1e-8:  # as much as single precision holds
            half += 4e-7 * max(1.0, abs(self.value))
        return low - half <= self.value <= high + half

    def is_printed_of(self, low: float, high: float) -> bool:
        """The same, or cut off after its last digit, as some do.

        >>> read_figure("2.82", 0).is_printed_of(2.828, 2.829)
        True
        """
        if self.may_stand_for(low, high) or self.unit >= 1:
            return self.may_stand_for(low, high)
        ends = sorted((self.value, self.value + math.copysign(self.unit * (1 - 1e-9), self.value)))
        return ends[0] <= high and low <= ends[1]

    def may_result(self, low: float, high: float) -> bool:
        """Whether it can be printed for what an equation gives: rounded, cut off, in percent."""
        if self.may_stand_for(low, high):
            return True
        if self.text.endswith("%") and self.may_stand_for(low / 100, high / 100):
            return True  # 0.278 · 100 = 27.8 %
        value, unit = self.value, self.unit * (1 - 1e-9)
        in_thousands = re.fullmatch(r"\W?\d{1,3},\d{3}", self.text)  # or √3 ≈ 1,732
        if in_thousands and (value - unit) / 1000 <= high and low <= (value + unit) / 1000:
            return True
        from_zero = value + math.copysign(unit, value)
        return min(value, from_zero) <= high and low <= max(value, from_zero)

    def is_round_for(self, value: float) -> bool:
        """Whether it can be about a number: a whole one, off by a thousandth or in its zeros.

        >>> [read_figure(text, 0).is_round_for(9647) for text in ("10000", "9650", "9657")]
        [True, True, False]
        """
        zeros = len(self.text) - len(self.text.rstrip("0"))
        room = max(10**zeros / 2 if zeros > 1 else 0.0, abs(value) / 1000)
        return self.unit == 1 and abs(self.value - value) <= room

    def like(self, value: float) -> str:
        """`value` printed with the digits, the signs and the habits of this figure.

        >>> read_figure(".278", 0).like(0.2596), read_figure("−1.80", 0).like(-1.74)
        ('.260', '−1.74')
        """
        text = self.text.strip()
        if math.isinf(value) or math.isinf(self.value):
            return ("−" if "−" in text else "-") + "inf" if value < 0 else "inf"
        percent = "%" in text
        body = text.rstrip("%\\ ")
        value /= self.factor
        plain = body.replace("−", "-").replace("–", "-")
        exponent_mark = "e" if "e" in plain else "E" if "E" in plain else ""
        mantissa = plain.partition(exponent_mark)[0] if exponent_mark else plain
        value = value * 100 if percent else value
        comma = "," in mantissa
        digits = len(mantissa.replace(",", ".").partition(".")[2])
        if mantissa.endswith("."):  # as NumPy prints: 1. beside 0.4 is 1.0
            digits = max(0, round(-math.log10(self.unit)))
        number = f"{value:.{digits}{exponent_mark or 'f'}}"
        if float(number) == 0:
            number = number.lstrip("-")
        if mantissa.lstrip("+-").startswith("."):
            number = re.sub(r"^(-?)0\.", r"\1.", number)
        if mantissa.startswith("+") and not number.startswith("-"):
            number = "+" + number
        for minus in "−–":
            if minus in text:
                number = number.replace("-", minus)
        if comma and self.unit >= 1:  # 262,144
            number = f"{value:,.0f}"
        elif comma:
            number = number.replace(".", ",")
        return number + (text[len(body) :] if percent else "")


def as_number(text: str, *, decimal_comma: bool = False) -> re.Match[str] | None:
    """The match if the whole of `text` is one number (group 1), else None."""
    match = _NUMBER.fullmatch(text)
    if match is None and decimal_comma:
        match = _DECIMAL_COMMA.fullmatch(text)
    return match


def has_decimal_commas(text: str) -> bool:
    """Whether a text writes 0,25 for a quarter, and no number with a point.

    >>> [has_decimal_commas(text) for text in ("Step 2.1: 0,25", "0.1 and 0,25", "[1,20]")]
    [True, False, False]
    """
    return bool(_WITH_COMMA.search(text)) and not _WITH_POINT.search(_CHAPTER.sub("", text))


def usual_figure(text: str, start: int, stop: int = -1) -> Figure | None:
    """The figure from `start` to `stop` if it is printed as nearly all are: 1, -0.25, −3.50."""
    if usual := _USUAL.fullmatch(text):
        unit = _UNITS[len(usual[1] or "")]
        return Figure(text, start, float(text.replace("−", "-")), unit, stop=stop)
    return None


def read_figure(text: str, start: int, *, decimal_comma: bool = False) -> Figure:
    """The figure that `text`, found at `start`, prints. Raises ValueError if it prints none.

    >>> figure = read_figure("1.80", 7)
    >>> figure.value, figure.unit
    (1.8, 0.01)
    """
    if usual := usual_figure(text, start):
        return usual
    match = as_number(text, decimal_comma=decimal_comma)
    if match is None:
        raise ValueError(f"“{' '.join(text.split())[:40]}” is not a number")
    printed = match[1].rstrip()
    start += match.start(1)
    plain = re.sub(r"[−–]", "-", printed).replace(" ", "").replace("_", "").replace("\\", "")
    plain = plain.replace(",", "." if decimal_comma else "")
    if re.search(r"inf|∞", plain, re.IGNORECASE):
        return Figure(printed, start, -math.inf if plain.startswith("-") else math.inf, 0.0)
    percent = plain.endswith("%")
    mantissa, _, exponent = plain.rstrip("%").lower().partition("e")
    value = float(plain.rstrip("%")) / (100 if percent else 1)
    if value < -_LARGEST:  # the least number of a type, as programs mask with it
        return Figure(printed, start, -math.inf, 0.0)
    if abs(value) > _LARGEST or abs(int(exponent or 0)) > 99 or len(printed) > 40:
        raise ValueError(f"“{printed[:40]}” is out of all proportion")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0) + (2 if percent else 0)
    return Figure(printed, start, value, 10.0**-digits)
