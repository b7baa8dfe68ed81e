"""Worked examples made up for tests: computed and rounded, before they are printed in a form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

Rows = list[list[str]]
Pick = Callable[[Sequence[Any]], Any]  # one of several
WORDS = ["I", "love", "apple", "phones", "우리는", "আমি", "ভাত", "don't", "sat", "cat", "blue"]
SOURCE_WORDS = ["je", "aime", "les", "pommes", "rouges"]
STEPS = ("query", "key", "value", "scores", "scaled", "weights", "head_output")
SQUARE = ("scores", "scaled", "weights")
CAUSAL = "Causal self-attention: no word sees a later one."


@dataclass
class Printed:
    """An example as its author has it: what is given, each step in print, and how it was made."""

    tokens: list[str]
    given: dict[str, Rows]
    steps: dict[str, Rows]  # only those that are printed
    digits: dict[str, int] = field(default_factory=dict)
    carried: dict[str, bool] = field(default_factory=dict)  # True: as rounded, False: in full
    d_k: int = 1
    source: list[str] = field(default_factory=list)  # the other tokens of cross-attention
    causal: bool = False

    @property
    def matrices(self) -> dict[str, Rows]:
        return {**self.given, **self.steps}

    @property
    def keys(self) -> list[str]:
        return self.source or self.tokens

    def rows_of(self, name: str) -> list[str]:
        """The tokens of a matrix' rows; none for what has no tokens."""
        if name[:2] in ("W_", "b_") or name in ("gamma", "beta"):
            return []
        return self.keys if name in ("X_enc", "key", "value") else self.tokens

    def columns_of(self, name: str) -> list[str]:
        return self.keys if name in SQUARE else []

    def part(self, *names: str) -> Printed:
        """Only the matrices of these names."""
        kept = {name: rows for name, rows in self.matrices.items() if name in names}
        return Printed(self.tokens, kept, {}, source=self.source)


def rounded(array: np.ndarray, digits: int) -> Rows:
    """Each number to its digits, as Python rounds when it prints."""
    return [[f"{value:.{digits}f}" for value in row] for row in array]


def values(rows: Rows) -> np.ndarray:
    return np.array([[float(text) for text in row] for row in rows])


def softmax(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def compute(
    given: dict[str, np.ndarray],
    divisor: float,
    carry: Callable[[str, np.ndarray], np.ndarray],
    *,
    causal: bool = False,
) -> dict[str, np.ndarray]:
    """Every step before it is printed; `carry` says what the next step takes for it."""
    x = given["X"] if "X" in given else given["X_dec"]
    of = {"Q": x, "K": given.get("X_enc", x), "V": given.get("X_enc", x)}
    exact = {
        name: of[letter] @ given[f"W_{letter}"] for name, letter in zip(STEPS, "QKV", strict=False)
    }
    q, k, v = (carry(name, exact[name]) for name in STEPS[:3])
    exact["scores"] = q @ k.T
    exact["scaled"] = carry("scores", exact["scores"]) / divisor
    if causal:
        exact["scaled"][np.triu_indices(len(x), 1)] = -np.inf
    exact["weights"] = softmax(carry("scaled", exact["scaled"]))
    exact["head_output"] = carry("weights", exact["weights"]) @ v
    return exact


def some_numbers(pick: Pick, rows: int, columns: int) -> np.ndarray:
    return np.array([[pick(range(-30, 31)) / 10 for _ in range(columns)] for _ in range(rows)])


def made_up(
    pick: Pick,
    *,
    all_steps: bool = False,
    kinds: Sequence[str] = ("self",),
    beside: Printed | None = None,
) -> Printed:
    """An example whose every choice `pick` makes; of the kinds self, causal and cross.

    As another head beside one it has the same X, and matrices of the same sizes.
    """
    kind = pick(kinds)
    n, m = (pick([2, 3, 5]) for _ in "nm")
    d_model, d_source, d_k, d_v = (pick(sizes) for sizes in ([2, 3, 5], [2, 3, 5], [2, 3], [2, 3]))
    words = list(WORDS)
    tokens = [words.pop(pick(range(len(words)))) for _ in range(n)]
    given = {"X": some_numbers(pick, n, d_model)}
    if beside is not None:
        tokens, d_k, d_v = beside.tokens, beside.d_k, len(beside.given["W_V"][0])
        given = {"X": values(beside.given["X"])}
        d_model = given["X"].shape[1]

    def matrix(rows: int, columns: int) -> np.ndarray:
        return some_numbers(pick, rows, columns)

    if kind == "cross":
        given = {"X_dec": given["X"], "X_enc": matrix(m, d_source)}
    width = d_source if kind == "cross" else d_model
    given |= {
        "W_Q": matrix(d_model, d_k),
        "W_K": matrix(width, d_k),
        "W_V": matrix(width, d_v),
    }
    digits = {name: pick([2, 3, 4]) for name in STEPS}
    carried = {name: pick([False, True]) for name in STEPS}
    shown = [name for name in STEPS if all_steps or pick([False, True])] or ["weights"]

    def carry(name: str, array: np.ndarray) -> np.ndarray:
        # What is not printed cannot have been rounded to the digits printed.
        return values(rounded(array, digits[name])) if carried[name] and name in shown else array

    exact = compute(given, np.sqrt(d_k), carry, causal=kind == "causal")
    return Printed(
        tokens,
        {name: rounded(array, 1) for name, array in given.items()},
        {name: rounded(exact[name], digits[name]) for name in shown},
        digits,
        carried,
        d_k,
        SOURCE_WORDS[:m] if kind == "cross" else [],
        kind == "causal",
    )


@st.composite
def examples(
    draw: st.DrawFn, *, all_steps: bool = False, kinds: Sequence[str] = ("self",)
) -> Printed:
    return made_up(lambda several: draw(st.sampled_from(several)), all_steps=all_steps, kinds=kinds)


# ── what each cell may be ─────────────────────────────────────────────────────────────────────

Ends = tuple[np.ndarray, np.ndarray]  # the lower and the upper ones


def reach(example: Printed, name: str) -> Ends:
    """The ends of what each cell may be, by interval arithmetic written out cell by cell."""
    given = {m: values(rows) for m, rows in example.given.items()}
    x = given["X"] if "X" in given else given["X_dec"]
    of = {"query": x, "key": given.get("X_enc", x), "value": given.get("X_enc", x)}
    ends: dict[str, Ends] = {
        m: (of[m] @ given[w], of[m] @ given[w])
        for m, w in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V"))
    }
    if name in ends:
        return ends[name]
    q, k, v = (carried(example, m, ends[m]) for m in ("query", "key", "value"))
    low, high = product(q, (k[0].T, k[1].T))
    if name == "scores":
        return low, high
    low, high = (end / np.sqrt(example.d_k) for end in carried(example, "scores", (low, high)))
    if example.causal:
        later = np.triu(np.ones((len(x), len(x))), 1) > 0
        low, high = np.where(later, -np.inf, low), np.where(later, -np.inf, high)
    if name == "scaled":
        return low, high
    low, high = carried(example, "scaled", (low, high))
    weights = np.zeros_like(low), np.zeros_like(low)
    for a, b in np.ndindex(*low.shape):
        for target, own, others in ((weights[0], low, high), (weights[1], high, low)):
            scores = others[a].copy()
            scores[b] = own[a, b]
            exponentials = np.exp(scores - scores.max())
            target[a, b] = exponentials[b] / exponentials.sum()
    return weights if name == "weights" else product(carried(example, "weights", weights), v)


def carried(example: Printed, step: str, ends: Ends) -> Ends:
    """In full, or as rounded to the digits that are printed; a tie may go either way."""
    if step not in example.steps:
        return ends
    unit = 10.0 ** -example.digits[step]
    low, high = ends
    return (
        np.minimum(low, np.ceil(low / unit - 0.5 - 1e-9) * unit),
        np.maximum(high, np.floor(high / unit + 0.5 + 1e-9) * unit),
    )


def product(left: Ends, right: Ends) -> Ends:
    low = np.zeros((left[0].shape[0], right[0].shape[1]))
    high = low.copy()
    for a, b in np.ndindex(*low.shape):
        for c in range(left[0].shape[1]):
            corners = [one[a, c] * other[c, b] for one in left for other in right]
            low[a, b] += min(corners)
            high[a, b] += max(corners)
    return low, high
