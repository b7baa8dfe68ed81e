"""Which matrix follows from which, by the numbers: a step that most of its numbers confirm.

The names only say what kind of step it can be; what it is made of is found among the values that
stand before it. So a matrix may be made of others than those it was taken to be made of: if one way
gives all of it, it is right; if one way gives nearly all of it, the rest is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard._intervals import Intervals, product, softmax_rows
from regard.reference import Array, allowed_keys
from regard.written.figures import Figure
from regard.written.found import Value
from regard.written.names import is_other_name, name_of

__all__ = ["Link", "any_temperature", "links"]

_WINDOW = 10  # values before it that a value may be made of
_MOST_CELLS = 400
_SIZES = (2, 3, 4, 8, 16, 64)


@dataclass
class Link:
    """What a value was found to be: `wrong` are the cells that the way `how` does not give."""

    value: Value
    kind: str
    how: str
    wrong: list[tuple[Figure, float]]

    @property
    def is_proof(self) -> bool:
        """Whether it was computed; printed twice, or by a guessed divisor, it is only not wrong."""
        return not self.how.startswith("?")


@dataclass
class _Item:
    value: Value
    kind: str | None
    box: Intervals
    is_plain: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.box.shape


def links(values: list[Value]) -> list[Link]:
    """What each value that has a name is made of, where that can be told."""
    found: list[Link] = []
    before: list[_Item] = []
    for value in values:
        rows, columns = value.shape
        if value.is_number or rows * columns < 2 or rows * columns > _MOST_CELLS:
            continue
        item = _Item(value, *_kind(value))
        with np.errstate(invalid="ignore"):
            link = _explain(item, before[::-1]) if item.kind is not None else None
        if link is not None:
            found.append(link)
            _allow_both(item, link)
        before.append(item)
        del before[:-_WINDOW]
    return found


def _allow_both(item: _Item, link: Link) -> None:
    """What follows may be made of a wrong number as printed, or of the right one."""
    figures = [figure for row in item.value.rows for figure in row]
    right = {figure.start: value for figure, value in link.wrong}
    for k, figure in enumerate(figures):
        if figure.start in right:
            low, high = sorted((figure.value, right[figure.start]))
            item.box.low.flat[k] = min(item.box.low.flat[k], low)
            item.box.high.flat[k] = max(item.box.high.flat[k], high)


def _kind(value: Value) -> tuple[str | None, Intervals, bool]:
    name = name_of(value.lead) if value.lead.strip() else None
    is_plain = name is not None and value.is_assigned
    titles = value.titles[:3] if name is None and not is_other_name(value.lead) else ()
    for title in titles:
        name = name or name_of(title)
    figures = [figure for row in value.rows for figure in row]
    kind = name.kind if name is not None else ""
    exact = kind in ("input", "embeddings", "positions", "context") or kind[:2] in ("W_", "b_")
    half = np.array([f.unit / 2 if f.unit < 1 and not exact else 0.0 for f in figures])
    numbers = np.array([f.value for f in figures])
    box = Intervals(*(e.reshape(value.shape) for e in (numbers - half, numbers + half)))
    return kind or None, box, is_plain


def _explain(item: _Item, before: list[_Item]) -> Link | None:
    figures = [figure for row in item.value.rows for figure in row]
    if not np.isfinite(item.box.low).all() and item.kind == "weights":
        return None
    best: tuple[int, str, Intervals] | None = None
    for how, made in _ways(item, before):
        if np.isnan(made.low).any() or np.isnan(made.high).any():
            continue
        if made.shape != item.shape:
            made = made.transposed
        misfits = sum(
            not _stands_for(f, low, high)
            for f, low, high in zip(figures, made.low.flat, made.high.flat, strict=True)
        )
        if (
            best is None
            or misfits < best[0]
            or (misfits == best[0] and best[1][0] == "?" != how[0])
        ):
            best = misfits, how, made
        if not misfits and how[0] != "?":
            break
    if best is None or item.kind is None:
        return None
    misfits, how, made = best
    if misfits and how[0] == "?":
        return None
    if misfits and not _is_confirmed(figures, made, misfits) and not _is_all_wrong(item, before):
        return None
    wrong = [
        (f, float((low + high) / 2))
        for f, low, high in zip(figures, made.low.flat, made.high.flat, strict=True)
        if not _stands_for(f, low, high)
    ]
    return Link(item.value, item.kind, how, wrong)


def _stands_for(figure: Figure, low: float, high: float) -> bool:
    if math.isinf(low) or math.isinf(high):
        return math.isinf(figure.value) or figure.value <= -1e4
    # Cut off, or a rounding more on the way.
    slack = 0.5 * figure.unit if figure.unit < 0.05 else 0.0
    return figure.may_stand_for(low - slack, high + slack)


def _is_confirmed(figures: list[Figure], made: Intervals, misfits: int) -> bool:
    """Enough numbers fit that cannot by chance, and few do not."""
    fitting = [
        f
        for f, low, high in zip(figures, made.low.flat, made.high.flat, strict=True)
        if _stands_for(f, low, high) and f.value not in (0, 1, -1) and np.isfinite(f.value)
    ]
    telling = {f.value for f in fitting if f.unit < 0.05}
    enough = len(telling) >= 2 or len({f.value for f in fitting}) >= 5
    return enough and (4 * misfits <= len(figures) or (misfits == 1 and len(figures) == 3))


def _is_all_wrong(item: _Item, before: list[_Item]) -> bool:
    """A plain softmax right after plain scores, which no divisor makes fit."""
    if not before or item.kind != "weights" or not item.is_plain or item.shape[0] > 1:
        return False
    scores = before[0]
    near = scores.kind in ("scores", "scaled") and scores.is_plain and scores.shape == item.shape
    if not near or item.shape[1] < 3 or not np.isfinite(scores.box.low).all():
        return False
    figures = item.value.rows[0]
    sums_to_one = abs(sum(f.value for f in figures) - 1) <= 0.02
    return sums_to_one and not any_temperature(scores.box.middle[0], figures)


def any_temperature(scores: Array, figures: list[Figure]) -> bool:
    """Whether the figures can be a softmax of the scores divided by anything."""
    divisors = np.concatenate([np.logspace(-1.5, 2.5, 900), np.sqrt(np.arange(1, 130))])
    scaled = scores[None, :] / divisors[:, None]
    exponentials = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=1, keepdims=True)
    printed = np.array([f.value for f in figures])
    slack = np.array([1.5 * f.unit for f in figures])
    return bool((np.abs(weights - printed) <= slack).all(axis=1).any())


def _ways(item: _Item, before: list[_Item]) -> Iterator[tuple[str, Intervals]]:
    """What may give a value of its kind and shape, the nearest first; `?` is no proof."""
    kind, shape = item.kind, item.shape
    for b in before:  # printed again, whole or one row of it
        if b.shape[1] == shape[1] and shape[0] in (1, b.shape[0]):
            for row in range(b.shape[0] - shape[0] + 1):
                rows = slice(row, row + shape[0])
                again = Intervals(b.box.low[rows], b.box.high[rows])
                if np.all(np.abs(again.middle - item.box.middle) < 1e-9):
                    yield "? printed before", again

    def pairs(left: str, right: str) -> Iterator[tuple[Intervals, Intervals]]:
        for a in before:
            for b in before:
                if _may_be(a, left) and _may_be(b, right):
                    yield a.box, b.box

    if kind in ("scores", "scaled", "weights"):
        scores: list[tuple[Intervals, str]] = []
        for b in before:
            if b.shape == shape and _may_be(b, "scores scaled"):
                scores.append((b.box, "the scores before it"))
            elif 1 in shape and b.shape == shape[::-1] and _may_be(b, "scores scaled"):
                scores.append((b.box.transposed, "the scores before it"))
        for a, b in pairs("query input embeddings key", "key input embeddings query"):
            if a.shape[1] == b.shape[1] and (a.shape[0], b.shape[0]) == shape:
                scores.append((product(a, b.transposed), "Q Kᵀ"))
        widths = {float(b.shape[1]) for b in before if _may_be(b, "query key")}
        for box, how in scores:
            for size in (1.0, *widths, *_SIZES):
                proof = "" if size == 1 or size in widths else "? "
                scaled = box.over((math.sqrt(size), math.sqrt(size)))
                if kind != "weights":
                    yield proof + how, scaled
                elif shape[1] > 1 or shape[0] > 1:
                    yield f"{proof}the softmax of {how}", _softmax(scaled)
                    if shape[0] == shape[1] > 1:
                        causal = scaled.where(allowed_keys(*shape, causal=True), -np.inf)
                        yield f"{proof}the causal softmax of {how}", _softmax(causal)
    if kind in ("concatenated", "output"):
        for a, b in pairs("head_output output", "head_output output"):
            if a.shape[0] == b.shape[0] == shape[0] and a.shape[1] + b.shape[1] == shape[1]:
                yield "the heads", Intervals(np.hstack([a.low, b.low]), np.hstack([a.high, b.high]))
    if kind in ("query", "key", "value", "head_output", "output"):
        letter = {"query": "Q", "key": "K", "value": "V"}.get(kind)
        of_input = ("input embeddings context", f"W_{letter}")
        of_weights = ("weights concatenated", "value input embeddings W_O")
        for a, b in pairs(*(of_input if letter else of_weights)):
            made = (a.shape[0], b.shape[1])
            if a.shape[1] == b.shape[0] and made in (shape, shape[::-1]):
                yield "the product before it", product(a, b)


def _may_be(item: _Item, kinds: str) -> bool:
    return item.kind is None or item.kind in kinds.split()


def _softmax(scores: Intervals) -> Intervals:
    if scores.shape[1] == 1:
        return softmax_rows(scores.transposed).transposed
    return softmax_rows(scores)
