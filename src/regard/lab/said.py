"""What the lab says: sentences by key, with numbers filled in, from one table per language.

A table is a folder of `words/`, in which each experiment has a file."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from regard._arguments import shown

LANGUAGES = ("en", "ko", "bn")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SMALL = 3  # powers of ten up to which a number is written out


@dataclass(frozen=True)
class Said:
    """A sentence: its key in the table of words, and what its {names} stand for.

    >>> Said("lab.seconds", {"seconds": 1.25}).text()
    '1.2 s'
    """

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def text(self, language: str = "en") -> str:
        """The sentence. Values that are sentences themselves are put into words, too."""
        values = {
            name: value.text(language) if isinstance(value, Said) else value
            for name, value in self.values.items()
        }
        return _Filled().vformat(words(language)[self.key], (), values)


class _Filled(string.Formatter):
    """Fills numbers into a sentence as people write them."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return format(value, format_spec)
        return figure(value, format_spec)


def figure(value: float, digits: str) -> str:
    """A number as people write it: where a program says 3e-02, 2e-66 and -1%.

    >>> figure(0.03, ".0e"), figure(2e-66, ".0e"), figure(-0.01, ".0%"), figure(0.0, ".1e")
    ('0.03', '2·10⁻⁶⁶', '−1%', '0')
    """
    text = format(value, digits)
    mantissa, _, power = text.partition("e")
    if power and float(mantissa) == 0:
        text = "0"
    elif power and abs(int(power)) <= _SMALL:
        decimals = len(mantissa.partition(".")[2]) - int(power)
        text = f"{float(text):.{max(decimals, 0)}f}"
    elif power:
        text = f"{mantissa}·10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return text.replace("-", "−")


@cache
def words(language: str) -> Mapping[str, str]:
    """Every text of the lab in a language, by key: `order.question` is `question` in `order.toml`.

    >>> words("en")["lab.outcome.holds"]
    'holds here'
    """
    if language not in LANGUAGES:
        raise ValueError(
            f"lab: language must be one of {', '.join(LANGUAGES)}; got {shown(language)}."
        )
    found: dict[str, str] = {}
    for file in files("regard.lab").joinpath("words", language).iterdir():
        above = file.name.removesuffix(".toml") + "."
        found |= _flat(tomllib.loads(file.read_text(encoding="utf-8")), above)
    return found


def _flat(table: Mapping[str, Any], above: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{name}.")
        else:
            found[above + name] = value
    return found


def plain(text: object) -> Said:
    """A text that is the same in every language: a token, a number, the name of a model.

    >>> plain("LSTM").text()
    'LSTM'
    """
    return Said("lab.plain", {"text": str(text)})
