"""The two verdicts on every cell of an exercise, and which cells are the first causes."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np

from regard.reference import Mask
from regard.worked.causes import diagnose
from regard.worked.cell import Cell
from regard.worked.chain import Chain, Head, Misfit, Reading, enlarged
from regard.worked.equations import Equation
from regard.worked.exercise import Exercise, Matrix, Remark
from regard.worked.given import judge_given, judge_sums
from regard.worked.judged import Judged, cell_at
from regard.worked.links import Link
from regard.worked.parts import LAYER_KINDS, MOMENTS, Key, in_order, sources, ways
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
                exercise.remarks.append(Remark(f"Not checked: {misfit}"))
            continue
        if _left_out(source, judged):
            continue
        doubtful = [key for key in judged.exact if _is_doubtful(judged, key)]
        if not doubtful:
            return judged
        for key in doubtful:
            if key[0] != doubtful[0][0]:  # what follows from it may be right without it
                continue
            matrix = exercise.matrices[key]
            made = " and ".join(SYMBOLS[kind] for kind, _ in sources(exercise, *key))
            exercise.apart.add(key)
            text = f"Most of {matrix.describe()} does not follow from {made}: is it something "
            text += f"else? It was left alone; --as {matrix.line}=… says it."
            exercise.remarks.append(Remark(text))


def _misfits(exercise: Exercise) -> dict[tuple[str, Head], Misfit]:
    """The steps whose parts do not fit in shape, of all heads at once."""
    chain = Chain(exercise, Reading((1.0, 1.0)), "full")
    found: dict[tuple[str, Head], Misfit] = {}
    for key in exercise.matrices:
        try:
            chain.reach(*key)
        except Misfit as misfit:
            found[misfit.key] = misfit
    return found


def _left_out(source: Source, judged: Judged) -> bool:
    """Whether a piece was taken from a matrix: most of it is wrong, where others are right.

    What a program prints again is the same, or something else.
    """
    exercise, found = judged.exercise, False
    share = 4 if exercise.by_program else 2
    for key in judged.exact:
        matrix = exercise.matrices[key]
        if len(set(matrix.piece_of.values())) < 2:
            continue
        sizes = Counter(matrix.piece_of.values())
        wrong = (c.figure.start for c in judged.wrong if (c.kind, c.head) == key)
        astray = Counter(matrix.piece_of.get(start, -1) for start in wrong)
        if not any(2 * astray[piece] < size for piece, size in sizes.items()):
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
            text = f"What line {source.line(piece)} prints is hardly {matrix.describe()} again."
            exercise.remarks.append(Remark(text))
    return found


def _is_doubtful(judged: Judged, key: Key) -> bool:
    """Whether a step fits so badly that it may be made of other things than it was taken for.

    Half of its numbers confirm a step. Without that its name must be plain, and those of its parts,
    and none of them may be there twice.
    """
    exercise = judged.exercise
    printed = sum(map(len, exercise.matrices[key].figures.values()))
    of_layer = key[0] in LAYER_KINDS
    astray = sum(
        cell.origin == "first" and not cell.is_explained if of_layer else not cell.from_step
        for cell in judged.cells
        if (cell.kind, cell.head) == key
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
    if stem not in MOMENTS:
        return False
    for kind in ("normalized", "norm"):
        norm = (kind + key[0][len(stem) :], None)
        if norm in judged.exact:
            printed = sum(map(len, judged.exercise.matrices[norm].figures.values()))
            astray = sum(c.origin == "first" for c in judged.cells if (c.kind, c.head) == norm)
            return 2 * astray <= printed and printed > 1
    return False


def _with_sources(exercise: Exercise, key: Key) -> list[Matrix]:
    found = (exercise.get(*part) for part in (key, *sources(exercise, *key)))
    return [matrix for matrix in found if matrix is not None]


def _is_certain(exercise: Exercise, key: Key) -> bool:
    """Whether the names of a step and its parts are plain, and none of them is there twice."""
    return key[0] not in LAYER_KINDS and all(
        matrix.is_plain and matrix.kind not in exercise.rivals
        for matrix in _with_sources(exercise, key)
    )


def _judge(source: Source, exercise: Exercise) -> Judged:
    if ways(exercise, "stream"):
        choose_layers(exercise, Reading((1.0, 1.0)))
    reading = choose_reading(exercise)
    layers = choose_layers(exercise, reading)
    chains = {way: Chain(exercise, reading, way) for way in ("full", "inputs", "step", "printed")}
    judged = Judged(
        exercise,
        given=set(),
        cells=[],
        claims=list(exercise.claims),
        remarks=list(exercise.remarks),
        checked=len(exercise.claims),
        questions=[],
        unknown=set(),
        unchecked=set(),
        exact={},
    )
    if reading.question:
        judged.questions.append(reading.question)
    if reading.remark:
        judged.remarks.append(Remark(reading.remark))
    judged.remarks += map(Remark, layers)
    marks: dict[Key, Mask] = {}
    wrong: dict[Key, Mask] = {}
    keys = in_order(exercise)
    for key in keys:
        matrix = exercise.matrices[key]
        if key in exercise.borrowed:
            continue
        if not sources(exercise, *key):
            judged.given.add(key)
            judge_given(source, matrix, judged)
            continue
        judged.exact[key] = chains["full"].reach(*key).middle
        tainted = _tainted(exercise, key, chains["full"], wrong, marks)
        cells = _judge_computed(source, matrix, chains, tainted, judged)
        wrong[key] = np.zeros(chains["full"].reach(*key).shape, dtype=bool)
        for cell in cells:
            wrong[key][cell.row, cell.column] |= cell.is_wrong
        diagnose(exercise, key, chains, cells)
        judged.cells += cells
    first = [cell for cell in judged.wrong if cell.origin == "first"]
    if all(abs(c.figure.value - c.right) <= 1.01 * c.figure.unit for c in first):
        # A slip in the last digit, and what carries it on.
        judged.cells = [cell for cell in judged.cells if cell.origin != "inherited"]
    for key in keys:
        if key not in exercise.borrowed:
            judge_sums(source, exercise.matrices[key], judged)
    return judged


def settle(
    source: Source, judged: list[Judged], equations: list[Equation], by_numbers: list[Link]
) -> list[Judged]:
    """The same, but nothing is accused where another reading makes it right.

    A number that is the result of an equation which holds, or of a matrix that follows from others
    than those it was taken to be made of, is right as it is: its step is set apart.
    """
    fine = {figure.start for equation in equations for figure in equation.right}
    fine |= {f.start for link in by_numbers for row in link.value.rows for f in row}
    wrong = {figure.start for link in by_numbers for figure, _ in link.wrong}
    fine -= wrong
    # From exponentials as printed, which are no step of the chain.
    of_others = [
        x for x in by_numbers if "exponentials" in x.how or x.how.endswith("a row of scores")
    ]
    rounded = {f.start for link in of_others for row in link.value.rows for f in row} - wrong
    # An equation that holds, printed with its figures: if they are not those above, who knows why.
    computed = {f.start for e in equations if not e.wrong and not e.doubt for f in e.exact}
    settled: list[Judged] = []
    for each in judged:
        while True:
            contested = {
                (cell.kind, cell.head)
                for cell in each.wrong
                if cell.figure.start in rounded
                or (
                    not cell.from_step
                    and cell.figure.start in fine
                    and not _is_certain(each.exercise, (cell.kind, cell.head))
                )
            } - each.exercise.apart
            if not contested:
                break
            each.exercise.apart |= contested
            names = ", ".join(sorted(SYMBOLS[kind] for kind, _ in contested))
            text = f"What is printed for {names} follows from other numbers than was thought."
            each.exercise.remarks.append(Remark(text))
            each = judge(source, each.exercise)
        each.cells = [cell for cell in each.cells if cell.figure.start not in computed]
        settled.append(each)
    return settled


# ── cells ─────────────────────────────────────────────────────────────────────────────────────


def _judge_computed(
    source: Source,
    matrix: Matrix,
    chains: dict[str, Chain],
    tainted: Mask,
    judged: Judged,
) -> list[Cell]:
    key = (matrix.kind, matrix.head)
    reach = {way: chain.reach(*key) for way, chain in chains.items()}
    cells: list[Cell] = []
    for (row, column), figures in sorted(matrix.figures.items()):
        for figure in figures:
            reachable = reach["inputs"].at(row, column)
            follows = reach["step"].at(row, column)
            hidden = math.isinf(reachable[0]) or math.isinf(follows[0])  # masked later, if at all
            if math.isnan(reachable[0]) or math.isnan(follows[0]) or hidden:
                judged.unknown.add(key)
                judged.unchecked.add(figure.start)
                continue
            judged.checked += 1
            inherits = bool(tainted[row, column])
            stands_for = figure.may_stand_for if inherits else figure.is_printed_of
            from_inputs, from_step = stands_for(*reachable), stands_for(*follows)
            if from_inputs and from_step:
                continue
            if from_inputs:
                origin = "none" if inherits else "first"
            else:
                origin = "inherited" if from_step and inherits else "first"
            cells.append(
                cell_at(
                    source,
                    matrix,
                    judged.exercise,
                    (row, column),
                    figure,
                    right=float(reach["full"].middle[row, column]),
                    from_printed=float(reach["printed"].middle[row, column]),
                    reachable=reachable,
                    follows_range=follows,
                    from_inputs=from_inputs,
                    from_step=from_step,
                    origin=origin,
                    is_tainted=inherits,
                )
            )
    return cells


def _tainted(
    exercise: Exercise, key: Key, full: Chain, wrong: dict[Key, Mask], marks: dict[Key, Mask]
) -> Mask:
    """Which cells of a step are made of a cell that is printed wrong."""
    kind = key[0]
    tainted = np.zeros(full.reach(*key).shape, dtype=bool)
    first_head = exercise.first_head if kind == "concatenated" else 1
    for source in sources(exercise, *key):
        if not sources(exercise, *source):
            continue  # given: right as printed
        if source not in marks:
            marks[source] = _marks(exercise, source, full, wrong, marks)
        own = marks[source]
        if kind == "scores":
            rows = own.any(axis=1, keepdims=True)
            tainted |= rows if source[0] == "query" else rows.T
        elif kind in _CELL_BY_CELL and own.shape == tainted.shape:
            tainted |= own
        elif kind == "head_output" and source[0] == "value":
            tainted |= own.any(axis=0)
        elif kind == "concatenated":
            start = ((source[1] or 0) - first_head) * own.shape[1]
            part = tainted[:, start : start + own.shape[1]]
            part |= own[:, : part.shape[1]]  # a head may be missing
        else:
            tainted |= own.any(axis=1, keepdims=True)
    return tainted


_CELL_BY_CELL = frozenset(
    ("scaled", "residual", "residual_2", "norm", "norm_2", "activated", "block", "deviation")
)


def _marks(
    exercise: Exercise, key: Key, full: Chain, wrong: dict[Key, Mask], known: dict[Key, Mask]
) -> Mask:
    """Which cells of a matrix are wrong as carried on: where printed, else where tainted."""
    marks = _tainted(exercise, key, full, wrong, known)
    matrix = exercise.get(*key)
    if matrix is not None and key in wrong:
        printed = ~np.isnan(enlarged(matrix.values, marks.shape, np.nan))
        marks = np.where(printed, wrong[key], marks)
    return marks
