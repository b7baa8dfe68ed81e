"""The ten steps of attention by name: formula, meaning, rule; and labels along their axes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from regard._rules.attention import Joined, Mixed, Scaled, Scored, Softmaxed
from regard._rules.general import Product, Summed
from regard._rules.rule import Axis, Rule, Step
from regard.reference import Array


@dataclass(frozen=True)
class StepKind:
    """What is the same for a step in every trace: its title, formula, meaning and rule.

    Rows are tokens, or keys. Columns are the numbers of a vector, unless they are keys, "outcome"s
    of a model, or an "id"; those are named by the letter of the symbol: q1, q2, … `kind` is that of
    a `Step`.
    """

    title: str
    formula: str
    meaning: str
    rule: Rule
    columns: Literal["dimension", "key token", "outcome", "id"] = "dimension"
    of_keys: bool = False
    kind: str = ""

    @property
    def symbol(self) -> str:
        """What the formula begins with."""
        return self.formula.partition(" ")[0].removesuffix(",")

    def step(self, name: str, axes: tuple[Axis, ...], array: Array) -> Step:
        """A step of this kind."""
        words = self.title, self.symbol, self.formula, self.meaning
        return Step(name, *words, axes, array, self.rule, self.kind)


STEPS: Mapping[str, StepKind] = {
    "input": StepKind(
        "Input",
        "X = embeddings + positions",
        "Each token is a row of numbers: what the word means, plus where it stands.",
        Summed(("embeddings", "positions"), "embedding + position"),
    ),
    "query": StepKind(
        "Query",
        "Q = X W_Q",
        "What each token is looking for in the others.",
        Product("input", "W_Q"),
    ),
    "key": StepKind(
        "Key",
        "K = X W_K",
        "What each token offers to be found by.",
        Product("input", "W_K"),
        of_keys=True,
    ),
    "value": StepKind(
        "Value",
        "V = X W_V",
        "What each token hands over when it is found.",
        Product("input", "W_V"),
        of_keys=True,
    ),
    "scores": StepKind(
        "Scores",
        "S = Q Kᵀ",
        "How well the query of a row's token fits the key of a column's token.",
        Scored("query", "key"),
        "key token",
    ),
    "scaled": StepKind(
        "Scaled scores",
        "S′ = S / √dₖ",
        "Long vectors make large scores; √dₖ keeps the softmax from saturating.",
        Scaled("scores", 1.0),
        "key token",
    ),
    "weights": StepKind(
        "Weights",
        "A = softmax(S′), row by row",
        "How much attention a row's token gives each column's token; a row sums to 1.",
        Softmaxed("scaled"),
        "key token",
    ),
    "head_output": StepKind(
        "Head output",
        "Z = A V",
        "Each token's new vector: the values of all tokens, mixed by its weights.",
        Mixed("weights", "value"),
    ),
    "concatenated": StepKind(
        "Concatenated",
        "C = [Z₁ … Zₕ]",
        "The outputs of all heads side by side, one row a token.",
        Joined("head_output"),
    ),
    "output": StepKind(
        "Output",
        "O = C W_O",
        "The heads mixed into one vector a token: the word in its context.",
        Product("concatenated", "W_O"),
    ),
}


@lru_cache(maxsize=256)  # a model of many layers has the same ones again and again
def dimensions(symbol: str, width: int) -> Axis:
    """Columns that are the numbers of a vector: q1, q2, … of a Q."""
    return Axis("dimension", tuple(f"{symbol[0].lower()}{i + 1}" for i in range(width)))


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
