"""Which matrix follows from which, by the numbers: a step that most of its numbers confirm.

The names only say what kind of step it can be; what it is made of is found among the values that
stand before it. So a matrix may be made of others than those it was taken to be made of: if one way
gives all of it, it is right; if one way gives nearly all of it, the rest is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from regard._intervals import Intervals, product, softmax_rows
from regard.reference import Array, Mask, allowed_keys
from regard.written.figures import Figure
from regard.written.found import Value
from regard.written.names import is_other_name, name_of
from regard.written.words import is_exponential

__all__ = ["Link", "links"]

_WINDOW = 10  # values before it that a value may be made of
_MOST_CELLS = 400
_ROWS = 16  # of a matrix, one of which a vector may be made of
_SIZES = (2, 3, 4, 8, 16, 64)
_QUERIES = frozenset(("query", "key", "input", "embeddings"))
_KEYS = frozenset(("query", "key"))
_SCORES = frozenset(("scores", "scaled", "exponentials"))
_INPUTS = frozenset(("input", "embeddings", "context"))
_OUTPUTS = frozenset(("head_output", "output"))
_MIXING = frozenset(("weights", "concatenated"))
_MIXED = frozenset(("value", "input", "embeddings", "W_O"))


@dataclass
class Link:
    """What a value was found to be: `wrong` are the cells that the way `how` does not give."""

    value: Value
    kind: str
    how: str
    wrong: list[tuple[Figure, float]]
    why: str = ""  # it is wrong, if that is to be said in another way

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
    number: int = 0
    products: dict[int, Intervals] = field(default_factory=dict)  # with others, by their numbers

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return self.box.shape

    @cached_property
    def middle(self) -> Array:
        return self.box.middle

    @cached_property
    def figures(self) -> list[Figure]:
        return [figure for row in self.value.rows for figure in row]

    def may_be(self, kinds: frozenset[str]) -> bool:
        return self.kind is None or self.kind in kinds

    def times(self, other: _Item, *, transposed: bool = False) -> Intervals:
        key = -other.number if transposed else other.number
        if key not in self.products:
            right = other.box.transposed if transposed else other.box
            self.products[key] = product(self.box, right)
        return self.products[key]

    @cached_property
    def rounding(self) -> tuple[Array, Array]:
        """The printed values, and how far off each may be: rounded, cut off, rounded once more."""
        values = np.array([f.value for f in self.figures]).reshape(self.shape)
        units = np.array([f.unit for f in self.figures]).reshape(self.shape)
        large = np.maximum(np.abs(values), 1.0)
        half = units * np.where(units < 0.05, 1 + 1e-6, 0.5 + 1e-6) + 1e-12 * large
        return values, half + np.where(units <= 1.1e-8, 4e-7 * large, 0.0)

    def astray(self, made: Intervals) -> Mask:
        """Which figures cannot stand for what is made; of some rows, those that come last."""
        values, half = (array[-made.shape[-2] :] for array in self.rounding)
        fits = (made.low - half <= values) & (values <= made.high + half) | np.isinf(values)
        hidden = np.isinf(made.low) | np.isinf(made.high)
        return ~np.where(hidden, np.isinf(values) | (values <= -1e4), fits)


def links(values: list[Value]) -> list[Link]:
    """What each value that has a name is made of, where that can be told."""
    found: list[Link] = []
    before: list[_Item] = []
    for number, value in enumerate(values, 1):
        rows, columns = value.shape
        if value.is_number or rows * columns < 2 or rows * columns > _MOST_CELLS:
            continue
        item = _Item(value, *_kind(value), number)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            link = _explain(item, before[::-1]) if item.kind is not None else None
        if link is not None:
            found.append(link)
            _allow_both(item, link)
        before.append(item)
        del before[:-_WINDOW]
    return found


def _allow_both(item: _Item, link: Link) -> None:
    """What follows may be made of a wrong number as printed, or of the right one."""
    right = {figure.start: value for figure, value in link.wrong}
    for k, figure in enumerate(item.figures):
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
    kind = "exponentials" if is_exponential(value.lead) else kind
    exact = kind in ("input", "embeddings", "positions", "context") or kind[:2] in ("W_", "b_")
    half = np.array([f.unit / 2 if f.unit < 1 and not exact else 0.0 for f in figures])
    numbers = np.array([f.value for f in figures])
    box = Intervals(*(e.reshape(value.shape) for e in (numbers - half, numbers + half)))
    return kind or None, box, is_plain


def _explain(item: _Item, before: list[_Item]) -> Link | None:
    if item.kind is None or (item.kind == "weights" and not np.isfinite(item.box.low).all()):
        return None
    best: tuple[int, str, Mask, Array] | None = None
    if _is_printed_before(item, before):
        best = 1, "? printed before", np.zeros(len(item.figures), dtype=bool), item.middle
    for hows, made in _ways(item, before):
        astray = item.astray(made)
        # The fewest misfits; of as many, a proof before a guess; then the nearest.
        rank = 2 * astray.sum(axis=(1, 2)) + [how[0] == "?" for how in hows]
        rank[np.isnan(made.low + made.high).any(axis=(1, 2))] = 2 * astray[0].size + 2
        k = int(rank.argmin())
        if rank[k] < (2 * astray[0].size + 2 if best is None else best[0]):
            best = int(rank[k]), hows[k], astray[k].ravel(), made.middle[k].ravel()
        if not rank[k]:
            break
    if best is None:
        return None
    rank, how, astray, middle = best
    misfits = rank // 2
    if misfits and how[0] == "?":
        return None
    if misfits and not _is_confirmed(item, astray):
        return None
    wrong = [(item.figures[k], float(middle[k])) for k in np.flatnonzero(astray)]
    return Link(item.value, item.kind, how, wrong)


def _is_confirmed(item: _Item, astray: Mask) -> bool:
    """Enough numbers fit that cannot by chance, and few do not."""
    figures, misfits = item.figures, int(astray.sum())
    fitting = [f for f, is_astray in zip(figures, astray, strict=True) if not is_astray]
    fitting = [f for f in fitting if f.value not in (0, 1, -1) and np.isfinite(f.value)]
    telling = {f.value for f in fitting if f.unit < 0.05}
    enough = len(telling) >= 2 or len({f.value for f in fitting}) >= 5
    return enough and (4 * misfits <= len(figures) or (misfits == 1 and len(figures) == 3))


def _is_printed_before(item: _Item, before: list[_Item]) -> bool:
    """Whether it is printed again, whole or one row of another."""
    for b in before:
        if b.shape[1] == item.shape[1] and item.shape[0] in (1, b.shape[0]):
            same = (np.abs(b.middle - item.middle) < 1e-9).all(axis=1)
            if same.any() if item.shape[0] == 1 else same.all():
                return True
    return False


def _ways(item: _Item, before: list[_Item]) -> Iterator[tuple[list[str], Intervals]]:
    """What may give a value of its kind and shape, the nearest first, stacked; `?` is no proof."""
    kind, shape = item.kind, item.shape

    def pairs(left: frozenset[str], right: frozenset[str]) -> Iterator[tuple[_Item, _Item]]:
        rights = [b for b in before if b.may_be(right)]
        return ((a, b) for a in before if a.may_be(left) for b in rights)

    if kind in ("scores", "scaled", "exponentials", "weights"):
        yield from _softmaxes(item, before, pairs(_QUERIES, _QUERIES))
    if kind in ("concatenated", "output"):
        for a, b in pairs(_OUTPUTS, _OUTPUTS):
            if a.shape[0] == b.shape[0] == shape[0] and a.shape[1] + b.shape[1] == shape[1]:
                ends = ((a.box.low, b.box.low), (a.box.high, b.box.high))
                yield ["the heads"], _stacked([Intervals(*map(np.hstack, ends))])
    if kind in ("query", "key", "value", "head_output", "output"):
        letter = {"query": "Q", "key": "K", "value": "V"}.get(kind)
        of = (_INPUTS, frozenset([f"W_{letter}"])) if letter else (_MIXING, _MIXED)
        products: list[Intervals] = []
        for a, b in pairs(*of):
            made = (a.shape[0], b.shape[1])
            if a.shape[1] == b.shape[0] and made in (shape, shape[::-1]):
                products.append(a.times(b) if made == shape else a.times(b).transposed)
        if products:
            yield ["the product before it"] * len(products), _stacked(products)


def _softmaxes(
    item: _Item, before: list[_Item], pairs: Iterator[tuple[_Item, _Item]]
) -> Iterator[tuple[list[str], Intervals]]:
    """What follows from scores that are printed before it, or from Q and K, by any divisor."""
    shape = item.shape
    scores: list[Intervals] = []
    hows: list[str] = []
    for b in before:
        if b.may_be(_SCORES) and (b.shape == shape or (1 in shape and b.shape == shape[::-1])):
            box = b.box if b.shape == shape else b.box.transposed
            is_exponential = b.kind == "exponentials"
            scores.append(Intervals(np.log(box.low), np.log(box.high)) if is_exponential else box)
            hows.append("exponentials" if is_exponential else "scores")
    for b in before if shape[0] == 1 and item.kind == "weights" else ():
        if b.kind in ("scores", "scaled") and b.shape[1] == shape[1] and 1 < b.shape[0] <= _ROWS:
            scores += [Intervals(b.box.low[[r]], b.box.high[[r]]) for r in range(b.shape[0])]
            hows += ["row"] * b.shape[0]
    for a, b in pairs:
        if a.shape[1] == b.shape[1] and (a.shape[0], b.shape[0]) == shape:
            scores.append(a.times(b, transposed=True))
    verb = {"weights": "the softmax of ", "exponentials": "the exponential of "}
    verb = verb.get(item.kind or "", "")
    shared = {
        "exponentials": "a share of the exponentials",
        "scores": f"{verb}the scores before it",
        "row": f"? {verb}a row of scores",
    }
    hows = [shared[how] for how in hows]
    hows += [f"{verb}Q Kᵀ"] * (len(scores) - len(hows))
    if not scores or (item.kind == "weights" and shape == (1, 1)):
        return
    widths = {float(b.shape[1]) for b in before if b.may_be(_KEYS)}
    stacked = _stacked(scores)
    for proof, sizes in (("", {1.0} | widths), ("? ", set(_SIZES) - widths)):
        roots = np.sqrt(sorted(sizes))[:, None, None]
        ends = (end[:, None] / roots for end in (stacked.low, stacked.high))
        scaled = Intervals(*(end.reshape(-1, *shape) for end in ends))
        named = [proof + how for how in hows for _ in sizes]
        if proof and shape[0] > 1 < shape[1]:  # a guess must fit in every row: in the last one, too
            last = Intervals(scaled.low[:, -1:], scaled.high[:, -1:])
            left = np.flatnonzero(~item.astray(_of_kind(item.kind, last)).any(axis=(1, 2)))
            scaled = Intervals(scaled.low[left], scaled.high[left])
            named = [named[k] for k in left]
        if not named:
            continue
        yield named, _of_kind(item.kind, scaled)
        if item.kind == "weights" and shape[0] == shape[1]:
            causal = scaled.where(allowed_keys(*shape, causal=True), -np.inf)
            yield [f"{how}, causal" for how in named], _softmax(causal)
        elif item.kind == "exponentials":
            least, most = (e.max(axis=(1, 2), keepdims=True) for e in (scaled.low, scaled.high))
            less = Intervals(np.exp(scaled.low - most), np.exp(scaled.high - least))
            yield [f"{how}, less the greatest" for how in named], less


def _of_kind(kind: str | None, scaled: Intervals) -> Intervals:
    """What a value of that kind is, made of scores: they themselves, exponentials, or weights."""
    if kind == "exponentials":
        return Intervals(np.exp(scaled.low), np.exp(scaled.high))
    return _softmax(scaled) if kind == "weights" else scaled


def _stacked(boxes: list[Intervals]) -> Intervals:
    return Intervals(np.stack([b.low for b in boxes]), np.stack([b.high for b in boxes]))


def _softmax(scores: Intervals) -> Intervals:
    """Along the rows; of a column, down."""
    if scores.shape[-1] > 1:
        return softmax_rows(scores)
    turned = softmax_rows(Intervals(*(np.swapaxes(e, -1, -2) for e in (scores.low, scores.high))))
    return Intervals(*(np.swapaxes(e, -1, -2) for e in (turned.low, turned.high)))
