"""The text itself, each token shaded by how much one of them looks at it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regard.reference import Array
from regard.text import Token
from regard.view.figure.colours import Range, ink_on
from regard.view.figure.legend import bar_across, short
from regard.view.figure.letters import size_of
from regard.view.figure.places import CALL, Place, find_head, find_layer, find_token_place
from regard.view.figure.sheet import MARGIN, TALLEST, Paper, Sheet
from regard.view.labels import fit

if TYPE_CHECKING:
    from regard.run import Run
    from regard.run.choose import Which

_SIZES = ((150, 9.0), (600, 8.0), (2**62, 7.0))  # points, for texts of so many tokens
_HIGH = 1.75  # a line, in heights of its letters
_PAD = 0.012  # inches around a word
_PART = 0.06  # inches of a token that is a part of a character
_NAMED = 6  # of the strongest


def draw_text(
    paper: Paper,
    run: Run,
    layer: Which | None,
    head: int | None,
    token: int | str | None,
    sequence: int,
    log: bool,
) -> Sheet:
    """Where one token looks: in a head, on average over a layer, or over all of them."""
    places = _places(run, layer, sequence)
    at = find_token_place(places[0], token)
    chosen = None if head is None else find_head(places[0], head, "text")
    weights, partial = _weights(places, chosen, at)
    scale = Range.of(weights, log)
    words = _words(places[0], weights)
    name = _name(places[0], at)
    sheet = Sheet(paper, f"Where “{fit(name, 40)}” looks", _remark(places, chosen))
    _draw(sheet, words, at, scale)
    bar_across(sheet, scale, "weight")
    _strongest(sheet, places[0], weights)
    if partial:
        known = float(weights.sum())
        sheet.paragraph(
            f"Only the strongest keys were kept: what is shaded is {known:.2f} of the weight."
        )
    return sheet


def _places(run: Run, layer: Which | None, sequence: int) -> list[Place]:
    """The layer that is asked for, or all that read this sequence."""
    if layer is not None:
        return [find_layer(run, layer, sequence, "text")]
    places = [find_layer(run, index, sequence, "text") for index in range(len(run.layers))]
    places = [place for place in places if not place.layer.cross] or places
    return [place for place in places if place.layer.shape[2:] == places[0].layer.shape[2:]]


def _weights(places: list[Place], head: int | None, token: int) -> tuple[Array, bool]:
    """(Nk,): the mean over heads and layers, and whether some of it is not known."""
    rows: list[Array] = []
    partial = False
    for place in places:
        layer, b = place.layer, place.sequence
        query = token - place.offset
        if not 0 <= query < layer.shape[2] or (
            layer.queries is not None and not layer.queries[b, query]
        ):
            raise ValueError(
                f"{CALL}: token must be one that looks at others in {place.layer.name}; got "
                f"{token}, which does not. They are from {place.queries.start + place.offset} to "
                f"{place.queries.stop + place.offset - 1}."
            )
        if layer.has_weights:
            row = layer.weights(head, rows=slice(query, query + 1), sequence=b)
            rows.append(row.double().cpu().numpy().reshape(-1, layer.shape[3]).mean(0))
            continue
        if layer.top_keys is None or layer.top_weights is None:
            raise ValueError(
                f"{CALL}: q and k of {layer.name}, or its strongest keys, must have been kept; "
                'neither were. regard.watch(…, keep=("q", "k")) or See(top=8) brings them.'
            )
        heads = slice(None) if head is None else slice(head, head + 1)
        keys = layer.top_keys[b, heads, query].cpu().numpy()
        values = layer.top_weights[b, heads, query].double().cpu().numpy()
        row = np.zeros(layer.shape[3])
        np.add.at(row, keys[keys >= 0], values[keys >= 0])
        rows.append(row / len(keys))
        partial |= bool(len(values[0]) < layer.shape[3])
    return np.mean(rows, axis=0), partial


def _remark(places: list[Place], head: int | None) -> str:
    run, layer = places[0].run, places[0].layer
    of = f" of {run.model}" if run.model else ""
    if head is not None and len(places) == 1:
        return f"Head {places[0].index}.{head}, {layer.name}{of}."
    which = f"layer {places[0].index}" if len(places) == 1 else f"all {len(places)} layers"
    if head is not None:
        return f"The mean over heads {head} of {which}{of}."
    return f"The mean over all heads of {which}{of}."


def _name(place: Place, at: int) -> str:
    names = place.key_names()
    return (names[at] if names else "") or str(at)


def _strongest(sheet: Sheet, place: Place, weights: Array) -> None:
    order = np.argsort(-np.nan_to_num(weights), kind="stable")[:_NAMED]
    told = [
        f"{fit(_name(place, int(key)), 20)} {short(float(weights[key]))}"
        for key in order
        if weights[key] > 0
    ]
    sheet.at += 0.03
    sheet.paragraph("Most at " + " · ".join(told) if told else "It looks nowhere.")


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

    def width(self, size: float) -> float:
        if not self.text:
            return _PART
        return size_of(self.text, size * (0.8 if self.special else 1.0))[0] + 2 * _PAD


@dataclass(frozen=True)
class _Line:
    words: tuple[_Word, ...]
    weight: float


def _words(place: Place, weights: Array) -> list[_Word]:
    """The tokens in their places in the text; of several on one character, the first has it."""
    run, keys = place.run, place.keys
    sequences = place.layer.tokens if place.layer.tokens is not None else run.tokens
    names = place.key_names()
    if names is None or sequences is None:
        return [_Word(str(at), float(weights[at]), at, blank=True) for at in range(len(weights))]
    text = run.text[place.sequence] if isinstance(run.text, list) else run.text
    rest = iter(sequences[place.sequence])
    known = place.codes >= 0
    words: list[_Word] = []
    before: Token | None = None
    for at in range(keys.start, keys.stop):
        if not known[at]:
            continue
        token = next(rest)
        word = _word(token, before, text, float(weights[at]), at)
        words.append(replace(word, blank=True) if words and words[-1].special else word)
        before = token if token.end > token.start else before
    return words


def _word(token: Token, before: Token | None, text: str | None, weight: float, at: int) -> _Word:
    special = token.end == token.start
    if (
        before is not None
        and not special
        and (token.start, token.end) == (before.start, before.end)
    ):
        return _Word("", weight, at)
    inside = token.text.strip()
    lead = token.text[: len(token.text) - len(token.text.lstrip())]
    between = text[before.end : token.start] if text is not None and before is not None else ""
    gap = between + lead
    return _Word(
        inside or token.text,
        weight,
        at,
        blank=special or bool(gap),
        breaks="\n" in gap,
        special=special,
    )


def _lines(words: list[_Word], size: float, room: float) -> list[_Line]:
    space = size * 0.3 / 72
    lines: list[list[_Word]] = [[]]
    at = 0.0
    for word in words:
        width = word.width(size)
        gap = space if word.blank and lines[-1] else 0.0
        if lines[-1] and (word.breaks or at + gap + width > room):
            lines.append([])
            at = gap = 0.0
        lines[-1].append(word)
        at += gap + width
    return [_Line(tuple(line), sum(word.weight for word in line)) for line in lines]


def _draw(sheet: Sheet, words: list[_Word], at: int, scale: Range) -> None:
    size = next(size for most, size in _SIZES if len(words) <= most)
    step = size / 72 * _HIGH
    lines = _lines(words, size, sheet.width - 2 * MARGIN)
    room = max(3, int((TALLEST - sheet.at - 0.9) / step))
    if len(lines) <= room:
        for line in lines:
            _draw_line(sheet, line, at, scale, size, step)
        return
    own = next(n for n, line in enumerate(lines) if any(word.place == at for word in line.words))
    order = sorted(range(len(lines)), key=lambda n: (n != own, -lines[n].weight))
    # Each line may have a line before it that says how many are left out.
    shown = set(order[: max(1, int(room * 0.6))])
    shown |= {n for n in range(len(lines)) if {n - 1, n + 1} <= shown}  # a gap of one is none
    last = -1
    for n in [*sorted(shown), len(lines)]:
        if n > last + 1:
            _left_out(sheet, lines[last + 1 : n], step)
        if n < len(lines):
            _draw_line(sheet, lines[n], at, scale, size, step)
        last = n


def _left_out(sheet: Sheet, lines: list[_Line], step: float) -> None:
    weight = sum(line.weight for line in lines)
    number = f"{len(lines):,} line{'s' * (len(lines) > 1)}"
    text = f"… {number} left out, with {weight:.3f} of the weight"
    sheet.text(MARGIN, sheet.at + step * 0.4, text, 6.0, colour=sheet.colours.faint)
    sheet.at += step * 0.8


def _draw_line(
    sheet: Sheet, line: _Line, chosen: int, scale: Range, size: float, step: float
) -> None:
    x, y = MARGIN, sheet.at + step / 2
    high = step * 0.78
    for word in line.words:
        if word.blank and x > MARGIN:
            x += size * 0.3 / 72
        width = word.width(size)
        colour = sheet.colours.heat(scale.share(np.array(word.weight)))
        fill = tuple(part / 255 for part in colour.tolist())
        sheet.box(x, y - high / 2, width, high, fill=fill)
        if word.special or not word.text:
            sheet.box(x, y - high / 2, width, high, edge=sheet.colours.edge)
        small = size * (0.8 if word.special else 1.0)
        sheet.text(x + _PAD, y, word.text, small, colour=ink_on(colour))
        if word.place == chosen:
            sheet.box(x, y - high / 2, width, high, edge=sheet.colours.accent, line=1.2)
        x += width
    sheet.at += step
