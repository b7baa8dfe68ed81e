"""A softmax by where it stands: numbers, the word “softmax”, and as many numbers that sum to 1.

That needs no name, and people write it in every form: as rows in brackets, one number a line, two
tables. What the scores were divided by is often not said. So weights are wrong only if they are no
softmax by any divisor that people use: 1, a whole number, the root of one, or a number that is
printed between the two.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from regard._intervals import Intervals, softmax_rows
from regard.reference import Array
from regard.worked.links import Item, Link, numbers
from regard.written.figures import Figure
from regard.written.found import Found, Value
from regard.written.names import name_of
from regard.written.series import series
from regard.written.source import Source
from regard.written.words import is_exponential, is_supposed, kind_in

__all__ = ["USUAL_DIVISORS", "any_divisor", "softmaxes"]

# What examples are divided by, and what anything may be.
USUAL_DIVISORS = np.append(np.arange(1.0, 9.0), np.sqrt([2, 3, 5, 6, 8, 32, 128, 256, 512]))
_DIVISORS = np.concatenate([np.sqrt(np.arange(1, 257)), np.arange(17, 65), np.geomspace(16, 64)])
_MARK = re.compile(r"soft-?max|소프트 ?맥스|সফটম্যাক্স|ソフトマックス", re.IGNORECASE)
_MASK = re.compile(r"mask|causal|padding|마스|মাস্ক|掩|遮|マスク|masc", re.IGNORECASE)
_OTHERWISE = re.compile(
    r"temperatur|温度|온도|nhiệt độ|температур|τ|top-?[kp]\b|dropout|sharpen|label smooth",
    re.IGNORECASE,
)
_DIVISOR = re.compile(r"(?<![\w.])\d{1,6}(?:\.\d{1,6})?(?![\w.])")
_ALONE = re.compile(r"\W*\[[\d.,;%\s]*\]\W*(?:\([^()]*\)\W*)?")  # numbers in brackets, on a line
_MOST_CELLS = 400
_MOST_LINES = 30  # between the scores and their weights
_NEAR = 60  # characters between them, if nothing names the scores
_BACK = 3  # how many series before the weights are looked at


def any_divisor(
    scores: Array, rows: Sequence[Sequence[Figure]], divisors: Array, *, room: float
) -> bool:
    """Whether the figures can be a softmax of the rows of scores, divided by one of some numbers.

    Each may be off by `room` steps of its last digit, or be cut off.
    """
    printed, units = numbers(rows)
    with np.errstate(invalid="ignore", over="ignore"):
        weights = softmax_rows(Intervals.exactly(scores / divisors[:, None, None])).middle
    rounded = np.abs(weights - printed) <= room * units
    cut_off = (printed <= weights + 1e-9) & (weights < printed + units)
    return bool((rounded.all(axis=(1, 2)) | cut_off.all(axis=(1, 2))).any())


def softmaxes(source: Source, found: Found, told: set[int]) -> list[Link]:
    """The weights that stand below their scores with a softmax between, right or wrong.

    Of some figures it is `told` already, by where they start, what they are.
    """
    starts = [start for start, _ in found.lines]
    rows = series(source, [value for value in found.values if not value.is_code])
    rows = [value for value in rows if value.shape[0] * value.shape[1] <= _MOST_CELLS]
    links: list[Link] = []
    for k, weights in enumerate(rows):
        line = source.line_at(weights.start)
        are_weights = weights.is_distribution or _is_softmax(line, weights)
        if not are_weights or weights.rows[0][0].start in told:
            continue
        for scores in rows[max(0, k - _BACK) : k][::-1]:
            between = _between(source, found, starts, scores, weights)
            again = [f.text for f in scores.figures] == [f.text for f in weights.figures]
            if between is None or again:
                break
            if not between or scores.shape != weights.shape:
                continue
            if _may_be_scores(scores, is_next=len(between.strip()) < _NEAR):
                links += filter(None, [_judged(scores, weights, between)])
                break
            if scores.is_distribution:
                break  # the weights of what stands above
    return links


def _between(
    source: Source, found: Found, starts: list[int], scores: Value, weights: Value
) -> str | None:
    """The text from the scores to the weights, if they are near and it speaks of a softmax."""
    first, last = scores.rows[-1][-1].end, weights.rows[0][0].start
    if source.line(last) - source.line(first) > _MOST_LINES:
        return None
    text = source.text[first:last]
    headings = [
        line
        for _, line in found.lines[bisect_left(starts, first) : bisect_right(starts, last)]
        if line.startswith("# ")
    ]
    others = [line for line in headings if not _MARK.search(line)]
    if len(headings) - len(others) > 1 or any(kind_in(line) != "scaled" for line in others):
        return None
    line = source.text.rfind("\n", 0, scores.rows[0][0].start) + 1
    around = source.text[max(line, first - 4 * _NEAR) : last] if "\n" not in text else text
    kinds = [kind_in(value.lead) if value.is_assigned else None for value in (scores, weights)]
    are_named = kinds[0] in ("scores", "scaled") and kinds[1] == "weights"
    said = _MARK.search(around) or _MARK.search(weights.lead) or are_named
    return (text or " ") if said else ""


def _may_be_scores(value: Value, *, is_next: bool) -> bool:
    """Scores by their name; or anything but weights and exponentials, right before a softmax."""
    own = name_of(value.lead) if value.is_assigned else None
    named = (kind_in(text) for text in (value.lead, *value.titles[:2]) if text)
    kind = own.kind if own is not None else next(filter(None, named), None)
    is_named = kind in ("scores", "scaled")
    if is_exponential(value.lead) or any("%" in figure.text for figure in value.figures):
        return False
    return is_named or (is_next and not value.is_distribution)


def _judged(scores: Value, weights: Value, between: str) -> Link | None:
    (printed, units), box = numbers(weights.rows), Item(scores).box
    if _MASK.search(between):
        box = box.where(printed != 0, -np.inf)
    how = "the softmax of the scores before it"
    near = softmax_rows(box)
    astray = np.flatnonzero((printed < near.low - units) | (printed > near.high + units))
    if not astray.size:
        return Link(weights, "weights", how, [])
    said = [float(m[0]) for m in _DIVISOR.finditer(between[:2000])]
    divisors = np.append(_DIVISORS, [d for d in said if d > 0])
    if _OTHERWISE.search(between) or is_supposed(between):
        return None
    if any_divisor(box.middle, weights.rows, divisors, room=1.5):
        return None
    exact = softmax_rows(Intervals.exactly(box.middle)).low.ravel()
    wrong = [(weights.figures[k], float(exact[k])) for k in astray]
    text = "no divisor of the scores before it gives these weights; undivided, they give this"
    return Link(weights, "weights", how, wrong, text)


def _is_softmax(line: str, value: Value) -> bool:
    """Said to be one right where it stands, whatever it sums to."""
    near = f"{value.titles[0] if value.titles else ''} {value.lead}"
    alone = _ALONE.fullmatch(line)
    said = (
        (value.is_assigned or alone)
        and _MARK.search(near)
        and len(near) < _NEAR
        and (kind_in(value.lead) or kind_in(near)) == "weights"
    )
    return bool(said) and len(value.rows[0]) > 1 and all(0 <= f.value < 1 for f in value.figures)
