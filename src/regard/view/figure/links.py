"""Who looks at whom, as lines: tokens on the left look at tokens on the right, heads by colour."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.run.edge_filter import FilteredEdges, filter_edges
from regard.run.edges import check
from regard.text import counted
from regard.view.figure.legend import key, short
from regard.view.figure.letters import width_of
from regard.view.figure.matrix import round_places
from regard.view.figure.places import CALL, Asked, Place
from regard.view.figure.sheet import LINE, MARGIN, TALLEST, Across, Paper, Sheet
from regard.view.labels import fit

_MOST = 2000  # lines: the strongest
_CURVED = 600  # lines that may bend: more of them are straight, as a file should stay small
_MOST_NAMES = 64
_LARGEST, _SMALLEST = 8.0, 5.0  # points of a name
_WIDEST = 3.4  # inches between the two sides
_SIZE = 6.0
_TIMES = np.linspace(0.0, 1.0, 25)


def draw(paper: Paper, asked: Asked) -> Sheet:
    """The links of a layer, or of one head, of at least `min_weight`."""
    place = asked.place()
    head, layer = asked.head_of(place), place.layer
    least, _ = check(CALL, asked.min_weight, None)
    place.need_keys()
    heads = list(range(layer.shape[1])) if head is None else [head]
    found = filter_edges(layer, least, None, heads)
    chosen = np.flatnonzero(found.sequence == place.sequence)
    chosen = chosen[np.argsort(-found.weight[chosen], kind="stable")]
    shown = chosen[:_MOST][::-1]  # the strongest last, on top of the others
    which = f"Layer {place.index}" if head is None else f"Head {place.index}.{head}"
    cut = "" if len(shown) == len(chosen) else f", of which the {len(shown):,} strongest are drawn"
    sheet = Sheet(
        paper,
        f"{which}: where each token looks",
        f"{place.described}. From the left to the right: {counted(len(chosen), 'link')} of a "
        f"weight of at least {short(least)}{cut}.",
    )
    _draw(sheet, place, found, shown)
    if head is None:
        key(sheet, [(str(h), sheet.colours.head(h)) for h in heads], "head")
    if len(found.truncated):
        sheet.paragraph(
            "Only the strongest keys of each token were kept: there may be more links than these."
        )
    return sheet


def _draw(sheet: Sheet, place: Place, found: FilteredEdges, shown: NDArray[np.int64]) -> None:
    spans = place.queries, place.keys
    most = max(1, *(span.stop - span.start for span in spans))
    step = min(0.165, (TALLEST - sheet.at - 0.6) / most)
    size = min(_LARGEST, step * 72 / 1.25)
    named = size >= _SMALLEST and most <= _MOST_NAMES
    texts: list[list[str]] = [[], []]
    if named:
        for n, known in enumerate((place.query_names(), place.key_names())):
            known = known or [str(at) for at in range(spans[n].stop)]
            texts[n] = [fit(text, 18) for text in known[spans[n]]]
    else:
        step = min(step, 6.0 / most)
    room = [max((width_of(text, size) for text in each), default=0.35) for each in texts]
    middle = min(_WIDEST, sheet.width - 2 * MARGIN - sum(room) - 0.2)
    left = (sheet.width - middle - sum(room) - 0.2) / 2 + room[0] + 0.1
    right, top = left + middle, sheet.at + 0.2
    faint = sheet.colours.faint
    sides: list[tuple[float, Across, int, str, int]] = [  # x, …, away from the lines, title, offset
        (left, "right", -1, "looks", place.offset),
        (right, "left", 1, "is looked at", 0),
    ]
    weights = np.clip(found.weight[shown].astype(float), 0.0, 1.0)
    start = top + (found.query[shown] - spans[0].start + 0.5) * step
    end = top + (found.key[shown] - spans[1].start + 0.5) * step
    times = _TIMES if len(shown) <= _CURVED else _TIMES[[0, -1]]
    bend = times**2 * (3 - 2 * times)  # leaves and arrives level
    y = start[:, None] + (end - start)[:, None] * bend
    points = np.stack([np.broadcast_to(left + times * middle, y.shape), y], axis=-1)
    colours = [  # each with its opacity
        (sheet.colours.head(int(head)), 0.2 + 0.8 * weight)
        for head, weight in zip(found.head[shown], weights, strict=True)
    ]
    thick = min(2.0, step * 72 * 0.4)  # points: lines between neighbours should not touch
    sheet.lines(list(points.round(4)), colours, (thick * (0.15 + 0.85 * weights)).tolist())
    for (x, across, away, title, offset), span, each in zip(sides, spans, texts, strict=True):
        sheet.text(x, sheet.at + 0.06, title, _SIZE, across=across, colour=faint)
        for n, text in enumerate(each):
            sheet.text(x + away * 0.05, top + (n + 0.5) * step, text, size, across=across)
        if named:
            continue
        sheet.lines([[(x, top), (x, top + (span.stop - span.start) * step)]], faint)
        for at in round_places(span.start + offset, span.stop + offset, most=12):
            y = top + (at - offset - span.start + 0.5) * step
            sheet.lines([[(x, y), (x + away * 0.04 * 0.7, y)]], faint)
            sheet.text(x + away * 0.04, y, f"{at:,}", _SIZE, across=across)
    if not len(shown):
        between = (left + right) / 2, top + most * step / 2
        sheet.text(*between, "no link is as strong", _SIZE, across="center", colour=faint)
    sheet.at = top + most * step + _SIZE / 72 * (LINE - 1)
