"""How an exercise is to be read: scores divided by what, masked or not; how a layer is made.

The usual way counts, unless another fits the figures far better.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np

from regard.worked.chain import Chain, Misfit, Reading
from regard.worked.exercise import Exercise, Key
from regard.worked.parts import OF_NORM, available, chosen, sources, ways
from regard.written.names import SYMBOLS

__all__ = ["choose_layers", "choose_reading"]

_NO_SIZE = (
    "By how much were the scores divided? Neither K nor dₖ is in the text: add a line d_k = …, "
    "or say “without scaling”."
)
_AFTER_SCALING = ("scaled", "weights", "head_output", "concatenated", "output")


def choose_reading(exercise: Exercise) -> Reading:
    """Scaled by √d_k and unmasked, unless the text says otherwise or the figures fit only that."""
    readings = _readings(exercise)
    keys = [key for key in exercise.matrices if key[0] in _AFTER_SCALING]
    counted = []
    for index, reading in enumerate(readings):
        step, inputs = _misfits(exercise, reading, keys)
        counted.append((step, inputs, index))
        if not step + inputs:
            break
    best = _best(counted)
    scores = exercise.get("scores", _head(exercise))
    # Scores of whole numbers are not rounded: what they were divided by can be told from them.
    are_whole = scores is not None and bool((scores.units >= 1).all())
    is_told = bool(_sizes(exercise)) or (are_whole and readings[best].divisor != (1.0, 1.0))
    if counted[best][0] and available(exercise, "scores", _head(exercise)) and not is_told:
        return Reading((math.nan, math.nan), question=_NO_SIZE)
    return readings[best]


def _best(counted: list[tuple[float, float, int]]) -> int:
    """Which of some readings counts, by their misfits from the step before and from the inputs.

    Another than the first must fit far better, and the inputs no worse: a few wrong cells may look
    a little like one, and coarse figures in between let nearly any pass.
    """
    misfits, _, best = min(each for each in counted if each[1] <= counted[0][1])
    return 0 if counted[0][0] < 2 * misfits else best


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

    def why(is_said: bool) -> str:
        return "as the text says." if is_said else "the figures fit only that."

    if not available(exercise, "scores", head):
        divided = [Reading((1.0, 1.0))]
        if exercise.get("scaled", head) is None:
            return divided
    else:
        sizes = _sizes(exercise)
        divided = [Reading(_root(exercise, size)) for size in sizes]
        if len(divided) > 1:
            told = f"divided by √{sizes[1]:g}, though a key has {sizes[0]:g} numbers."
            divided[1] = Reading(divided[1].divisor, remark=f"The scores are {told}")
        remark = "The softmax is taken of the scores without dividing by √dₖ: "
        unscaled = Reading((1.0, 1.0), remark=remark + why(exercise.says_unscaled))
        divided = [unscaled, *divided] if exercise.says_unscaled else [*divided, unscaled]
        divided += _by_one_number(exercise, head)
    if _prints_the_future(exercise, head) and not exercise.says_causal:
        return divided
    remark = "Each query sees only the keys up to its own place (a causal mask): "
    remark += why(exercise.says_causal)
    causal = [replace(r, causal=True, remark=f"{r.remark} {remark}".strip()) for r in divided]
    return [*causal, *divided] if exercise.says_causal else [*divided, *causal]


def _by_one_number(exercise: Exercise, head: int) -> list[Reading]:
    """What all scores were divided by, as printed: 2, though the text speaks of a d_k of 512."""
    scores, scaled = exercise.get("scores", head), exercise.get("scaled", head)
    if scores is None or scaled is None or scores.shape != scaled.shape:
        return []
    values, small = scores.values, scaled.values
    told = np.isfinite(values) & np.isfinite(small) & (np.abs(small) > 4 * scaled.units)
    if told.sum() < 2:
        return []
    ratio = float(np.median(values[told] / small[told]))
    root = math.sqrt(max(round(ratio * ratio), 0))
    divisor = root if abs(ratio - root) < 0.01 else round(ratio, 1)
    remark = f"The scores are divided by {divisor:.4g}: the figures fit only that."
    return [Reading((divisor, divisor), remark=remark)] if divisor > 1 else []


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
    is_used = printed is not None and abs(printed.value - root) <= printed.unit
    ends = (root, printed.value if printed is not None and is_used else root)
    return min(ends), max(ends)


def _misfits(exercise: Exercise, reading: Reading, keys: list[Key]) -> tuple[float, float]:
    """How many figures do not fit a reading, from the step before and from the inputs."""
    found = [0, 0]
    chains = [Chain(exercise, reading, way) for way in ("step", "inputs")]
    for key in [key for key in keys if sources(exercise, *key)]:
        for number, chain in enumerate(chains):
            try:
                reach = chain.reach(*key)
            except Misfit:
                return math.inf, math.inf
            found[number] += sum(
                not figure.may_stand_for(*reach.at(*cell))
                for cell, figures in exercise.matrices[key].figures.items()
                for figure in figures
            )
    return found[0], found[1]


# ── layers ────────────────────────────────────────────────────────────────────────────────────

# What is open together, and the steps that show which way it is; in the order of the steps.
_OPEN = (
    (("stream",), ("query", "key", "value")),
    (("base", "variance", "norm"), (*OF_NORM, "norm")),
    (("feed", "maps", "b_1", "activation", "b_2"), ("hidden", "activated", "feed_forward")),
    (("skip",), ("residual_2",)),
    (("base_2", "variance", "norm_2"), (*(f"{kind}_2" for kind in OF_NORM), "norm_2")),
    (("block",), ("block",)),
)


def choose_layers(exercise: Exercise, reading: Reading) -> list[str]:
    """Set the ways of a layer that the figures fit; the sentences tell what is not as usual."""
    exercise.choices = {}
    remarks: list[str] = []
    for roles, kinds in _OPEN:
        keys = [k for k in exercise.matrices if k[0] in kinds and sources(exercise, *k)]
        roles = [role for role in roles if keys and role not in exercise.choices]
        free = [role for role in roles if len(ways(exercise, role)) > 1]
        if not free:
            continue
        numbers = product(*(range(len(ways(exercise, role))) for role in free))
        tried = [dict(zip(free, each, strict=True)) for each in sorted(numbers, key=sum)]
        before, counted = dict(exercise.choices), []
        for index, choice in enumerate(tried):
            exercise.choices = before | choice
            step, inputs = _misfits(exercise, reading, keys)
            # One wrong mean that was not carried on spoils all that follows from it as printed.
            counted.append((min(step, inputs), step + inputs, index))
            if not step + inputs:
                break
        best = tried[_best(counted)]
        exercise.choices = before | best
        remarks += [_told(exercise, role) for role, choice in best.items() if choice]
    return [remark for remark in remarks if remark]


def _told(exercise: Exercise, role: str) -> str:
    way = chosen(exercise, role)
    said = {
        "variance": "The variance is divided by n − 1",
        "activation": f"The hidden layer goes through {way}",
        "maps": "The feed-forward layer is W x, not x W",
        "base": f"The layer norm is taken of {SYMBOLS.get(way, way)}",
        "base_2": f"The second layer norm is taken of {SYMBOLS.get(way, way)}",
        "stream": "Q, K and V are made of X, not of its layer norm",
    }
    return f"{said[role]}: the figures fit only that." if role in said else ""
