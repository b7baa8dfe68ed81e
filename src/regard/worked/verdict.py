"""The two verdicts on every cell of an exercise, and which cells are the first causes."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict

import numpy as np

from regard._intervals import Intervals
from regard.reference import Mask
from regard.worked.causes import diagnose
from regard.worked.chain import Chain, Misfit, Reading
from regard.worked.equations import Equation
from regard.worked.exercise import Exercise, Head, Key, Matrix
from regard.worked.given import judge_given, judge_sums
from regard.worked.judged import Cell, Judged
from regard.worked.links import Link
from regard.worked.parts import LAYER_KINDS, MOMENTS, in_order, sources, ways
from regard.worked.reading import choose_layers, choose_reading
from regard.written.names import SYMBOLS
from regard.written.source import Source

__all__ = ["judge", "settle"]


def judge(source: Source, exercise: Exercise) -> Judged:
    """Both verdicts on everything that is printed. What does not fit in shape is set apart."""
    while True:
        try:
            judged = _judge(source, exercise)
        except Misfit as first:
            for key, misfit in ({first.key: first} | _misfits(exercise)).items():
                exercise.apart.add(key)
                exercise.remarks.append(f"Not checked: {misfit}")
            continue
        if _left_out(judged):
            continue
        doubtful = [key for key in judged.exact if _is_doubtful(judged, key)]
        if not doubtful:
            return judged
        # What follows from it may be right without it.
        for key in [key for key in doubtful if key[0] == doubtful[0][0]]:
            matrix = exercise.matrices[key]
            made = " and ".join(SYMBOLS[kind] for kind, _ in sources(exercise, *key))
            exercise.apart.add(key)
            text = f"Most of {matrix.describe()} does not follow from {made}: is it something "
            text += f"else? It was left alone; --as {matrix.line}=… says it."
            exercise.remarks.append(text)


def _misfits(exercise: Exercise) -> dict[Key, Misfit]:
    """The steps whose parts do not fit in shape, of all heads at once."""
    chain = Chain(exercise, Reading((1.0, 1.0)), "full")
    found: dict[Key, Misfit] = {}
    for key in exercise.matrices:
        try:
            chain.reach(*key)
        except Misfit as misfit:
            found[misfit.key] = misfit
    return found


def _left_out(judged: Judged) -> bool:
    """Whether a piece was taken from a matrix: most of it is wrong, where others are right.

    What a program prints again is the same, or something else.
    """
    exercise, found = judged.exercise, False
    share = 4 if exercise.by_program else 2
    for key in judged.exact:
        matrix = exercise.matrices[key]
        sizes = Counter(matrix.piece_of.values())
        wrong = (cell.figure.start for cell in judged.of(key) if cell.is_wrong)
        astray = Counter(matrix.piece_of.get(start, -1) for start in wrong)
        if len(sizes) < 2 or not any(2 * astray[piece] < size for piece, size in sizes.items()):
            continue
        for piece in [p for p, size in sizes.items() if share * astray[p] > size > 1]:
            figures = {
                cell: [f for f in them if matrix.piece_of.get(f.start) != piece]
                for cell, them in matrix.figures.items()
            }
            if not all(figures.values()):
                continue  # it is all that there is of some cells
            matrix.figures, found = figures, True
            matrix.piece_of = {s: p for s, p in matrix.piece_of.items() if p != piece}
            line = judged.source.line(piece)
            exercise.remarks.append(f"What line {line} prints is hardly {matrix.describe()} again.")
    return found


def _is_doubtful(judged: Judged, key: Key) -> bool:
    """Whether a step fits so badly that it may be made of other things than it was taken for.

    Half of its numbers confirm a step. Without that its name must be plain, and those of its parts,
    and none of them may be there twice.
    """
    exercise = judged.exercise
    printed = exercise.matrices[key].n_figures
    of_layer = key[0] in LAYER_KINDS
    astray = sum(
        cell.origin == "first" and not cell.is_explained if of_layer else not cell.from_step
        for cell in judged.of(key)
    )
    if printed == 1 and _is_used(judged, key):
        return False
    if exercise.by_program and re.search(r"\.\w+\(", exercise.matrices[key].called):
        # Named by nothing but a call, such as F.scaled_dot_product_attention(q, k, v).
        return astray > 0 and 4 * astray >= printed
    if exercise.by_program and printed > 3 and 2 * astray > printed:
        return True  # a program may have given its names anew since
    if any(m.kind in exercise.rivals for m in _with_sources(exercise, key)):
        return astray > 0 and (4 * astray > printed or printed < 4)
    return 2 * astray > printed and not _is_certain(exercise, key)


def _is_used(judged: Judged, key: Key) -> bool:
    """Whether a layer norm that is printed shows a mean or a deviation to be its own.

    It does where most of it is right, or follows from the mean as printed.
    """
    stem = key[0].removesuffix("_2")
    norms = ((kind + key[0][len(stem) :], None) for kind in ("normalized", "norm"))
    norm = next((norm for norm in norms if norm in judged.exact), None)
    if stem not in MOMENTS or norm is None:
        return False
    printed = judged.exercise.matrices[norm].n_figures
    astray = sum(cell.origin == "first" for cell in judged.of(norm))
    return 2 * astray <= printed and printed > 1


def _with_sources(exercise: Exercise, key: Key) -> list[Matrix]:
    found = (exercise.get(*part) for part in (key, *sources(exercise, *key)))
    return [matrix for matrix in found if matrix is not None]


def _is_certain(exercise: Exercise, key: Key) -> bool:
    """Whether the names of a step and its parts are plain, and none of them is there twice."""
    return key[0] not in LAYER_KINDS and all(
        matrix.is_plain and matrix.kind not in exercise.rivals
        for matrix in _with_sources(exercise, key)
    )


class _Marked(Chain):
    """The chain in which nothing is known of what is printed wrong, nor of what is made of it."""

    def __init__(self, exercise: Exercise, reading: Reading) -> None:
        super().__init__(exercise, reading, "printed")
        self.wrong: dict[Key, Mask] = {}

    def carried(self, kind: str, head: Head) -> Intervals:
        carried = super().carried(kind, head)
        wrong = self.wrong.get((kind, head))
        return carried if wrong is None else carried.where(~wrong, np.nan)


def _judge(source: Source, exercise: Exercise) -> Judged:
    if ways(exercise, "stream"):
        choose_layers(exercise, Reading((1.0, 1.0)))
    reading = choose_reading(exercise)
    remarks = [*exercise.remarks, reading.remark, *choose_layers(exercise, reading)]
    chains = {way: Chain(exercise, reading, way) for way in ("full", "inputs", "step", "printed")}
    marked = _Marked(exercise, reading)
    judged = Judged(
        source,
        exercise,
        claims=list(exercise.claims),
        remarks=[remark for remark in remarks if remark],
        questions=[reading.question] if reading.question else [],
        checked=len(exercise.claims),
    )
    keys = [key for key in in_order(exercise) if key not in exercise.borrowed]
    for key in keys:
        matrix = exercise.matrices[key]
        if not sources(exercise, *key):
            judged.given.add(key)
            judge_given(matrix, judged)
            continue
        judged.exact[key] = chains["full"].reach(*key).middle
        tainted = np.isnan(marked.reach(*key).low)
        cells = _judge_computed(matrix, chains, tainted, judged)
        marked.wrong[key] = np.zeros(tainted.shape, dtype=bool)
        for cell in cells:
            marked.wrong[key][cell.row, cell.column] |= cell.is_wrong
        diagnose(exercise, key, chains, cells)
        judged.cells += cells
    first = [cell for cell in judged.wrong if cell.origin == "first"]
    if all(abs(c.figure.value - c.right) <= 1.01 * c.figure.unit for c in first):
        # A slip in the last digit, and what carries it on.
        judged.cells = [cell for cell in judged.cells if cell.origin != "inherited"]
    for key in keys:
        judge_sums(exercise.matrices[key], judged)
    return judged


def settle(
    source: Source, judged: list[Judged], equations: list[Equation], by_numbers: list[Link]
) -> list[Judged]:
    """The same, but nothing is accused where another reading makes it right.

    A number that is the result of an equation which holds, or of a matrix that follows from others
    than those it was taken to be made of, is right as it is: its step is set apart.
    """
    wrong = {figure.start for link in by_numbers for figure, _ in link.wrong}
    fine = {f.start for found in (*equations, *by_numbers) for f in found.right} - wrong
    # From exponentials as printed, which are no step of the chain.
    others = [x for x in by_numbers if re.search("exponentials|a row of scores$", x.how)]
    programs = [e for e in equations if e.by_program]
    # All of it follows from others, in digits that cannot agree by chance.
    proven = {f.start for link in by_numbers if link.is_telling for f in link.right} - wrong
    rounded = {f.start for found in (*others, *programs) for f in found.right} - wrong
    # Weights that no divisor makes of the scores right before them: what is known of those counts.
    placed = [{f.start for f in link.value.figures} for link in by_numbers if link.why]
    # An equation that holds, printed with its figures: if they are not those above, who knows why.
    holds = defaultdict[int, list[Equation]](list)
    for equation in [e for e in equations if not e.wrong and not e.doubt]:
        for figure in equation.right:
            holds[figure.start].append(equation)

    def is_computed(start: int) -> bool:
        return any(figure.start == start for e in holds.get(start, ()) for figure in e.exact)

    for number, each in enumerate(judged):
        while True:
            astray = Counter((cell.kind, cell.head) for cell in each.wrong if not cell.from_step)
            mostly = {k for k, n in astray.items() if 2 * n > each.exercise.matrices[k].n_figures}
            starts = {cell.figure.start for cell in each.wrong}
            elsewhere = set[int]().union(*(figures for figures in placed if figures <= starts))
            contested = {
                (cell.kind, cell.head)
                for cell in each.wrong
                if cell.figure.start in rounded
                or cell.figure.start in elsewhere
                or (
                    not cell.from_step
                    and cell.figure.start in fine
                    and (
                        (cell.figure.start in proven and (cell.kind, cell.head) in mostly)
                        or not _is_certain(each.exercise, (cell.kind, cell.head))
                    )
                )
            } - each.exercise.apart
            if not contested:
                break
            each.exercise.apart |= contested
            names = ", ".join(sorted(SYMBOLS[kind] for kind, _ in contested))
            text = f"What is printed for {names} follows from other numbers than was thought."
            each.exercise.remarks.append(text)
            each = judge(source, each.exercise)
        each.cells = [cell for cell in each.cells if not is_computed(cell.figure.start)]
        judged[number] = each
    return judged


def _judge_computed(
    matrix: Matrix, chains: dict[str, Chain], tainted: Mask, judged: Judged
) -> list[Cell]:
    reach = {way: chain.reach(*matrix.key) for way, chain in chains.items()}
    cells: list[Cell] = []
    for place, figures in sorted(matrix.figures.items()):
        reachable, follows = (reach[way].at(*place) for way in ("inputs", "step"))
        if not math.isfinite(reachable[0] + follows[0]):  # masked later, if at all
            judged.unknown.add(matrix.key)
            judged.unchecked |= {figure.start for figure in figures}
            continue
        judged.checked += len(figures)
        inherits = bool(tainted[place])
        for figure in figures:
            stands_for = figure.may_stand_for if inherits else figure.is_printed_of
            from_inputs, from_step = stands_for(*reachable), stands_for(*follows)
            if from_inputs and from_step:
                continue
            made_before = "none" if from_inputs else "inherited"
            origin = made_before if inherits and (from_inputs or from_step) else "first"
            cells.append(
                judged.cell(
                    matrix,
                    place,
                    figure,
                    float(reach["full"].middle[place]),
                    from_printed=float(reach["printed"].middle[place]),
                    reachable=reachable,
                    follows_range=follows,
                    from_inputs=from_inputs,
                    from_step=from_step,
                    origin=origin,
                    is_tainted=inherits,
                )
            )
    return cells
