"""What each step of an exercise is made of: the steps of attention, and those of a layer around it.

A step of a layer can be made in several ways (a layer norm of X + attention, or of X). `ways` lists
what is open, the usual way first; `Exercise.choices` says which one the figures fit.
"""

from __future__ import annotations

from regard.worked.exercise import HEAD_KINDS, Exercise, Head, Key
from regard.written.layer_names import LAYER_GIVEN
from regard.written.names import KINDS

__all__ = [
    "ACTIVATIONS",
    "LAYER_KINDS",
    "LAYER_STEPS",
    "MOMENTS",
    "OF_NORM",
    "available",
    "chosen",
    "in_order",
    "sources",
    "ways",
]

LAYER_KINDS = KINDS[KINDS.index("residual") :]
LAYER_STEPS = tuple(kind for kind in LAYER_KINDS if kind not in LAYER_GIVEN)
ACTIVATIONS = ("ReLU", "GELU", "x·σ(1.702 x)", "SiLU")
MOMENTS = ("mean", "variance", "deviation")
OF_NORM = ("centered", *MOMENTS, "normalized")  # on the way to a layer norm
# What is open only where one of some matrices is printed.
_OPEN = {
    "norm": (("γ and β", "γ", "neither"), ("gamma", "beta")),
    "norm_2": (("γ and β", "γ", "neither"), ("gamma", "beta", "gamma_2", "beta_2")),
    "b_1": (("hidden", "activated", "nowhere"), ("b_1",)),  # to which step it is added
    "b_2": (("feed_forward", "nowhere"), ("b_2",)),
}
_OF_ATTENTION = KINDS[KINDS.index("query") : KINDS.index("output") + 1]


def sources(exercise: Exercise, kind: str, head: Head) -> list[Key]:
    """What a step is made of, if all of it is there, printed or computable; else nothing."""
    key = (kind, head if kind in HEAD_KINDS else None)
    stamp = (len(exercise.matrices), len(exercise.apart), *exercise.choices.items())
    if exercise.stamp != stamp:  # each step asks for those before it, many times over
        exercise.stamp, exercise.made_of = stamp, {}
    if key not in exercise.made_of:
        exercise.made_of[key] = [] if key in exercise.apart else _made_of(exercise, *key)
    return exercise.made_of[key]


def _made_of(exercise: Exercise, kind: str, head: Head) -> list[Key]:
    if kind in LAYER_KINDS:
        return _of_layer(exercise, kind)
    stream = chosen(exercise, "stream") or "input"
    context = stream if exercise.get("context") is None else "context"
    needs: dict[str, list[Key]] = {
        "input": [("embeddings", None), ("positions", None)],
        "query": [(stream, None), ("W_Q", head)],
        "key": [(context, None), ("W_K", head)],
        "value": [(context, None), ("W_V", head)],
        "scores": [("query", head), ("key", head)],
        "scaled": [("scores", head)],
        "weights": [("scaled", head)],
        "head_output": [("weights", head), ("value", head)],
        "output": [("concatenated", None), ("W_O", None)],
    }
    wanted = needs.get(kind, [])
    if kind == "concatenated":
        wanted += [("head_output", h) for h in exercise.heads]
    if all(available(exercise, *source) for source in wanted):
        return wanted
    if kind == "head_output" and available(exercise, "value", head):
        return [("value", head)]
    if kind == "concatenated" and available(exercise, "head_output", exercise.heads[0]):
        return [("head_output", h) for h in exercise.heads if available(exercise, "head_output", h)]
    return []


def available(exercise: Exercise, kind: str, head: Head) -> bool:
    """Whether a matrix is printed, or follows from what is printed."""
    if exercise.get(kind, head) is not None:
        return True
    if kind == "concatenated" and any(
        not available(exercise, "head_output", h) for h in exercise.heads
    ):
        return False
    found = sources(exercise, kind, head)
    only_bounded = kind == "head_output" and found == [("value", head)]
    return bool(found) and not only_bounded


def in_order(exercise: Exercise) -> list[Key]:
    """The printed matrices, each after those that it is made of."""
    found: dict[Key, None] = {}

    def visit(key: Key) -> None:
        if key not in found:
            found[key] = None  # also ends a circle
            for source in sources(exercise, *key):
                visit(source)
            found[key] = found.pop(key)

    for key in sorted(exercise.matrices, key=lambda key: (KINDS.index(key[0]), key[1] or 0)):
        visit(key)
    return [key for key in found if key in exercise.matrices]


# ── a layer ───────────────────────────────────────────────────────────────────────────────────


def ways(exercise: Exercise, role: str) -> list[str]:
    """What is open about a layer, the usual way first: what a step is made of, or how.

    "stream" is what Q, K and V are made of, "base" what a layer norm is taken of, "feed" what goes
    into the feed-forward layer, "skip" what is added to its result.
    """
    if role in _OPEN:
        found, needed = _OPEN[role]
        return list(found if _printed(exercise, *needed) else found[:1])
    if role == "variance":
        return ["biased", "unbiased"]
    if role == "activation":
        return exercise.activations or list(ACTIVATIONS)
    if role == "maps":
        maps = [m for m in (exercise.get("W_1"), exercise.get("W_2")) if m is not None]
        return ["x W", "W x"] if any(m.shape[0] == m.shape[1] for m in maps) else ["x W"]
    is_pre_norm = _is_before(exercise, "norm", _OF_ATTENTION)
    if role == "stream":
        return ["norm", "input"] if is_pre_norm else []
    is_before_feed = _is_before(exercise, "norm_2", ("hidden", "activated", "feed_forward"))
    stream = ["residual", "input"] if is_pre_norm else ["norm", "residual", "input"]
    if role == "base":
        found = ["input"] if is_pre_norm else ["residual", "input", _after_attention(exercise)]
    elif role == "base_2":
        found = ["residual", "input"] if is_before_feed else ["residual_2", "feed_forward"]
    elif role == "block":
        found = ["norm_2", "residual_2", "feed_forward", "norm"]
    else:
        found = stream if role == "skip" else [*stream, _after_attention(exercise)]
        found = ["norm_2", *found] if role == "feed" and is_before_feed else found
        # What goes on is printed, as a rule.
        found.sort(key=lambda kind: kind != "input" and not _printed(exercise, kind))
    return [k for k in found if k and available(exercise, k, exercise.heads[0])]


def _printed(exercise: Exercise, *kinds: str) -> list[str]:
    return [kind for kind in kinds if exercise.get(kind, exercise.heads[0]) is not None]


def chosen(exercise: Exercise, role: str) -> str:
    there = ways(exercise, role)
    return there[min(exercise.choices.get(role, 0), len(there) - 1)] if there else ""


def _is_before(exercise: Exercise, kind: str, others: tuple[str, ...]) -> bool:
    """Whether a matrix is printed before all of some others, of which there is one."""
    matrix = exercise.get(kind)
    if matrix is None:
        return False
    starts = [m.start for (other, _), m in exercise.matrices.items() if other in others]
    return bool(starts) and matrix.start < min(starts)


def _after_attention(exercise: Exercise) -> str:
    """What attention hands on: its output, or that of its one head."""
    one_head = len(exercise.heads) == 1 and exercise.get("concatenated") is None
    for kind in ("output", "head_output" if one_head else "concatenated"):
        if available(exercise, kind, exercise.heads[0]):
            return kind
    return ""


def _of_layer(exercise: Exercise, kind: str) -> list[Key]:
    stem = kind.removesuffix("_2")
    second = kind[len(stem) :]
    if kind not in LAYER_STEPS:
        return []
    base = [chosen(exercise, f"base{second}")] if stem in OF_NORM else []
    mean, variance, root, centered = (
        [k for k in _printed(exercise, f"{of}{second}") if (k, None) not in exercise.apart]
        for of in (*MOMENTS, "centered")
    )
    centre = centered or [*base, *mean]
    if kind == "residual":
        wanted = ["input", _after_attention(exercise)]
    elif kind == "residual_2":
        wanted = [chosen(exercise, "skip"), "feed_forward"]
    elif kind == "block":
        wanted = [chosen(exercise, "block")]
    elif stem == "norm":
        own = _printed(exercise, f"gamma{second}") or _printed(exercise, "gamma")
        shift = _printed(exercise, f"beta{second}") or _printed(exercise, "beta")
        scaled = {"γ and β": own + shift, "γ": own, "neither": []}
        wanted = [f"normalized{second}", *scaled[chosen(exercise, kind)]]
    elif kind in ("hidden", "feed_forward"):
        wanted = [chosen(exercise, "feed"), "W_1"] if kind == "hidden" else ["activated", "W_2"]
        bias = "b_1" if kind == "hidden" else "b_2"
        wanted += _printed(exercise, bias) if chosen(exercise, bias) == kind else []
    elif kind == "activated":
        later = _printed(exercise, "hidden") and chosen(exercise, "b_1") == kind
        wanted = ["hidden", *(_printed(exercise, "b_1") if later else [])]
    else:
        of_moments = {
            "mean": base,
            "centered": base + mean,
            "variance": centre,
            "deviation": variance or centre,
            "normalized": centre + (root or variance),
        }
        wanted = of_moments[stem]
    keys: list[Key] = [(k, exercise.heads[0] if k in HEAD_KINDS else None) for k in wanted]
    return keys if all(k and available(exercise, k, head) for k, head in keys) else []
