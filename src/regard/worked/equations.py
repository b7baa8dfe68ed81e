"""Is an equation right, taken by itself? Its sides are computed, as far as they hold no names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from regard._intervals import Intervals
from regard.worked.evaluate import Evaluator
from regard.worked.softmaxes import USUAL_DIVISORS, any_divisor
from regard.written.figures import Figure
from regard.written.found import Equality
from regard.written.nodes import Node
from regard.written.shapes import are_shapes

__all__ = ["Equation", "judge_equalities"]

_NEAR = 0.01  # a number that is off by so little is no other


@dataclass
class Equation:
    """An equation that could be computed: how many numbers it has, and which of them do not fit."""

    start: int
    text: str
    checked: int
    wrong: list[tuple[Figure, float]] = field(default_factory=list)  # with what belongs there
    right: list[Figure] = field(default_factory=list)  # results that do fit
    in_full: list[Callable[[], list[Figure]]] = field(default_factory=list)  # gives those exact
    doubt: str = ""  # it does not hold, but may have been meant otherwise
    cause: str = "the two sides of the equation do not agree"
    by_program: bool = False

    @property
    def exact(self) -> list[Figure]:
        """Of the results that fit, those that need no room for rounding: computed when asked."""
        return [figure for exactly in self.in_full for figure in exactly()]


def judge_equalities(
    equalities: list[Equality], wrong: Iterable[tuple[Figure, float]]
) -> list[Equation]:
    """Whether equalities hold. What a program made of a wrong number, it made of the right one."""
    both = dict(_room(figure, right) for figure, right in wrong)
    found: list[Equation] = []
    for equality in equalities:
        found.append(_judged(equality, both if equality.by_program else {}))
        both |= dict(_room(*each) for each in found[-1].wrong if equality.by_program)
    return found


def _room(figure: Figure, right: float) -> tuple[int, Figure]:
    """A wrong figure as one that stands for the right number, too."""
    unit = figure.unit + abs(figure.value - right)
    return figure.start, replace(figure, value=(figure.value + right) / 2, unit=unit)


def _judged(equality: Equality, both: Mapping[int, Figure]) -> Equation:
    results = {id(n) for s in equality.sides if s.is_literal for n in (s, *s.args)}

    def figure_of(node: Node) -> Figure:
        figure = equality.figure_of(node)
        return figure if id(node) in results else both.get(figure.start, figure)

    figures = figure_of if both else equality.figure_of
    try:
        found = judge_sides(equality.sides, figures, equality.is_exact, equality.terms)
    except ValueError:  # a number out of all proportion, such as 3.40e+38
        found = Equation(0, "", 0, doubt="a number is out of all proportion")
    if found.wrong and equality.is_about:
        found.wrong = [(f, right) for f, right in found.wrong if not f.is_round_for(right)]
    few = 4 * len(found.wrong) <= found.checked or (
        2 * len(found.wrong) <= found.checked
        and all(abs(f.value - right) <= _NEAR * abs(right) for f, right in found.wrong)
    )
    if equality.by_program and (found.doubt or not few):
        found = Equation(0, "", 0)  # its names stand for something else
    if equality.by_lines and (found.doubt or 3 * len(found.wrong) > found.checked):
        found = Equation(0, "", 0)  # the name is set anew
    found.start, found.text, found.by_program = equality.start, equality.text, equality.by_program
    return found


def judge_sides(
    sides: list[Node],
    figure_of: Callable[[Node], Figure],
    are_given: bool = False,
    terms: Node | None = None,
) -> Equation:
    """Sides that are set equal: each literal must be what an expression before it can come to.

    Where the first side is the literal, the expressions after it decide. An expression must agree
    with the one before it; of two sums, term by term. In the sum `terms` nothing is rounded but
    what shows it.
    """
    roomy, exact = Evaluator(figure_of, exact=are_given), Evaluator(figure_of, exact=True)
    found = Equation(0, "", 0)
    expressions = [side for side in sides if not side.is_literal]
    if are_shapes(sides, figure_of):
        return found
    before, evaluator = list[Node](), roomy
    for side in sides:
        if not side.is_literal:
            if before and not _agree(roomy.values(before[-1]), roomy.values(side)):
                _compare_terms(before[-1], side, figure_of, found)
            elif side is terms:
                before, evaluator = [], Evaluator(figure_of, exact=are_given, counted=True)
            before.append(side)
            continue
        cells = side.args if side.op == "matrix" else [side]
        figures = [figure_of(cell) for cell in cells]
        shape = (len(cells) // (side.width or 1), side.width or 1)
        made = before or expressions[:1]
        fits = [(n, v) for n in made for v in _shaped(evaluator.values(n), shape)]
        if not fits:
            continue
        found.checked += len(figures)
        misfits = [_astray(figures, v) for _, v in fits]
        best = min(range(len(fits)), key=lambda n: len(misfits[n]))
        node, value = fits[best]
        astray = misfits[best]
        if side is sides[0] and astray and sides[-1].is_literal and len(sides) > 2:
            continue  # 2.9 ≈ −log(1/20) = 3.0: what it comes to is printed, too
        found.right += [f for k, f in enumerate(figures) if k not in astray]
        if not astray:
            found.in_full.append(partial(_exactly, exact, node, shape, figures))
        elif len(astray) == len(figures) > 2 and not _is_wrong_softmax(node, figures, exact):
            found.doubt = "none of the numbers is what the left side gives"
        else:
            full = _shaped(exact.values(node), shape)
            near = [e for e in full if ((e.low >= value.low) & (e.low <= value.high)).all()]
            right = (near or [value])[0].middle
            found.wrong += [(figures[k], float(right.flat[k])) for k in astray]
    return found


def _astray(figures: list[Figure], made: Intervals) -> list[int]:
    """Which figures cannot stand for what is made, counted row by row."""
    ends = zip(figures, made.low.ravel().tolist(), made.high.ravel().tolist(), strict=True)
    return [k for k, (f, low, high) in enumerate(ends) if not f.may_result(low, high)]


def _exactly(
    exact: Evaluator, node: Node, shape: tuple[int, int], figures: list[Figure]
) -> list[Figure]:
    astray = [_astray(figures, made) for made in _shaped(exact.values(node), shape)]
    return [f for k, f in enumerate(figures) if any(k not in misfits for misfits in astray)]


def _is_wrong_softmax(node: Node, figures: list[Figure], exact: Evaluator) -> bool:
    """A softmax that no divisor of its scores makes fit."""
    values = exact.values(node.args[0]) if node.op == "softmax" and len(node.args) == 1 else []
    if not values or values[0].low.size != len(figures) or 1 not in values[0].shape:
        return False
    are_weights = all(0 <= figure.value <= 1 for figure in figures)
    row = values[0].low.reshape(1, -1)
    return are_weights and not any_divisor(row, [figures], USUAL_DIVISORS, room=0.6)


def _shaped(values: list[Intervals], shape: tuple[int, int]) -> list[Intervals]:
    """Those of some candidates that have a shape; a row may stand for a column."""
    return [
        v if v.shape == shape else v.transposed
        for v in values
        if v.shape == shape or (1 in shape and v.shape == shape[::-1])
    ]


def _agree(left: list[Intervals], right: list[Intervals]) -> bool:
    comparable = [(a, b) for a in left for b in right if a.shape == b.shape]
    return not comparable or any(
        ((a.low <= b.high + 1e-9) & (b.low <= a.high + 1e-9)).all() for a, b in comparable
    )


def _compare_terms(
    left: Node, right: Node, figure_of: Callable[[Node], Figure], found: Equation
) -> None:
    """1.2·0.9 + 0.6·1.1 = 1.08 + 0.67: of two sums or quotients, the part that differs."""
    value = Evaluator(figure_of).values
    pairs = list(zip(left.args, right.args, strict=False))
    # 6 / 4 = 3 / 2: where both parts differ, none of them need be wrong.
    quotients = left.op in ("/", "frac") and right.op in ("/", "frac")
    quotients = quotients and any(_agree(value(a), value(b)) for a, b in pairs)
    if quotients or (left.op == right.op == "plus" and left.signs == right.signs):
        for part in (judge_sides([a, b], figure_of) for a, b in pairs if b.is_number):
            found.checked += part.checked
            found.wrong += part.wrong
    if not found.wrong:
        found.doubt = "two sides do not agree"
