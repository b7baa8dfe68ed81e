"""Who looks at whom, as lines: tokens on the left look at tokens on the right, heads by colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.run.edge_filter import filter_edges
from regard.run.edges import check
from regard.view.figure.legend import key, short
from regard.view.figure.letters import size_of
from regard.view.figure.matrix import round_places
from regard.view.figure.places import CALL, Place
from regard.view.figure.sheet import LINE, MARGIN, TALLEST, Across, Paper, Sheet
from regard.view.labels import fit
from regard.view.lines import counted

if TYPE_CHECKING:
    from regard.run.edge_filter import FilteredEdges

_MOST = 2000  # lines: the strongest
_CURVED = 600  # lines that may bend: more of them are straight, as a file should stay small
_MOST_NAMES = 64
_LARGEST, _SMALLEST = 8.0, 5.0  # points of a name
_WIDEST = 3.4  # inches between the two sides
_SIZE = 6.0
_TIMES = np.linspace(0.0, 1.0, 25)


def draw_links(paper: Paper, place: Place, head: int | None, min_weight: float) -> Sheet:
    """The links of a layer, or of one head, of at least `min_weight`."""
    layer = place.layer
    least, _ = check(CALL, min_weight, None)
    if layer.top_keys is None and not layer.has_weights:
        raise ValueError(
            f"{CALL}: q and k of {layer.name}, or its strongest keys, must have been kept; neither "
            'were. regard.watch(…, keep=("q", "k")) or See(top=8) brings them.'
        )
    heads = list(range(layer.shape[1])) if head is None else [head]
    found = filter_edges(layer, least, None, heads)
    chosen = np.flatnonzero(found.sequence == place.sequence)
    chosen = chosen[np.argsort(-found.weight[chosen], kind="stable")]
    shown = chosen[:_MOST][::-1]  # the strongest last, on top of the others
    which = f"Head {place.index}.{head}" if head is not None else f"Layer {place.index}"
    of = f" of {place.run.model}" if place.run.model else ""
    number = counted(len(chosen), "link")
    cut = "" if len(shown) == len(chosen) else f", of which the {len(shown):,} strongest are drawn"
    sheet = Sheet(
        paper,
        f"{which}: where each token looks",
        f"{layer.name}{of}. From the left to the right: {number} of a weight of at least "
        f"{short(least)}{cut}.",
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
    queries, keys = place.queries, place.keys
    sides = (queries.stop - queries.start, keys.stop - keys.start)
    step = min(0.165, (TALLEST - sheet.at - 0.6) / max(*sides, 1))
    names = [place.query_names(), place.key_names()]
    size = min(_LARGEST, step * 72 / 1.25)
    named = size >= _SMALLEST and max(sides) <= _MOST_NAMES
    if not named:
        step = min(step, 6.0 / max(*sides, 1))
    texts: list[list[str]] = [[], []]
    for n, (span, known) in enumerate(zip((queries, keys), names, strict=True)):
        if named:
            known = known or [str(at) for at in range(span.stop)]
            texts[n] = [fit(text, 18) for text in known[span]]
    room = [max((size_of(text, size)[0] for text in each), default=0.35) for each in texts]
    middle = min(_WIDEST, sheet.width - 2 * MARGIN - sum(room) - 0.2)
    left = (sheet.width - middle - sum(room) - 0.2) / 2 + room[0] + 0.1
    right, top = left + middle, sheet.at + 0.2
    titles: list[tuple[float, str, Across]]
    titles = [(left, "looks", "right"), (right, "is looked at", "left")]
    for x, title, across in titles:
        sheet.text(x, sheet.at + 0.06, title, _SIZE, across=across, colour=sheet.colours.faint)
    _lines(sheet, found, shown, (left, right), top, step, (queries.start, keys.start))
    gap = 0.05 if named else 0.0
    spots: list[tuple[float, Across, slice]]
    spots = [(left - gap, "right", queries), (right + gap, "left", keys)]
    for (x, across, span), each in zip(spots, texts, strict=True):
        if named:
            for n, text in enumerate(each):
                sheet.text(x, top + (n + 0.5) * step, text, size, across=across)
            continue
        sheet.lines([[(x, top), (x, top + (span.stop - span.start) * step)]], sheet.colours.faint)
        away = -0.04 if across == "right" else 0.04
        offset = place.offset if across == "right" else 0
        for at in round_places(span.start + offset, span.stop + offset, most=12):
            y = top + (at - offset - span.start + 0.5) * step
            sheet.lines([[(x, y), (x + away * 0.7, y)]], sheet.colours.faint)
            sheet.text(x + away, y, f"{at:,}", _SIZE, across=across)
    if not len(shown):
        sheet.text(
            (left + right) / 2, top + max(*sides, 1) * step / 2, "no link is as strong",
            _SIZE, across="center", colour=sheet.colours.faint,
        )  # fmt: skip
    sheet.at = top + max(*sides, 1) * step + _SIZE / 72 * (LINE - 1)


def _lines(
    sheet: Sheet,
    found: FilteredEdges,
    shown: NDArray[np.int64],
    sides: tuple[float, float],
    top: float,
    step: float,
    first: tuple[int, int],
) -> None:
    from matplotlib.colors import to_rgba

    weights = np.clip(found.weight[shown].astype(float), 0.0, 1.0)
    start = top + (found.query[shown] - first[0] + 0.5) * step
    end = top + (found.key[shown] - first[1] + 0.5) * step
    times = _TIMES if len(shown) <= _CURVED else _TIMES[[0, -1]]
    bend = times**2 * (3 - 2 * times)  # leaves and arrives level
    x = sides[0] + times * (sides[1] - sides[0])
    y = start[:, None] + (end - start)[:, None] * bend
    points = np.stack([np.broadcast_to(x, y.shape), y], axis=-1)
    colours = [
        to_rgba(sheet.colours.head(int(head)), 0.2 + 0.8 * weight)
        for head, weight in zip(found.head[shown], weights, strict=True)
    ]
    most = min(2.0, step * 72 * 0.4)  # points: lines between neighbours should not touch
    thick = most * (0.15 + 0.85 * weights)
    sheet.lines(list(points.round(4)), colours, thick.tolist())
