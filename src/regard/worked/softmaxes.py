"""A softmax by where it stands: numbers, the word “softmax”, and as many numbers that sum to 1.

That needs no name, and people write it in every form: as rows in brackets, one number a line, two
tables. What the scores were divided by is often not said. So weights are wrong only if they are no
softmax by any divisor that people use: 1, a whole number, the root of one, or a number that is
printed between the two.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from regard._intervals import Intervals, softmax_rows
from regard.reference import Array
from regard.worked.links import Link
from regard.written.figures import Figure
from regard.written.found import Found, Value
from regard.written.source import Source
from regard.written.words import is_exponential, is_sum, kind_in

__all__ = ["any_divisor", "softmaxes"]

_DIVISORS = np.concatenate([np.sqrt(np.arange(1, 257)), np.arange(17, 65), np.geomspace(16, 64)])
_USUAL = np.concatenate([np.arange(1.0, 9.0), np.sqrt([2, 3, 5, 6, 8, 32, 128, 512]), [16.0]])
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
    scores: Array,
    rows: Sequence[Sequence[Figure]],
    more: Iterable[float] = (),
    *,
    usual: bool = False,
) -> bool:
    """Whether the figures can be a softmax of the rows of scores, divided by something.

    `usual` takes only what examples are divided by: few whole numbers and roots.
    """
    printed = np.array([[f.value for f in row] for row in rows])
    units = np.array([[f.unit for f in row] for row in rows])
    divisors = np.concatenate([_USUAL if usual else _DIVISORS, [d for d in more if d > 0]])
    with np.errstate(invalid="ignore", over="ignore"):
        weights = softmax_rows(Intervals.exactly(scores / divisors[:, None, None])).middle
    rounded = np.abs(weights - printed) <= (0.6 if usual else 1.5) * units
    cut_off = (printed <= weights + 1e-9) & (weights < printed + units)
    return bool((rounded.all(axis=(1, 2)) | cut_off.all(axis=(1, 2))).any())


def softmaxes(source: Source, found: Found, told: set[int]) -> list[Link]:
    """The weights that stand below their scores with a softmax between, right or wrong.

    Of some figures it is `told` already, by where they start, what they are.
    """
    starts = [start for start, _ in found.lines]
    series = list(_series(source, [value for value in found.values if not value.is_code]))
    written = source.text.splitlines()

    def line_of(start: int) -> str:
        number = source.line(start)
        return written[number - 1] if number <= len(written) else ""

    links: list[Link] = []
    for k, weights in enumerate(series):
        are_weights = _is_distribution(weights) or _is_softmax(line_of(weights.start), weights)
        if not are_weights or weights.rows[0][0].start in told:
            continue
        for scores in series[max(0, k - _BACK) : k][::-1]:
            between = _between(source, found, starts, scores, weights)
            if between is None:
                break
            is_next = len(between.strip()) < _NEAR
            if _numbers(scores) == _numbers(weights):
                break  # printed again
            if not between:
                continue
            if scores.shape == weights.shape and _may_be_scores(scores, is_next=is_next):
                link = _judged(scores, weights, between)
                links += [link] if link is not None else []
                break
            if scores.shape == weights.shape and _is_distribution(scores):
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
    if any(not _MARK.search(line) for line in headings) or len(headings) > 1:
        return None
    start = scores.rows[0][0].start
    around = source.text[max(0, start - 2 * _NEAR) : last] if "\n" not in text else text
    if _MARK.search(around) or _MARK.search(weights.lead) or _are_named(scores, weights):
        return text or " "
    return ""


def _are_named(scores: Value, weights: Value) -> bool:
    """`scores = …`, `weights = …`."""
    of_scores = kind_in(scores.lead) in ("scores", "scaled") and scores.is_assigned
    return of_scores and kind_in(weights.lead) == "weights" and weights.is_assigned


def _may_be_scores(value: Value, *, is_next: bool) -> bool:
    """Scores by their name; or anything but weights and exponentials, right before a softmax."""
    named = (kind_in(text) for text in (value.lead, *value.titles[:2]) if text)
    is_named = next(filter(None, named), None) in ("scores", "scaled")
    figures = [figure for row in value.rows for figure in row]
    if is_exponential(value.lead) or any("%" in figure.text for figure in figures):
        return False
    return is_named or (is_next and not _is_distribution(value))


def _judged(scores: Value, weights: Value, between: str) -> Link | None:
    values = np.array([[f.value for f in row] for row in scores.rows])
    if _MASK.search(between):
        hidden = np.array([[f.value == 0 for f in row] for row in weights.rows])
        values = np.where(hidden, -np.inf, values)
    half = np.array([[f.unit / 2 if f.unit < 1 else 0.0 for f in row] for row in scores.rows])
    near = softmax_rows(Intervals(values - half, values + half))
    exact = softmax_rows(Intervals.exactly(values)).middle
    astray = [
        (figure, float(exact[i, j]))
        for i, row in enumerate(weights.rows)
        for j, figure in enumerate(row)
        if not near.low[i, j] - figure.unit <= figure.value <= near.high[i, j] + figure.unit
    ]
    how = "the softmax of the scores before it"
    if not astray:
        return Link(weights, "weights", how, [])
    numbers = [float(m[0]) for m in _DIVISOR.finditer(between[:2000])]
    if _OTHERWISE.search(between) or any_divisor(values, weights.rows, numbers):
        return None
    text = "no divisor of the scores before it gives these weights; undivided, they give this"
    return Link(weights, "weights", how, astray, text)


# ── series ────────────────────────────────────────────────────────────────────────────────────


def _is_softmax(line: str, value: Value) -> bool:
    """Said to be one right where it stands, whatever it sums to."""
    near = f"{value.titles[0] if value.titles else ''} {value.lead}"
    figures = [figure for row in value.rows for figure in row]
    alone = _ALONE.fullmatch(line)
    said = (
        (value.is_assigned or alone)
        and _MARK.search(near)
        and len(near) < _NEAR
        and (kind_in(value.lead) or kind_in(near)) == "weights"
    )
    return bool(said) and len(value.rows[0]) > 1 and all(0 <= f.value < 1 for f in figures)


def _numbers(value: Value) -> list[str]:
    return [figure.text for row in value.rows for figure in row]


def _is_distribution(value: Value) -> bool:
    for row in value.rows:
        slack = 0.011 + sum(figure.unit for figure in row) / 2
        if len(row) < 2 or not all(0 <= figure.value <= 1 for figure in row):
            return False
        if abs(sum(figure.value for figure in row) - 1) > slack:
            return False
    return any(0 < figure.value < 1 for row in value.rows for figure in row)


def _series(source: Source, values: list[Value]) -> Iterator[Value]:
    """Rows of numbers: matrices, vectors, columns laid down, numbers that stand one a line."""
    listed: list[Value] = []
    for value in [*values, None]:
        if value is not None and value.is_number and not is_sum(value.lead.strip(" =:≈\t")):
            if listed and not _goes_on(source, listed[-1], value):
                yield from _laid_down(listed)
                listed = []
            listed.append(value)
            continue
        yield from _laid_down(listed)
        listed = []
        if value is None or value.is_number or value.shape[0] * value.shape[1] > _MOST_CELLS:
            continue
        if value.shape[1] == 1 < value.shape[0]:
            yield replace(value, rows=[[row[0] for row in value.rows]])
        elif len({len(row) for row in value.rows}) == 1:
            yield value


def _goes_on(source: Source, last: Value, value: Value) -> bool:
    """Whether a number stands below another, behind the same kind of words."""
    lines = source.line(value.start) - source.line(last.start)
    above = value.titles[0] if value.titles else ""
    nothing_between = value.titles[:1] == last.titles[:1] or last.figure.text in above
    return 0 < lines <= 2 and nothing_between and _form(last.lead) == _form(value.lead)


def _form(lead: str) -> str:
    """What stands left of a number, without its words and blanks."""
    return re.sub(r"[\"'“”‘’][^\"'“”‘’]*[\"'“”‘’]|[^\W_]+(?:\.\d+)?", "w", lead).replace(" ", "")


def _laid_down(listed: list[Value]) -> Iterator[Value]:
    if len(listed) > 1:
        first = listed[0]
        yield Value(
            first.start, [[v.figure for v in listed]], first.lead, first.titles, is_vector=True
        )
