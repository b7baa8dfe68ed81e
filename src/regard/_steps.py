"""The ten steps of attention by name: formula, meaning, rule; and labels along their axes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass

from regard._rules.attention import Joined, Mixed, Scaled, Scored, Softmaxed
from regard._rules.general import Product, Summed
from regard._rules.rule import Axis, Rule, Step
from regard.reference import Array


@dataclass(frozen=True)
class StepKind:
    """What is the same for a step in every trace: its names, formula, meaning and rule.

    `dimension` is the letter of its columns' labels; without one they are keys. The rows are
    tokens, or keys.
    """

    title: str
    symbol: str
    formula: str
    meaning: str
    rule: Rule
    dimension: str = ""
    of_keys: bool = False

    def step(
        self,
        name: str,
        axes: tuple[Axis, ...],
        array: Array,
        *,
        rule: Rule | None = None,
        formula: str = "",
        meaning: str = "",
    ) -> Step:
        """A step of this kind; what is not given is as it is usually."""
        return Step(
            name,
            self.title,
            self.symbol,
            formula or self.formula,
            meaning or self.meaning,
            axes,
            array,
            rule or self.rule,
        )


STEPS: Mapping[str, StepKind] = {
    "input": StepKind(
        "Input",
        "X",
        "X = embeddings + positions",
        "Each token is a row of numbers: what the word means, plus where it stands.",
        Summed(("embeddings", "positions"), "embedding + position"),
        "x",
    ),
    "query": StepKind(
        "Query",
        "Q",
        "Q = X W_Q",
        "What each token is looking for in the others.",
        Product("input", "W_Q"),
        "q",
    ),
    "key": StepKind(
        "Key",
        "K",
        "K = X W_K",
        "What each token offers to be found by.",
        Product("input", "W_K"),
        "k",
        of_keys=True,
    ),
    "value": StepKind(
        "Value",
        "V",
        "V = X W_V",
        "What each token hands over when it is found.",
        Product("input", "W_V"),
        "v",
        of_keys=True,
    ),
    "scores": StepKind(
        "Scores",
        "S",
        "S = Q Kᵀ",
        "How well the query of a row's token fits the key of a column's token.",
        Scored("query", "key"),
    ),
    "scaled": StepKind(
        "Scaled scores",
        "S′",
        "S′ = S / √d_k",
        "Long vectors make large scores; √d_k keeps the softmax from saturating.",
        Scaled("scores", 1.0),
    ),
    "weights": StepKind(
        "Weights",
        "A",
        "A = softmax(S′), row by row",
        "How much attention a row's token gives each column's token; a row sums to 1.",
        Softmaxed("scaled"),
    ),
    "head_output": StepKind(
        "Head output",
        "Z",
        "Z = A V",
        "Each token's new vector: the values of all tokens, mixed by its weights.",
        Mixed("weights", "value"),
        "z",
    ),
    "concatenated": StepKind(
        "Concatenated",
        "C",
        "C = [Z₁ … Z_h]",
        "The outputs of all heads side by side, one row a token.",
        Joined("head_output"),
        "c",
    ),
    "output": StepKind(
        "Output",
        "O",
        "O = C W_O",
        "The heads mixed into one vector a token: the word in its context.",
        Product("concatenated", "W_O"),
        "o",
    ),
}


def dimensions(letter: str, width: int) -> Axis:
    """Columns that are the numbers of a vector."""
    return Axis("dimension", tuple(f"{letter}{i + 1}" for i in range(width)))


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
