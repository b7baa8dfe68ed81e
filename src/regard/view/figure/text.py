"""The text itself, each token shaded by how much one of them looks at it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regard.reference import Array
from regard.text import Token
from regard.view.colours import Range, ink_on
from regard.view.figure.legend import bar_across, short
from regard.view.figure.letters import size_of
from regard.view.figure.places import CALL, Asked, Place
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet
from regard.view.labels import fit
from regard.view.lines import counted

_SIZES = ((150, 9.0), (600, 8.0), (2**62, 7.0))  # points, for texts of so many tokens
_HIGH = 1.75  # a line, in heights of its letters
_PAD = 0.012  # inches around a word
_PART = 0.06  # inches of a token that is a part of a character
_BLANK = 0.3  # of the height of letters
_NAMED = 6  # of the strongest


def draw(paper: Paper, asked: Asked) -> Sheet:
    """Where one token looks: in a head, on average over a layer, or over all of them."""
    places = asked.places()
    if asked.layer is None:  # all that read this sequence
        places = [place for place in places if not place.layer.cross] or places
        size = places[0].layer.shape[2:]
        places = [place for place in places if place.layer.shape[2:] == size]
    first = places[0]
    at, head = asked.token_of(first), asked.head_of(first)
    weights, partial = _weights(places, head, at)
    scale = Range.of(weights, asked.log)
    names = first.key_names() or []
    names = [name or str(n) for n, name in enumerate(names)] or list(map(str, range(len(weights))))
    of = f" of {asked.run.model}" if asked.run.model else ""
    which = f"layer {first.index}" if len(places) == 1 else f"all {len(places)} layers"
    if head is not None and len(places) == 1:
        remark = f"Head {first.index}.{head}, {first.described}."
    else:
        remark = f"The mean over {'all heads' if head is None else f'heads {head}'} of {which}{of}."
    sheet = Sheet(paper, f"Where “{fit(names[at], 40)}” looks", remark)
    _draw(sheet, _words(first, weights), at, scale)
    bar_across(sheet, scale, "weight")
    strongest = np.argsort(-np.nan_to_num(weights), kind="stable")[:_NAMED]
    told = [
        f"{fit(names[key], 20)} {short(float(weights[key]))}"
        for key in strongest
        if weights[key] > 0
    ]
    sheet.at += 0.03
    sheet.paragraph("Most at " + " · ".join(told) if told else "It looks nowhere.")
    if partial:
        known = float(weights.sum())
        sheet.paragraph(
            f"Only the strongest keys were kept: what is shaded is {known:.2f} of the weight."
        )
    return sheet


def _weights(places: list[Place], head: int | None, token: int) -> tuple[Array, bool]:
    """(Nk,): the mean over heads and layers, and whether some of it is not known."""
    rows: list[Array] = []
    partial = False
    for place in places:
        layer, b = place.layer, place.sequence
        query = token - place.offset
        real = place.layer.queries
        if not 0 <= query < layer.shape[2] or (real is not None and not real[b, query]):
            raise ValueError(
                f"{CALL}: token must be one that looks at others in {place.layer.name}; got "
                f"{token}, which does not. They are from {place.queries.start + place.offset} to "
                f"{place.queries.stop + place.offset - 1}."
            )
        if layer.has_weights:
            row = layer.weights(head, rows=slice(query, query + 1), sequence=b)
            rows.append(row.double().cpu().numpy().reshape(-1, layer.shape[3]).mean(0))
            continue
        place.need_keys()
        assert layer.top_keys is not None
        assert layer.top_weights is not None
        heads = slice(None) if head is None else slice(head, head + 1)
        keys = layer.top_keys[b, heads, query].cpu().numpy()
        values = layer.top_weights[b, heads, query].double().cpu().numpy()
        row = np.zeros(layer.shape[3])
        np.add.at(row, keys[keys >= 0], values[keys >= 0])
        rows.append(row / len(keys))
        partial |= bool(len(values[0]) < layer.shape[3])
    return np.mean(rows, axis=0), partial


# ── words and lines ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Word:
    """A token as it is drawn: after a blank or a new line, if there is one before it."""

    text: str
    weight: float
    place: int
    blank: bool = False
    breaks: bool = False
    special: bool = False

    def letters(self, size: float) -> float:
        return size * (0.8 if self.special else 1.0)

    def width(self, size: float) -> float:
        return size_of(self.text, self.letters(size))[0] + 2 * _PAD if self.text else _PART


def _words(place: Place, weights: Array) -> list[_Word]:
    """The tokens in their places in the text; of several on one character, the first has it."""
    known = place.codes >= 0
    if place.tokens is None or not known.any():
        return [_Word(str(at), float(weights[at]), at, blank=True) for at in range(len(weights))]
    rest = iter(place.tokens)
    words: list[_Word] = []
    before: Token | None = None
    for at in range(place.keys.start, place.keys.stop):
        if not known[at]:
            continue
        token, text = next(rest), place.text
        word = _Word("", float(weights[at]), at)
        special = token.end == token.start
        if special or before is None or (token.start, token.end) != (before.start, before.end):
            lead = token.text[: len(token.text) - len(token.text.lstrip())]
            if text is not None and before is not None:
                lead = text[before.end : token.start] + lead
            word = replace(
                word,
                text=token.label,
                blank=special or bool(lead),
                breaks="\n" in lead,
                special=special,
            )
        words.append(replace(word, blank=True) if words and words[-1].special else word)
        before = before if special else token
    return words


def _lines(words: list[_Word], size: float, room: float) -> list[list[_Word]]:
    lines: list[list[_Word]] = [[]]
    at = 0.0
    for word in words:
        width = word.width(size)
        gap = size * _BLANK / 72 if word.blank and lines[-1] else 0.0
        if lines[-1] and (word.breaks or at + gap + width > room):
            lines.append([])
            at = gap = 0.0
        lines[-1].append(word)
        at += gap + width
    return lines


def _draw(sheet: Sheet, words: list[_Word], at: int, scale: Range) -> None:
    size = next(size for most, size in _SIZES if len(words) <= most)
    step = size / 72 * _HIGH
    lines = _lines(words, size, sheet.width - 2 * MARGIN)
    weights = [sum(word.weight for word in line) for line in lines]
    shown = set(range(len(lines)))
    room = max(3, int((TALLEST - sheet.at - 0.9) / step))
    if len(lines) > room:
        own = next(n for n, line in enumerate(lines) if any(word.place == at for word in line))
        order = sorted(shown, key=lambda n: (n != own, -weights[n]))
        # Each line may have a line before it that says how many are left out.
        shown = set(order[: max(1, int(room * 0.6))])
        shown |= {n for n in range(len(lines)) if {n - 1, n + 1} <= shown}  # a gap of one is none
    last = -1
    for n in [*sorted(shown), len(lines)]:
        if n > last + 1:
            left_out = f"… {counted(n - last - 1, 'line')} left out"
            text = f"{left_out}, with {sum(weights[last + 1 : n]):.3f} of the weight"
            sheet.text(MARGIN, sheet.at + step * 0.4, text, 6.0, colour=sheet.colours.faint)
            sheet.at += step * 0.8
        if n < len(lines):
            _draw_line(sheet, lines[n], at, scale, size, step)
        last = n


def _draw_line(
    sheet: Sheet, line: list[_Word], chosen: int, scale: Range, size: float, step: float
) -> None:
    x, y = MARGIN, sheet.at + step / 2
    high = step * 0.78
    for word in line:
        if word.blank and x > MARGIN:
            x += size * _BLANK / 72
        box = x, y - high / 2, word.width(size), high
        colour = sheet.colours.heat(scale.share(np.array(word.weight)))
        sheet.box(*box, fill=f"#{colour.tobytes().hex()}")
        if word.special or not word.text:
            sheet.box(*box, edge=sheet.colours.edge)
        sheet.text(x + _PAD, y, word.text, word.letters(size), colour=ink_on(colour))
        if word.place == chosen:
            sheet.box(*box, edge=sheet.colours.accent, line=1.2)
        x += box[2]
    sheet.at += step
