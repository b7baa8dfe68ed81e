"""Letters for every script: which fonts a text needs, and how wide it is.

Tokens are anybody's. What would turn the direction of writing or has no width is written as its
number, and a character that no installed font has as □.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from regard.text import JOINERS
from regard.view.labels import visible

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties
    from matplotlib.ft2font import FT2Font

BOX = "□"
_WEIGHTS = {"normal": 400, "bold": 700}
_FIRST = "DejaVu Sans"  # comes with matplotlib
# Asked first where that lacks a character, if they are there; all others after them.
_NEXT = (
    "Noto Sans",
    "Noto Sans CJK KR",
    "Noto Sans Bengali",
    "Apple SD Gothic Neo",
    "Malgun Gothic",
    "Bangla Sangam MN",
    "Nirmala UI",
)


def written(text: str) -> str:
    """The text as it is drawn: harmless, and with □ for what no font has.

    >>> written("a\\u202eb"), written("\\u0378")
    ('a<U+202E>b', '□')
    """
    return _fitted(visible(text))[0]


def font(text: str, size: float, bold: bool = False) -> FontProperties:
    """The font of a text that was `written`, and those that help it out; bold if all can be."""
    from matplotlib.font_manager import FontProperties

    families = _fitted(text)[1]
    heavy = bold and all(_WEIGHTS["bold"] in _weights()[family] for family in families)
    return FontProperties(family=list(families), size=size, weight="bold" if heavy else "normal")


@lru_cache(maxsize=2**16)
def width_of(text: str, size: float, bold: bool = False) -> float:
    """The width of a text in inches, as it is `written`.

    >>> 0.4 < width_of("attention", 8.0) < 0.8
    True
    """
    from matplotlib.textpath import text_to_path

    if not text:
        return 0.0
    drawn = written(text)
    letters = font(drawn, size, bold)
    return text_to_path.get_text_width_height_descent(drawn, letters, False)[0] / 72


@lru_cache(maxsize=2**16)
def _fitted(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with □ for what no font has, and the families that have the rest.

    One font for all of it is best: letters that join must be of the same.
    """
    # Joiners change how letters join, and are no letters themselves.
    characters = {each for each in text if each not in JOINERS and not each.isspace()}
    helpers = [helper for helper in sorted(map(_helper, characters)) if helper not in ("", _FIRST)]
    for family in dict.fromkeys(helpers):
        if all(_has(family, each) for each in characters):
            return text, (family, _FIRST)
    drawn = "".join(BOX if each in characters and not _helper(each) else each for each in text)
    return drawn, (_FIRST, *dict.fromkeys(helpers))


@cache
def _helper(character: str) -> str:
    """The first family that has the character; none has it if that is empty."""
    return next((name for name in _families() if _has(name, character)), "")


def _has(family: str, character: str) -> bool:
    opened = _opened(family)
    return opened is not None and opened.get_char_index(ord(character)) != 0


@cache
def _weights() -> dict[str, set[int]]:
    """The weights in which each family is installed, upright and of the usual width."""
    from matplotlib.font_manager import fontManager

    found: dict[str, set[int]] = {}
    for entry in fontManager.ttflist:
        if entry.style == "normal" and entry.stretch == "normal":
            weight = entry.weight
            number = _WEIGHTS.get(weight, 0) if isinstance(weight, str) else weight
            found.setdefault(entry.name, set()).add(number)
    return found


@cache
def _families() -> tuple[str, ...]:
    known = {name for name, weights in _weights().items() if _WEIGHTS["normal"] in weights}
    first = [name for name in (_FIRST, *_NEXT) if name in known]
    # Fonts of pictures and of placeholders have no letters.
    others = sorted(
        (
            name
            for name in known.difference(first)
            if not name.startswith(("Last Resort", "cm", "STIX")) and "Emoji" not in name
        ),
        key=lambda name: ("Sans" not in name, name),
    )
    return (*first, *others)


@cache
def _opened(family: str) -> FT2Font | None:
    """A font of the family; None if it cannot be read."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    try:
        return get_font(findfont(FontProperties(family=family), fallback_to_default=False))
    except (OSError, RuntimeError, ValueError):
        return None
