"""Legends: a bar of colours with its numbers, and names beside patches of colour."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from regard.view.colours import Range
from regard.view.figure.letters import width_of
from regard.view.figure.sheet import LINE, MARGIN, Sheet

BAR = 0.55  # inches that a bar beside a picture takes, with its numbers
_SIZE = 6.5
_THICK = 0.09
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: float) -> str:
    """A number as a legend has it, with two digits.

    >>> short(0.25), short(3.0), short(1e-5), short(0.00032), short(2.5e-7)
    ('0.25', '3', '10⁻⁵', '0.00032', '2.5·10⁻⁷')
    """
    if value == 0 or 1e-4 <= abs(value) < 1e5:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    ten = "10" + str(power).translate(_SUPERSCRIPTS)
    first = f"{value / 10**power:.2g}"
    return ten if first == "1" else f"{first}·{ten}"


def ticks(scale: Range, most: int = 6) -> list[float]:
    """Round numbers on a scale, its ends not among them unless they are round.

    >>> ticks(Range(0.9)), ticks(Range(0.5, 0.0005, log=True))
    ([0.0, 0.2, 0.4, 0.6, 0.8], [0.001, 0.01, 0.1])
    """
    if scale.log:
        low, high = (math.log10(x) for x in (scale.least, scale.most))
        powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
        return [10.0**power for power in powers]
    rough = scale.most / (most - 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= rough * (1 - 1e-9))
    return [round(n * step, 12) for n in range(int(scale.most / step + 1e-9) + 1)]


def _bar(sheet: Sheet, x: float, y: float, length: float, scale: Range, upright: bool) -> None:
    """The colours of the scale, and round numbers along them; upright, the largest is on top."""
    colours = sheet.colours.heat(np.linspace(0, 1, 256))
    pixels = colours[::-1, None] if upright else colours[None]
    box = (x, y, _THICK, length) if upright else (x, y, length, _THICK)
    sheet.picture(box, pixels)
    sheet.box(box, edge=sheet.colours.faint)
    for tick in ticks(scale, most=max(2, min(6, int(length / 0.2))) if upright else 6):
        share = float(scale.share(np.array(tick)))
        text = f"≤ {short(tick)}" if scale.log and tick <= scale.least * 1.001 else short(tick)
        if upright:
            at, edge = y + length * (1 - share), x + _THICK
            sheet.lines([[(edge, at), (edge + 0.03, at)]], sheet.colours.faint)
            sheet.text(edge + 0.05, at, text, _SIZE)
        else:
            at, edge = x + length * share, y + _THICK
            sheet.lines([[(at, edge), (at, edge + 0.03)]], sheet.colours.faint)
            sheet.text(at, edge + 0.045, text, _SIZE, across="center", down="top")


def bar_down(sheet: Sheet, x: float, y: float, height: float, scale: Range, name: str) -> None:
    """A bar from the largest number at the top to the smallest, and what the numbers are."""
    sheet.text(x, y, name, _SIZE, down="top", colour=sheet.colours.faint)
    _bar(sheet, x, y + 0.16, height - 0.16, scale, upright=True)


def bar_across(sheet: Sheet, scale: Range, name: str) -> None:
    """A bar below what is there, from the smallest number to the largest."""
    y = sheet.at + 0.06
    sheet.text(MARGIN, y + _THICK / 2, name, _SIZE, colour=sheet.colours.faint)
    left = MARGIN + width_of(name, _SIZE) + 0.08
    _bar(sheet, left, y, min(1.6, sheet.width / 2), scale, upright=False)
    sheet.at = y + _THICK + 0.045 + _SIZE / 72 * LINE


def key(sheet: Sheet, entries: Iterable[tuple[str, str]], name: str) -> None:
    """Names beside patches of colour, below what is there, in as many lines as they need."""
    patch, step = 0.09, _SIZE / 72 * LINE
    y = sheet.at + 0.05 + step / 2
    sheet.text(MARGIN, y, name, _SIZE, colour=sheet.colours.faint)
    x = MARGIN + width_of(name, _SIZE) + 0.1
    for text, colour in entries:
        room = patch + 0.05 + width_of(text, _SIZE)
        if x + room > sheet.width - MARGIN and x > MARGIN:
            x, y = MARGIN, y + step
        sheet.box((x, y - patch / 2, patch, patch), fill=colour)
        sheet.text(x + patch + 0.05, y, text, _SIZE)
        x += room + 0.13
    sheet.at = y + step / 2
