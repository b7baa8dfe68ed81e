"""An exercise: the matrices of one worked example, each cell with the figures printed for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from regard.reference import Array
from regard.written.figures import Figure
from regard.written.found import Claim
from regard.written.names import SYMBOLS

__all__ = ["HEAD_KINDS", "OF_PAIRS", "Exercise", "Head", "Key", "Matrix"]

Head = int | None
Key = tuple[str, Head]
OF_PAIRS = ("scores", "scaled", "weights")  # a number for each query and key
_OF_HEADS = ("query", "key", "value", *OF_PAIRS, "head_output")
HEAD_KINDS = frozenset((*_OF_HEADS, *(f"{letter}_{of}" for letter in "Wb" for of in "QKV")))


@dataclass
class Matrix:
    """A matrix as printed: for each cell the figures that stand for it, none, one or several.

    `called` is what the text calls it, `line` where it starts. A matrix that was only spoken of
    (“the weights are the identity”) has `exact` values and no figures.
    """

    kind: str
    head: Head
    figures: dict[tuple[int, int], list[Figure]] = field(default_factory=dict)
    shape: tuple[int, int] = (0, 0)
    row_labels: list[str] = field(default_factory=list)
    column_labels: list[str] = field(default_factory=list)
    called: str = ""
    line: int = 0
    exact: Array | None = None
    sums: dict[int, Figure] = field(default_factory=dict)
    reason: str = ""  # why it was taken to be of this kind, where that is not plain
    blocks: int = 0  # of how many pieces it was put together
    piece_of: dict[int, int] = field(default_factory=dict)  # of which each figure is, by its start
    is_plain: bool = True  # its own name or a short title right above it says what it is
    _filled: dict[object, tuple[Array, Array]] = field(default_factory=dict, init=False, repr=False)

    @property
    def symbol(self) -> str:
        return SYMBOLS[self.kind]

    @property
    def values(self) -> Array:
        """The printed values; NaN where nothing is printed."""
        return self.exact if self.exact is not None else self._arrays()[0]

    @property
    def units(self) -> Array:
        """One step of the last printed digit of each cell, the coarsest if it is printed twice.

        0 where nothing is printed.
        """
        return self._arrays()[1]

    def _arrays(self) -> tuple[Array, Array]:
        """Values and units; made anew once there are more figures, or fewer."""
        state = self.shape, self.n_figures
        if state not in self._filled:
            values, units = np.full(self.shape, np.nan), np.zeros(self.shape)
            for cell, figures in self.figures.items():
                values[cell] = figures[0].value
                units[cell] = max(figure.unit for figure in figures)
            values.flags.writeable = units.flags.writeable = False
            self._filled = {state: (values, units)}
        return self._filled[state]

    @property
    def n_figures(self) -> int:
        return sum(map(len, self.figures.values()))

    @property
    def key(self) -> Key:
        return self.kind, self.head

    @property
    def row_sums(self) -> list[tuple[float, float]]:
        """What each row sums to, and how far its digits may let that be off."""
        slack = np.minimum(self.units, 0.1).sum(axis=1) / 2 + 1e-9
        return list(zip(self.values.sum(axis=1).tolist(), slack.tolist(), strict=True))

    @property
    def start(self) -> int:
        """Where its first figure stands; a matrix that was only spoken of is nowhere."""
        return min((figures[0].start for figures in self.figures.values()), default=-1)

    def describe(self) -> str:
        """`K (4×2, line 32)`, for messages."""
        place = f", line {self.line}" if self.line else ""
        return f"{self.symbol} ({self.shape[0]}×{self.shape[1]}{place})"


@dataclass
class Exercise:
    """All that belongs to one worked example."""

    matrices: dict[Key, Matrix] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    d_k: Figure | None = None
    root: Figure | None = None  # √d_k as printed
    says_unscaled: bool = False
    says_causal: bool = False
    claims: list[Claim] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # what is no mistake
    borrowed: set[Key] = field(default_factory=set)  # judged elsewhere
    apart: set[Key] = field(default_factory=set)  # made of nothing that is here
    rivals: set[str] = field(default_factory=set)  # kinds that the text prints several of
    by_program: bool = False  # in a notebook
    activations: list[str] = field(default_factory=list)  # the likeliest first
    epsilon: float = 1e-5  # at most so much is added to a variance
    choices: dict[str, int] = field(default_factory=dict)  # which way of a layer (`parts.ways`)
    made_of: dict[Key, list[Key]] = field(default_factory=dict, repr=False)  # what is known of it,
    # as long as nothing else changes, which `stamp` tells
    stamp: tuple[object, ...] = ()

    @property
    def heads(self) -> list[int]:
        return sorted({head for _, head in self.matrices if head is not None}) or [1]

    def rename(self, matrix: Matrix, kind: str, head: Head = None) -> None:
        """Let a matrix be another kind; in an example that borrows it, it stays what it was."""
        del self.matrices[next(key for key, other in self.matrices.items() if other is matrix)]
        self.matrices[kind, head] = replace(matrix, kind=kind, head=head)

    def get(self, kind: str, head: Head = None) -> Matrix | None:
        return self.matrices.get((kind, head if kind in HEAD_KINDS else None))
