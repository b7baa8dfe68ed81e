"""Hook points: modules name what they compute, step by step, and hand it to whoever records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch import Tensor, nn

from regard._rules.attention import Scored, Turned
from regard._rules.general import Activated, Given, Incoming, Linear, LookedUp, Summed, Wave
from regard._steps import STEPS, StepKind
from regard.nn.position import Sinusoidal

# What `hook_points()` of a module gives: what each step is, by the name under which it is recorded.
# A rule names steps and parameters of the module itself: "a|b" is the first that was recorded
# (an empty one is left out), "^" the step before. In a formula {0} is the symbol of the first step
# that the rule names, {sum} the symbols of all, {name} the name of the first.
HookPoints = Mapping[str, StepKind]

_lock = threading.RLock()  # a signal handler may come in the middle
# Who records, and in which thread. Replaced, never changed: who goes through it in one thread is
# not disturbed by another.
_recorders: tuple[tuple[int, Callable[[nn.Module, str, Tensor], None]], ...] = ()


@dataclass(frozen=True, eq=False)
class Recorded:
    """One step: which module, by its name in the model and itself; the step's name; its numbers."""

    path: str  # "" is the model itself
    module: nn.Module
    name: str
    tensor: Tensor


def record(module: nn.Module, name: str, tensor: Tensor) -> None:
    """`module` has computed `tensor`, its step `name`. Costs nothing if nobody records."""
    if _recorders:
        for thread, recorder in _recorders:
            if thread == threading.get_ident():
                recorder(module, name, tensor)


def is_recording() -> bool:
    """Does anybody record in this thread? For what is worth computing only then."""
    if not _recorders:
        return False
    return any(thread == threading.get_ident() for thread, _ in _recorders)


@contextmanager
def recording(
    model: nn.Module, wanted: Callable[[str, str], bool] | None = None
) -> Generator[list[Recorded]]:
    """Inside the `with`, the list grows by every step that a module of `model` computes, or by
    those of which path and name are `wanted`.

    The tensors are copies without gradient. Only what this thread computes is recorded.

    >>> import torch
    >>> from regard.nn import FeedForward
    >>> layer = FeedForward(3, hidden=5)
    >>> with recording(layer) as steps:
    ...     _ = layer(torch.zeros(1, 2, 3))
    >>> [step.name for step in steps]
    ['input', 'hidden', 'activated', 'output']
    """
    names = {id(module): name for name, module in model.named_modules()}
    steps: list[Recorded] = []

    def take(module: nn.Module, name: str, tensor: Tensor) -> None:
        path = names.get(id(module))
        if path is not None and (wanted is None or wanted(path, name)):
            steps.append(Recorded(path, module, name, tensor.detach().clone()))

    global _recorders
    with _lock:
        _recorders = (*_recorders, (threading.get_ident(), take))
    try:
        yield steps
    finally:
        with _lock:
            _recorders = tuple(each for each in _recorders if each[1] is not take)


# ── steps that several modules have ───────────────────────────────────────────────────────────

INPUT = StepKind(
    "Input",
    "X",
    "Each token's vector as it comes in.",
    Incoming("each token's vector"),
    kind="incoming",
)
OUTPUT = StepKind(
    "Output",
    "O",
    "Each token's vector as it goes out.",
    Incoming("each token's vector"),
    kind="outgoing",
)


def linear(left: str, matrix: str) -> Linear:
    """The rule of what the linear map `matrix` makes of the step `left`."""
    return Linear(left, f"{matrix}.weight", f"{matrix}.bias")


def transformed(formula: str, matrix: str) -> StepKind:
    meaning = "Each token's vector, made ready for the head."
    return StepKind("Transformed", formula, meaning, linear("^", matrix), kind="transformed")


def activated(of: str, function: str) -> StepKind:
    meaning = "Features that are there; others are near 0."
    formula = f"A = {function}({{0}})"
    return StepKind("Activated", formula, meaning, Activated(of, function))


LOGITS = StepKind(
    "Logits",
    "L = X W_head",
    "How much speaks for each token, or each class.",
    linear("^", "head"),
    "outcome",
)


def positions_point(positions: nn.Module) -> StepKind:
    """What is added for the place of a token; without padding that is its number in the text."""
    rule, formula = LookedUp("positions.weight"), "P = table[p]"
    position = getattr(positions, "position", None)
    if isinstance(position, Sinusoidal):
        rule = Wave(position.base, position.layout == "halves")
        formula = "P = sin, cos of p / base^(2i/width)"
    return StepKind("Positions", formula, "Where each token stands.", rule)


def placed(formula: str, *of: str) -> StepKind:
    meaning = "What each token means, plus where it stands."
    return StepKind("Embeddings", formula, meaning, Summed(of), kind="placed")


def attention_points(low_rank: bool) -> HookPoints:
    """The steps of attention; it records `mask`, `cosine` and `sine` besides, which are none."""
    left = "context|input"
    value = replace(STEPS["value"], formula="V = {0} W_V", rule=linear(left, "w_v"))
    if low_rank:
        value = replace(value, formula="V = D V_up", rule=linear("down", "w_v.up"))
    points = {
        "input": INPUT,
        "context": StepKind(
            "Context",
            "Y",
            "The other sequence, which is looked at.",
            Incoming("the context"),
            of_keys=True,
        ),
        "query": replace(STEPS["query"], rule=linear("input", "w_q")),
        "key": replace(STEPS["key"], formula="K = {0} W_K", rule=linear(left, "w_k")),
        "down": StepKind(
            "Narrow value",
            "D = {0} V_down",
            "The value through a narrow place.",
            linear(left, "w_v.down"),
            of_keys=True,
        ),
        "value": value,
        "bias": StepKind(
            "Score bias",
            "B",
            "What is added to a score for how far query and key stand apart.",
            Given("what is added to the score"),
            "key token",
        ),
        "scores": replace(
            STEPS["scores"],
            formula="S = {0} {1}ᵀ",
            rule=Scored("turned_query|query", "turned_key|key"),
        ),
        **{name: STEPS[name] for name in ("scaled", "weights", "head_output", "concatenated")},
        "output": replace(STEPS["output"], rule=linear("concatenated", "w_o")),
    }
    for name, letter in (("query", "Q"), ("key", "K")):
        points[f"turned_{name}"] = replace(
            STEPS[name],
            title=f"Turned {name}",
            formula=f"{letter}′ = x·cos − y·sin, pair by pair",
            meaning=f"The {name}, turned by an angle that grows with the token's position.",
            rule=Turned(name, "cosine", "sine", halves=True),
        )
    return points
