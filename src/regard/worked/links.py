"""Which matrix follows from which, by the numbers: a step that most of its numbers confirm.

The names only say what kind of step it can be; what it is made of is found among the values that
stand before it. So a matrix may be made of others than those it was taken to be made of: if one way
gives all of it, it is right; if one way gives nearly all of it, the rest is wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regard._intervals import Intervals, product, softmax_rows
from regard.reference import Array, Mask, allowed_keys
from regard.written.figures import Figure
from regard.written.found import Value
from regard.written.names import SYMBOLS, is_other_name, name_of
from regard.written.words import is_exponential, is_supposed

__all__ = ["Item", "Link", "links", "numbers"]

_WINDOW = 10  # values before it that a value may be made of
_MOST_CELLS = 400
_PROOF = 12  # numbers that fit, to one that does not, make a guess a proof
_DIGITS = 8  # after the point that prove something
_ROWS = 16  # of a matrix, one of which a vector may be made of
_SIZES = frozenset((2.0, 3.0, 4.0, 8.0, 16.0, 64.0))
_QUERIES = frozenset(("query", "key", "input", "embeddings"))
_KEYS = frozenset(("query", "key"))
_SCORES = frozenset(("scores", "scaled", "exponentials"))
_INPUTS = frozenset(("input", "embeddings", "context"))
_OUTPUTS = frozenset(("head_output", "output"))
_MIXING = frozenset(("weights", "concatenated"))
_MIXED = frozenset(("value", "input", "embeddings", "W_O"))
_Ways = Iterator[tuple[list[str], Intervals]]  # what each is called, and all of them stacked


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

    @property
    def is_telling(self) -> bool:
        """Whether it was computed, all of it, and has digits enough to prove it."""
        return self.is_proof and not self.wrong and self.value.n_digits >= _DIGITS

    @property
    def right(self) -> list[Figure]:
        wrong = {figure.start for figure, _ in self.wrong}
        return [figure for figure in self.value.figures if figure.start not in wrong]

    @property
    def text(self) -> str:
        return " ".join(self.value.lead.split()).rstrip(" =≈:") or SYMBOLS[self.kind]

    @property
    def cause(self) -> str:
        return self.why or f"all else here is {self.how.removeprefix('? ')}"


@dataclass
class Item:
    """A value as what others are made of, and as what may be made of others."""

    value: Value
    kind: str | None = None
    number: int = 0
    products: dict[int, Intervals] = field(default_factory=dict)  # with others, by their numbers

    @cached_property
    def printed(self) -> tuple[Array, Array]:
        return numbers(self.value.rows)

    @cached_property
    def rows(self) -> list[list[float]]:
        return [[round(figure.value, 9) for figure in row] for row in self.value.rows]

    @cached_property
    def shape(self) -> tuple[int, int]:
        return self.value.shape

    @cached_property
    def box(self) -> Intervals:
        """What is printed, give or take its rounding if it is computed."""
        values, units = self.printed
        kind = self.kind or ""
        exact = kind in ("input", "embeddings", "positions", "context") or kind[:2] in ("W_", "b_")
        return Intervals.about(values, np.where((units < 1) & (not exact), units / 2, 0.0))

    def may_be(self, kinds: frozenset[str]) -> bool:
        return self.kind is None or self.kind in kinds

    @property
    def most_misfits(self) -> int:
        """With more of them it is confirmed by nothing."""
        n = self.shape[0] * self.shape[1]
        return max(n // 4, int(n == 3))

    @cached_property
    def rounding(self) -> Array:
        """How far off each number may be: rounded, cut off, rounded once more."""
        values, units = self.printed
        large = np.maximum(np.abs(values), 1.0)
        half = units * np.where(units < 0.05, 1 + 1e-6, 0.5 + 1e-6) + 1e-12 * large
        return half + np.where(units <= 1.1e-8, 4e-7 * large, 0.0)

    def astray(self, made: Intervals) -> Mask:
        """Which figures cannot stand for what is made; of some rows, those that come last."""
        values, half = (array[-made.shape[-2] :] for array in (self.printed[0], self.rounding))
        low, high = made.low, made.high
        infinite = np.isinf(values)
        fits = (low - half <= values) & (values <= high + half) | infinite
        hidden = np.isinf(low) | np.isinf(high)
        return ~np.where(hidden, infinite | (values <= -1e4), fits)


def numbers(rows: Sequence[Sequence[Figure]]) -> tuple[Array, Array]:
    """The values of figures, and one step of the last digit of each."""
    values = np.array([[figure.value for figure in row] for row in rows])
    return values, np.array([[figure.unit for figure in row] for row in rows])


def links(values: list[Value]) -> list[Link]:
    """What each value that has a name is made of, where that can be told."""
    found: list[Link] = []
    before: list[Item] = []
    for number, value in enumerate(values, 1):
        rows, columns = value.shape
        if value.is_number or rows * columns < 2 or rows * columns > _MOST_CELLS:
            continue
        item = Item(value, _kind(value), number)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            link = _explain(item, before[::-1]) if item.kind is not None else None
        if link is not None:
            found.append(link)
            _allow_both(item, link)
        before.append(item)
        del before[:-_WINDOW]
    return found


def _allow_both(item: Item, link: Link) -> None:
    """What follows may be made of a wrong number as printed, or of the right one."""
    right = {figure.start: value for figure, value in link.wrong}
    for k, figure in enumerate(item.value.figures):
        value = right.get(figure.start, figure.value)
        item.box.low.flat[k] = min(item.box.low.flat[k], value)
        item.box.high.flat[k] = max(item.box.high.flat[k], value)


def _kind(value: Value) -> str | None:
    if is_exponential(value.lead):
        return "exponentials"
    name = name_of(value.lead) if value.lead.strip() else None
    titles = value.titles[:3] if name is None and not is_other_name(value.lead) else ()
    for title in titles:
        name = name or name_of(title)
    return name.kind if name is not None else None


def _explain(item: Item, before: list[Item]) -> Link | None:
    if item.kind is None or (item.kind == "weights" and not np.isfinite(item.box.low).all()):
        return None
    if item.kind == "weights" and is_supposed(item.value.announced):
        return None
    best: tuple[int, str, Mask, Array] | None = None
    if _is_printed_before(item, before):
        best = 1, "? printed before", np.zeros(item.box.low.size, dtype=bool), item.box.low
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
    if misfits and not _is_confirmed(item, astray, least=_PROOF if how[0] == "?" else 2):
        return None
    wrong = [(item.value.figures[k], float(middle[k])) for k in np.flatnonzero(astray)]
    return Link(item.value, item.kind, how, wrong)


def _is_confirmed(item: Item, astray: Mask, least: int) -> bool:
    """Enough numbers fit that cannot by chance, and few do not; of a guess, many must."""
    figures, misfits = item.value.figures, int(astray.sum())
    fitting = [f for f, is_astray in zip(figures, astray, strict=True) if not is_astray]
    fitting = [f for f in fitting if f.value not in (0, 1, -1) and np.isfinite(f.value)]
    telling = {f.value for f in fitting if f.unit < 0.05}
    enough = len(telling) >= least or len({f.value for f in fitting}) >= 5 > least
    return enough and misfits <= item.most_misfits


def _is_printed_before(item: Item, before: list[Item]) -> bool:
    """Whether it is printed again, whole or one row of another."""
    rows = item.rows
    return any(rows == b.rows or (len(rows) == 1 and rows[0] in b.rows) for b in before)


def _ways(item: Item, before: list[Item]) -> _Ways:
    """What may give a value of its kind and shape, the nearest first, stacked; `?` is no proof."""
    kind, shape = item.kind, item.shape

    def pairs(left: frozenset[str], right: frozenset[str]) -> Iterator[tuple[Item, Item]]:
        rights = [b for b in before if b.may_be(right)]
        return ((a, b) for a in before if a.may_be(left) for b in rights)

    if kind in ("scores", "scaled", "exponentials", "weights"):
        yield from _softmaxes(item, before, pairs(_QUERIES, _QUERIES))
    if kind in ("concatenated", "output"):
        for a, b in pairs(_OUTPUTS, _OUTPUTS):
            if a.shape[0] == b.shape[0] == shape[0] and a.shape[1] + b.shape[1] == shape[1]:
                beside = Intervals.joined(np.hstack, [a.box, b.box])
                yield ["the heads"], Intervals.joined(np.stack, [beside])
    if kind in ("query", "key", "value", "head_output", "output"):
        letter = {"query": "Q", "key": "K", "value": "V"}.get(kind)
        of = (_INPUTS, frozenset([f"W_{letter}"])) if letter else (_MIXING, _MIXED)
        fitting = [(a, b) for a, b in pairs(*of) if a.shape[1] == b.shape[0]]
        fitting = [(a, b) for a, b in fitting if {(a.shape[0], b.shape[1])} & {shape, shape[::-1]}]
        products = [p if p.shape == shape else p.transposed for p in _products(fitting, 1)]
        if products:
            yield ["the product before it"] * len(products), Intervals.joined(np.stack, products)


def _products(pairs: list[tuple[Item, Item]], sign: int) -> list[Intervals]:
    """a · b of each pair, or a · bᵀ if `sign` is −1; all of one shape at once, and kept."""
    new = defaultdict[object, list[tuple[Item, Item]]](list)
    for a, b in pairs:
        if sign * b.number not in a.products:
            new[a.shape, b.shape].append((a, b))
    for together in new.values():
        right = Intervals.joined(np.stack, [b.box for _, b in together])
        right = right if sign > 0 else right.each(lambda end: end.swapaxes(-1, -2))
        made = product(Intervals.joined(np.stack, [a.box for a, _ in together]), right)
        for k, (a, b) in enumerate(together):
            a.products[sign * b.number] = Intervals(made.low[k], made.high[k])
    return [a.products[sign * b.number] for a, b in pairs]


def _softmaxes(item: Item, before: list[Item], pairs: Iterator[tuple[Item, Item]]) -> _Ways:
    """What follows from scores that are printed before it, or from Q and K, by any divisor."""
    shape = item.shape
    verbs = {"weights": "the softmax of ", "exponentials": "the exponential of "}
    verb = verbs.get(item.kind or "", "")
    scores: list[Intervals] = []
    hows: list[str] = []
    for b in before:
        if b.may_be(_SCORES) and (b.shape == shape or (1 in shape and b.shape == shape[::-1])):
            box = b.box if b.shape == shape else b.box.transposed
            shared = b.kind == "exponentials"
            scores.append(box.each(np.log) if shared else box)
            hows.append("a share of the exponentials" if shared else f"{verb}the scores before it")
    for b in before if shape[0] == 1 and item.kind == "weights" else ():
        if b.kind in ("scores", "scaled") and b.shape[1] == shape[1] and 1 < b.shape[0] <= _ROWS:
            scores += [Intervals(b.box.low[[r]], b.box.high[[r]]) for r in range(b.shape[0])]
            hows += [f"? {verb}a row of scores"] * b.shape[0]
    fitting = ((a, b) for a, b in pairs if a.shape[1] == b.shape[1])
    scores += _products([(a, b) for a, b in fitting if (a.shape[0], b.shape[0]) == shape], -1)
    hows += [f"{verb}Q Kᵀ"] * (len(scores) - len(hows))
    if not scores or (item.kind == "weights" and shape == (1, 1)):
        return
    widths = {float(b.shape[1]) for b in before if b.may_be(_KEYS)}
    stacked = Intervals.joined(np.stack, scores)
    masks: list[tuple[str, Mask | None]] = [("", None)]
    if item.kind == "weights" and shape[0] == shape[1]:
        masks.append((", causal", allowed_keys(*shape, causal=True)))
    for proof, sizes in (("", widths | {1.0}), ("? ", _SIZES - widths)):
        most = shape[0] * shape[1] // _PROOF if proof else item.most_misfits
        # A guess must fit in every row, and nothing in less than most of them: few rows tell.
        few = most // shape[1] + 1 if shape[1] > 1 and (proof or item.kind != "exponentials") else 0
        for suffix, mask in masks:
            left = np.arange(len(hows) * len(sizes))
            if 0 < few < shape[0]:
                some = _scaled(stacked.each(lambda end, few=few: end[:, -few:]), sizes, left)
                made = _of_kind(item.kind, some, mask)
                left = np.flatnonzero(item.astray(made).sum(axis=(1, 2)) <= most)
            if not left.size:
                continue
            scaled = _scaled(stacked, sizes, left)
            named = [f"{proof}{hows[k]}{suffix}" for k in left // len(sizes)]
            yield named, _of_kind(item.kind, scaled, mask)
            if item.kind == "exponentials":
                least, top = (e.max(axis=(1, 2), keepdims=True) for e in (scaled.low, scaled.high))
                less = Intervals(np.exp(scaled.low - top), np.exp(scaled.high - least))
                yield [f"{how}, less the greatest" for how in named], less


def _scaled(scores: Intervals, sizes: AbstractSet[float], which: NDArray[np.intp]) -> Intervals:
    """Of all scores, divided by the root of each size, those that are counted in `which`."""
    roots = np.sqrt(sorted(sizes))[which % len(sizes), None, None]
    return scores.each(lambda end: end[which // len(sizes)] / roots)


def _of_kind(kind: str | None, scaled: Intervals, mask: Mask | None) -> Intervals:
    """What a value of that kind is, made of scores: they themselves, exponentials, or weights.

    Where the mask, of which the last rows count, is False, a query does not see a key.
    """
    if mask is not None:
        scaled = scaled.where(mask[-scaled.shape[-2] :], -np.inf)
    if kind == "exponentials":
        return scaled.each(np.exp)
    return _softmax(scaled) if kind == "weights" else scaled


def _softmax(scores: Intervals) -> Intervals:
    """Along the rows; of a column, down."""
    if scores.shape[-1] > 1:
        return softmax_rows(scores)
    turned = softmax_rows(scores.each(lambda end: end.swapaxes(-1, -2)))
    return turned.each(lambda end: end.swapaxes(-1, -2))
