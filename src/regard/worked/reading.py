"""How the softmax of an exercise is to be read: what the scores are divided by, masked or not."""

from __future__ import annotations

import math

from regard.worked.chain import Chain, Reading, available, sources
from regard.worked.exercise import Exercise

__all__ = ["choose_reading"]

_NO_SIZE = (
    "By how much were the scores divided? Neither K nor d_k is in the text: add a line d_k = …, "
    "or say “without scaling”."
)
_AFTER_SCALING = ("scaled", "weights", "head_output", "concatenated", "output")


def choose_reading(exercise: Exercise) -> Reading:
    """Scaled by √d_k and unmasked, unless the text says otherwise or the figures fit only that."""
    readings = _readings(exercise)
    counted = []
    for index, reading in enumerate(readings):
        misfits = [_misfits(Chain(exercise, reading, way), exercise) for way in ("step", "inputs")]
        counted.append((*misfits, index))
        if not any(misfits):
            break
    # Another reading must fit far better, and the inputs no worse: a few wrong cells may look a
    # little like one, and coarse figures in between let nearly any pass.
    misfits, _, best = min(each for each in counted if each[1] <= counted[0][1])
    if counted[0][0] < 2 * misfits:
        misfits, best = counted[0][0], 0
    if misfits and available(exercise, "scores", _head(exercise)) and not _sizes(exercise):
        return Reading((math.nan, math.nan), question=_NO_SIZE)
    return readings[best]


def _head(exercise: Exercise) -> int:
    """The first head of which the scores are known; all heads are read alike."""
    known = (head for head in exercise.heads if available(exercise, "scores", head))
    return next(known, exercise.heads[0])


def _sizes(exercise: Exercise) -> list[float]:
    """What d_k may be: the width of a key, and what the text says."""
    head = _head(exercise)
    sizes: list[float] = []
    if available(exercise, "key", head):
        chain = Chain(exercise, Reading((1.0, 1.0)), "full")
        sizes.append(float(chain.carried("key", head).shape[1]))
    if exercise.d_k is not None and exercise.d_k.value > 0:
        sizes.append(exercise.d_k.value)
    return list(dict.fromkeys(sizes))


def _readings(exercise: Exercise) -> list[Reading]:
    head = _head(exercise)
    if not available(exercise, "scores", head):
        divided = [Reading((1.0, 1.0))]
        if exercise.get("scaled", head) is None:
            return divided
    else:
        sizes = _sizes(exercise)
        divided = [Reading(_root(exercise, size)) for size in sizes]
        if len(divided) > 1:
            remark = (
                f"The scores are divided by √{sizes[1]:g}, though a key has {sizes[0]:g} numbers."
            )
            divided[1] = Reading(divided[1].divisor, remark=remark)
        why = "as the text says" if exercise.says_unscaled else "the figures fit only that"
        remark = f"The softmax is taken of the scores without dividing by √d_k: {why}."
        unscaled = Reading((1.0, 1.0), remark=remark)
        divided = [unscaled, *divided] if exercise.says_unscaled else [*divided, unscaled]
    why = "as the text says" if exercise.says_causal else "the figures fit only that"
    remark = f"Each query sees only the keys up to its own place (a causal mask): {why}."
    if _prints_the_future(exercise, head) and not exercise.says_causal:
        return divided
    causal = [
        Reading(r.divisor, causal=True, remark=f"{r.remark} {remark}".strip()) for r in divided
    ]
    return [*causal, *divided] if exercise.says_causal else [*divided, *causal]


def _prints_the_future(exercise: Exercise, head: int) -> bool:
    """Whether scaled scores of later keys are printed: who masks them prints −∞, or nothing."""
    scaled = exercise.get("scaled", head)
    return scaled is not None and any(
        column > row and math.isfinite(figures[0].value)
        for (row, column), figures in scaled.figures.items()
    )


def _root(exercise: Exercise, size: float) -> tuple[float, float]:
    root = math.sqrt(size)
    printed = exercise.root
    if printed is None or abs(printed.value - root) > printed.unit:
        return (root, root)
    return (min(root, printed.value), max(root, printed.value))


def _misfits(chain: Chain, exercise: Exercise) -> int:
    """How many figures that depend on the reading do not fit it."""
    return sum(
        not figure.may_stand_for(*chain.reach(*key).at(*cell))
        for key, matrix in exercise.matrices.items()
        if key[0] in _AFTER_SCALING and sources(exercise, *key)
        for cell, figures in matrix.figures.items()
        for figure in figures
    )
