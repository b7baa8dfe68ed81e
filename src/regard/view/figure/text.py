"""The text itself, each token shaded by how much one of them looks at it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regard.reference import Array
from regard.text import Token, counted
from regard.view.colours import Range, ink_on
from regard.view.figure.legend import bar_across, short
from regard.view.figure.letters import width_of
from regard.view.figure.places import CALL, Asked, Place
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet
from regard.view.labels import fit
from regard.view.names import model_name

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
    of = f" of {name}" if (name := model_name(asked.run)) else ""
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
        return width_of(self.text, self.letters(size)) + 2 * _PAD if self.text else _PART


def _words(place: Place, weights: Array) -> list[_Word]:
    """The tokens in their places in the text; of several on one character, the first has it."""
    known = place.codes >= 0
    if place.tokens is None or not known.any():
        return [_Word(str(at), float(weights[at]), at, blank=True) for at in range(len(weights))]
    text, keys = place.text, place.keys
    words: list[_Word] = []
    before: Token | None = None
    for token, at in zip(place.tokens, np.flatnonzero(known).tolist(), strict=False):
        if not keys.start <= at < keys.stop:
            continue
        word = _Word("", float(weights[at]), at)
        special = token.end == token.start
        if special or before is None or (token.start, token.end) != (before.start, before.end):
            lead = token.text[: len(token.text) - len(token.text.lstrip())]
            if text is not None and before is not None:
                lead = text[before.end : token.start] + lead
            blank, breaks = special or bool(lead), "\n" in lead
            word = _Word(token.label, word.weight, at, blank, breaks, special)
        words.append(replace(word, blank=True) if words and words[-1].special else word)
        before = before if special else token
    return words


def _draw(sheet: Sheet, words: list[_Word], at: int, scale: Range) -> None:
    size = next(size for most, size in _SIZES if len(words) <= most)
    step, gap = size / 72 * _HIGH, size * _BLANK / 72
    lines: list[list[tuple[float, _Word]]] = []  # each word with its place on the line
    x = MARGIN
    for word in words:
        x += gap if word.blank else 0.0
        if not lines or word.breaks or x + word.width(size) > sheet.width - MARGIN:
            lines.append([])
            x = MARGIN
        lines[-1].append((x, word))
        x += word.width(size)
    weights = [sum(word.weight for _, word in line) for line in lines]
    shown = set(range(len(lines)))
    room = max(3, int((TALLEST - sheet.at - 0.9) / step))
    if len(lines) > room:
        own = next(n for n, line in enumerate(lines) if any(word.place == at for _, word in line))
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
        for x, word in lines[n] if n < len(lines) else ():
            box = x, sheet.at + step * 0.11, word.width(size), step * 0.78
            colour = sheet.colours.heat(scale.share(np.array(word.weight)))
            sheet.box(box, fill=f"#{colour.tobytes().hex()}")
            if word.special or not word.text:
                sheet.box(box, edge=sheet.colours.edge)
            middle = sheet.at + step / 2
            sheet.text(x + _PAD, middle, word.text, word.letters(size), colour=ink_on(colour))
            if word.place == at:
                sheet.box(box, edge=sheet.colours.accent, line=1.2)
        sheet.at += step if n < len(lines) else 0.0
        last = n
