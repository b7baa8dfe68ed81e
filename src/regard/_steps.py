"""The ten steps of attention by name: formula, meaning, array, and a label for every place."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from regard.reference import Array

AxisName = Literal["head", "token", "key token", "dimension"]


@dataclass(frozen=True)
class StepKind:
    """What is the same for a step in every trace: its names, its formula and its meaning."""

    title: str
    symbol: str
    formula: str
    meaning: str
    dimension: str = ""  # the letter of its columns' labels, where they are dimensions


STEPS: Mapping[str, StepKind] = {
    "input": StepKind(
        "Input",
        "X",
        "X = embeddings + positions",
        "Each token is a row of numbers: what the word means, plus where it stands.",
        "x",
    ),
    "query": StepKind(
        "Query", "Q", "Q = X W_Q", "What each token is looking for in the others.", "q"
    ),
    "key": StepKind("Key", "K", "K = X W_K", "What each token offers to be found by.", "k"),
    "value": StepKind(
        "Value", "V", "V = X W_V", "What each token hands over when it is found.", "v"
    ),
    "scores": StepKind(
        "Scores",
        "S",
        "S = Q Kᵀ",
        "How well the query of a row's token fits the key of a column's token.",
    ),
    "scaled": StepKind(
        "Scaled scores",
        "S′",
        "S′ = S / √d_k",
        "Long vectors make large scores; √d_k keeps the softmax from saturating.",
    ),
    "weights": StepKind(
        "Weights",
        "A",
        "A = softmax(S′), row by row",
        "How much attention a row's token gives each column's token; a row sums to 1.",
    ),
    "head_output": StepKind(
        "Head output",
        "Z",
        "Z = A V",
        "Each token's new vector: the values of all tokens, mixed by its weights.",
        "z",
    ),
    "concatenated": StepKind(
        "Concatenated",
        "C",
        "C = [Z₁ … Z_h]",
        "The outputs of all heads side by side, one row a token.",
        "c",
    ),
    "output": StepKind(
        "Output",
        "O",
        "O = C W_O",
        "The heads mixed into one vector a token: the word in its context.",
        "o",
    ),
}


NO_W_O = "O = C (no W_O: handed on as it is)"
# The parts of a query or a key that was turned by its position: x·cosine + partner·sine.
TURNED = ("straight", "cosine", "partner", "sine")


@dataclass(frozen=True)
class Axis:
    """One axis of a step's array: what it runs over, and the name of each place on it."""

    name: AxisName
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Step:
    """One named step: its array, with a label for each place on each of its axes.

    `parts` holds what the array is made of, where a reader should see it, in arrays of its shape:
    the input's embeddings and positions, what is added to the scaled scores ("bias"), and the
    numbers, cosines and sines of a query or a key that was turned by its position (`TURNED`).
    """

    name: str
    axes: tuple[Axis, ...]
    array: Array
    formula: str
    parts: Mapping[str, Array] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return STEPS[self.name].title

    @property
    def symbol(self) -> str:
        return STEPS[self.name].symbol

    @property
    def meaning(self) -> str:
        if self.name == "input" and is_other_step(self.formula):
            return "Each token is a row of numbers, as it comes into attention."
        if self.name == "input" and "positions" not in self.parts:
            return "Each token is a row of numbers: what the word means."
        if self.name == "output" and self.formula == NO_W_O:
            return "Each token's vector as it leaves attention: the word in its context."
        return STEPS[self.name].meaning

    @property
    def has_heads(self) -> bool:
        return self.axes[0].name == "head"


def is_other_step(formula: str) -> bool:
    """Does this formula of an input say that it is another step of a model, not embeddings?

    >>> is_other_step("X = layers.0.norms.0.output"), is_other_step("X = embeddings + positions")
    (True, False)
    """
    return formula.startswith("X = ") and not formula.startswith("X = embeddings")


def find_label(label: str | int, axis: Axis) -> int:
    """The index of a label on an axis: exact, then without case, then "the#2", then a count."""
    if not isinstance(label, str):
        if -len(axis.labels) <= operator.index(label) < len(axis.labels):
            return operator.index(label) % len(axis.labels)
        raise KeyError(f"explain(): there are {len(axis.labels)} {axis.name}s; got index {label}.")
    alike = [i for i, name in enumerate(axis.labels) if name.casefold() == label.casefold()]
    for found in ([i for i in alike if axis.labels[i] == label], alike):
        if len(found) == 1:
            return found[0]
        if found:
            ways = ", ".join(f"{label}#{n + 1}" for n, i in enumerate(alike) if i in found)
            raise KeyError(f"explain(): {label!r} occurs {len(found)} times: say {ways}.")
    name, hash_mark, count = label.rpartition("#")
    found = [i for i, other in enumerate(axis.labels) if other.casefold() == name.casefold()]
    if hash_mark and count.isdecimal() and 1 <= int(count) <= len(found):
        return found[int(count) - 1]
    if label.isdecimal() and 1 <= int(label) <= len(axis.labels):
        return int(label) - 1
    shown = ", ".join(axis.labels[:12]) + (", …" if len(axis.labels) > 12 else "")
    raise KeyError(f"explain(): there is no {axis.name} {label!r}. There are: {shown}.")
