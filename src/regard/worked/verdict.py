"""The two verdicts on every cell of an exercise, and which cells are the first causes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.reference import Array, Mask
from regard.worked.causes import diagnose
from regard.worked.cell import Cell
from regard.worked.chain import Chain, Head, Misfit, enlarged, sources
from regard.worked.equations import Equation
from regard.worked.exercise import Claim, Exercise, Matrix, Remark
from regard.worked.links import Link
from regard.worked.reading import choose_reading
from regard.written.figures import Figure
from regard.written.names import KINDS, SYMBOLS
from regard.written.source import Source

__all__ = ["Judged", "judge", "settle"]


@dataclass
class Judged:
    """An exercise with its verdicts."""

    exercise: Exercise
    given: set[tuple[str, Head]]
    cells: list[Cell]
    claims: list[Claim]
    remarks: list[Remark]
    checked: int  # how many printed cells had a verdict
    questions: list[str]
    unknown: set[tuple[str, Head]]  # matrices of which some cell could not be checked
    exact: dict[tuple[str, Head], Array]  # what is printed and computed, in full

    @property
    def wrong(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.is_wrong]

    def inherit_from(self, kind: str, head: Head) -> list[str]:
        """The matrices whose own mistakes a step inherits, by their symbols."""
        kinds = self._causes(kind, head)
        return [SYMBOLS[cause] for cause in KINDS if cause in kinds]

    def _causes(self, kind: str, head: Head) -> set[str]:
        causes: set[str] = set()
        for source in sources(self.exercise, kind, head):
            if any((c.kind, c.head) == source and c.origin == "first" for c in self.cells):
                causes.add(source[0])
            causes |= self._causes(*source)
        return causes


def judge(source: Source, exercise: Exercise) -> Judged:
    """Both verdicts on everything that is printed. What does not fit in shape is set apart."""
    while True:
        try:
            judged = _judge(source, exercise)
        except Misfit as misfit:
            exercise.apart.add(misfit.key)
            exercise.remarks.append(Remark(f"Not checked: {misfit}"))
            continue
        doubtful = next((key for key in judged.exact if _is_doubtful(judged, key)), None)
        if doubtful is None:
            return judged
        matrix = exercise.matrices[doubtful]
        made = " and ".join(SYMBOLS[kind] for kind, _ in sources(exercise, *doubtful))
        exercise.apart.add(doubtful)
        text = f"Most of {matrix.describe()} does not follow from {made}: is it something else? "
        exercise.remarks.append(Remark(f"{text}It was left alone; --as {matrix.line}=… says it."))


def _is_doubtful(judged: Judged, key: tuple[str, Head]) -> bool:
    """Whether a step fits so badly that it may be made of other things than it was taken for.

    Half of its numbers confirm a step. Without that its name must be plain, and those of its parts,
    and none of them may be there twice.
    """
    exercise = judged.exercise
    printed = sum(map(len, exercise.matrices[key].figures.values()))
    astray = sum(not cell.from_step for cell in judged.cells if (cell.kind, cell.head) == key)
    if any(m.kind in exercise.rivals for m in _with_sources(exercise, key)):
        return astray > 0 and (4 * astray > printed or printed < 4)
    return 2 * astray > printed and not _is_certain(exercise, key)


def _with_sources(exercise: Exercise, key: tuple[str, Head]) -> list[Matrix]:
    found = (exercise.get(*part) for part in (key, *sources(exercise, *key)))
    return [matrix for matrix in found if matrix is not None]


def _is_certain(exercise: Exercise, key: tuple[str, Head]) -> bool:
    """Whether the names of a step and its parts are plain, and none of them is there twice."""
    return all(
        matrix.is_plain and matrix.kind not in exercise.rivals
        for matrix in _with_sources(exercise, key)
    )


def _judge(source: Source, exercise: Exercise) -> Judged:
    reading = choose_reading(exercise)
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
        exact={},
    )
    if reading.question:
        judged.questions.append(reading.question)
    if reading.remark:
        judged.remarks.append(Remark(reading.remark))
    wrong: dict[tuple[str, Head], Mask] = {}
    keys = sorted(exercise.matrices, key=lambda key: (KINDS.index(key[0]), key[1] or 0))
    for key in keys:
        matrix = exercise.matrices[key]
        if key in exercise.borrowed:
            continue
        if not sources(exercise, *key):
            judged.given.add(key)
            _judge_given(source, matrix, judged)
            continue
        judged.exact[key] = chains["full"].reach(*key).middle
        tainted = _tainted(exercise, key, chains["full"], wrong)
        cells = _judge_computed(source, matrix, chains, tainted, judged)
        wrong[key] = np.zeros(chains["full"].reach(*key).shape, dtype=bool)
        for cell in cells:
            wrong[key][cell.row, cell.column] |= cell.is_wrong
        diagnose(exercise, key, chains["full"], cells)
        judged.cells += cells
    first = [cell for cell in judged.wrong if cell.origin == "first"]
    if all(abs(c.figure.value - c.right) <= 1.01 * c.figure.unit for c in first):
        # A slip in the last digit, and what carries it on.
        judged.cells = [cell for cell in judged.cells if cell.origin != "inherited"]
    for key in keys:
        if key not in exercise.borrowed:
            _judge_sums(source, exercise.matrices[key], judged)
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
    fine -= {figure.start for link in by_numbers for figure, _ in link.wrong}
    settled: list[Judged] = []
    for each in judged:
        while True:
            contested = {
                (cell.kind, cell.head)
                for cell in each.wrong
                if not cell.from_step
                and cell.figure.start in fine
                and not _is_certain(each.exercise, (cell.kind, cell.head))
            } - each.exercise.apart
            if not contested:
                break
            each.exercise.apart |= contested
            names = ", ".join(sorted(SYMBOLS[kind] for kind, _ in contested))
            text = f"What is printed for {names} follows from other numbers than was thought."
            each.exercise.remarks.append(Remark(text))
            each = judge(source, each.exercise)
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
                continue
            judged.checked += 1
            from_inputs = figure.may_stand_for(*reachable)
            from_step = figure.may_stand_for(*follows)
            if from_inputs and from_step:
                continue
            inherits = bool(tainted[row, column])
            if from_inputs:
                origin = "none" if inherits else "first"
            else:
                origin = "inherited" if from_step and inherits else "first"
            cells.append(
                _cell(
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


def _cell(
    source: Source,
    matrix: Matrix,
    exercise: Exercise,
    place: tuple[int, int],
    figure: Figure,
    **verdict: Any,
) -> Cell:
    row, column = place
    return Cell(
        kind=matrix.kind,
        head=matrix.head,
        row=row,
        column=column,
        row_label=_label(matrix, exercise, 0, row),
        column_label=_label(matrix, exercise, 1, column),
        figure=figure,
        line=source.line(figure.start),
        **verdict,
    )


def _label(matrix: Matrix, exercise: Exercise, axis: int, index: int) -> str:
    labels = (matrix.row_labels, matrix.column_labels)[axis]
    if axis == 1 and matrix.kind in ("scores", "scaled", "weights"):
        key = exercise.get("key", matrix.head)
        labels = labels or (key.row_labels if key is not None else []) or exercise.tokens
    elif axis == 0 and not labels and not matrix.kind.startswith("W_"):
        labels = exercise.tokens
    return labels[index] if index < len(labels) else str(index + 1)


def _tainted(
    exercise: Exercise, key: tuple[str, Head], full: Chain, wrong: dict[tuple[str, Head], Mask]
) -> Mask:
    """Which cells of a step are made of a cell that is printed wrong."""
    kind = key[0]
    tainted = np.zeros(full.reach(*key).shape, dtype=bool)
    for source in sources(exercise, *key):
        if not sources(exercise, *source):
            continue  # given: right as printed
        marks = _marks(exercise, source, full, wrong)
        if kind == "scores":
            rows = marks.any(axis=1, keepdims=True)
            tainted |= rows if source[0] == "query" else rows.T
        elif kind == "scaled":
            tainted |= marks
        elif kind == "head_output" and source[0] == "value":
            tainted |= marks.any(axis=0)
        elif kind == "concatenated":
            start = ((source[1] or 0) - exercise.first_head) * marks.shape[1]
            tainted[:, start : start + marks.shape[1]] |= marks
        else:
            tainted |= marks.any(axis=1, keepdims=True)
    return tainted


def _marks(
    exercise: Exercise, key: tuple[str, Head], full: Chain, wrong: dict[tuple[str, Head], Mask]
) -> Mask:
    """Which cells of a matrix are wrong as carried on: where printed, else where tainted."""
    marks = _tainted(exercise, key, full, wrong)
    matrix = exercise.get(*key)
    if matrix is not None and key in wrong:
        printed = ~np.isnan(enlarged(matrix.values, marks.shape, np.nan))
        marks = np.where(printed, wrong[key], marks)
    return marks


# ── what is given, and sums ───────────────────────────────────────────────────────────────────


def _judge_given(source: Source, matrix: Matrix, judged: Judged) -> None:
    """A given matrix is right as printed; printed twice it must be the same, weights 0 to 1."""
    mistakes: list[tuple[tuple[int, int], Figure, float, str]] = []
    repeated = 0
    for place, (first, *others) in sorted(matrix.figures.items()):
        repeated += len(others)
        for figure in others:
            if figure.unit == first.unit and abs(figure.value - first.value) > first.unit / 2:
                cause = f"printed twice: line {source.line(first.start)} has {first.text}"
                mistakes.append((place, figure, first.value, cause))
    judged.checked += repeated
    # Where much of it differs, it is another; of a token's two numbers one may.
    one_of_two = repeated == 2 and len(mistakes) == 1 and matrix.kind in ("input", "embeddings")
    if not matrix.is_plain or (4 * len(mistakes) > repeated and not one_of_two):
        mistakes = []
    if matrix.kind == "weights" and _are_weights(matrix):
        for place, figures in sorted(matrix.figures.items()):
            judged.checked += 1
            if not 0 <= figures[0].value <= 1:
                nearest = min(max(figures[0].value, 0.0), 1.0)
                mistakes.append((place, figures[0], nearest, "a weight is between 0 and 1"))
    judged.cells += [
        _cell(
            source,
            matrix,
            judged.exercise,
            place,
            figure,
            right=right,
            from_printed=right,
            reachable=(right, right),
            follows_range=(right, right),
            from_inputs=False,
            from_step=False,
            origin="first",
            cause=cause,
        )
        for place, figure, right, cause in mistakes
    ]


def _are_weights(matrix: Matrix) -> bool:
    """Whether given numbers look like weights: half of the rows sum to 1, or it says so plainly."""
    sums = matrix.values.sum(axis=1)
    fitting = np.abs(sums - 1) <= np.minimum(matrix.units.sum(axis=1) / 2, 0.25) + 1e-9
    if matrix.blocks > 1:
        return False
    inside = (matrix.values >= 0) & (matrix.values <= 1)
    if len(sums) > 1:
        return 2 * int(fitting.sum()) >= len(sums)
    return bool(fitting.all()) or (matrix.is_plain and bool(inside.all()))


def _judge_sums(source: Source, matrix: Matrix, judged: Judged) -> None:
    values, units = matrix.values, matrix.units
    given_weights = matrix.kind == "weights" and (matrix.kind, matrix.head) in judged.given
    given_weights = given_weights and _are_weights(matrix)
    for row in range(matrix.shape[0]):
        total = float(values[row].sum())
        slack = min(float(units[row].sum()) / 2, 0.05 * matrix.shape[1]) + 1e-9
        label = _label(matrix, judged.exercise, 0, row)
        about = f"the sum of row “{label}” of {matrix.symbol}"
        if given_weights and not math.isnan(total):
            judged.checked += 1
            if abs(total - 1) > min(slack, 0.25):
                line = source.line(matrix.figures[row, 0][0].start)
                judged.claims.append(Claim(about, f"{total:.6g}", "1", False, line))
        figure = matrix.sums.get(row)
        if figure is not None:
            judged.checked += 1
            right = 1.0 if matrix.kind == "weights" else total
            off = abs(figure.value - total)
            fits = off <= figure.unit / 2 + slack or (
                matrix.kind == "weights" and abs(figure.value - 1) <= figure.unit / 2 + 1e-9
            )
            line = source.line(figure.start)
            judged.claims.append(Claim(about, figure.text, figure.like(right), fits, line, figure))
