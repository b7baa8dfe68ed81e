"""A table of names: what a tensor is called elsewhere, what it is called here, how the two fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = [
    "AS_IS",
    "ONE_ROW",
    "THIRDS",
    "TRANSPOSED",
    "TRANSPOSED_THIRDS",
    "Fit",
    "Pair",
    "Row",
    "matcher",
    "pairs",
    "under",
]


@dataclass(frozen=True)
class Fit:
    """How their tensor and ours go together: `split` gives ours from theirs, `join` goes back.

    Neither changes a number: both only put them in another order.

    >>> THIRDS.split(torch.arange(6))
    [tensor([0, 1]), tensor([2, 3]), tensor([4, 5])]
    >>> THIRDS.join(THIRDS.split(torch.arange(6)))
    tensor([0, 1, 2, 3, 4, 5])
    """

    name: str
    split: Callable[[Tensor], Sequence[Tensor]]
    join: Callable[[Sequence[Tensor]], Tensor]


def _turned(x: Tensor) -> Tensor:
    """A matrix transposed; a vector as it is."""
    return x.transpose(0, -1)


AS_IS = Fit("as is", lambda x: [x], lambda parts: parts[0])
TRANSPOSED = Fit("transposed", lambda x: [_turned(x)], lambda parts: _turned(parts[0]))
THIRDS = Fit("packed thirds", lambda x: list(x.chunk(3)), lambda parts: torch.cat(list(parts)))
TRANSPOSED_THIRDS = Fit(
    "transposed packed thirds",
    lambda x: [_turned(part) for part in x.chunk(3, -1)],
    lambda parts: torch.cat([_turned(part) for part in parts], -1),
)
ONE_ROW = Fit("a matrix of one row", lambda x: [x[0]], lambda parts: parts[0][None])

# What a placeholder stands for.
_PLACEHOLDERS = {"layer": r"\d+", "norm": r"\d+", "part": "weight|bias"}


@dataclass(frozen=True)
class Row:
    """One line of a table: `theirs` is `ours`, or all of `ours` packed together.

    `{layer}` stands for the number of a layer, `{norm}` for that of a norm in it, `{part}` for
    weight or bias.

    >>> Row("h.{layer}.ln_1.{part}", "layers.{layer}.norms.0.{part}").fit.name
    'as is'
    """

    theirs: str
    ours: str | tuple[str, ...]
    fit: Fit = AS_IS

    @property
    def names(self) -> tuple[str, ...]:
        """Ours, as a tuple."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours


@dataclass(frozen=True)
class Pair:
    """A row with its placeholders filled in: one tensor of theirs, one or several of ours."""

    theirs: str
    ours: tuple[str, ...]
    fit: Fit


def under(theirs: str, ours: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows of a part, as they are in a whole that has it at `theirs` and at `ours`.

    >>> under("self_attn.", "attention.", [Row("out_proj.{part}", "w_o.{part}")])[0].ours
    ('attention.w_o.{part}',)
    """
    return tuple(
        replace(row, theirs=theirs + row.theirs, ours=tuple(ours + name for name in row.names))
        for row in rows
    )


def matcher(pattern: str) -> re.Pattern[str]:
    """What matches the names of a pattern, and says what its placeholders stand for.

    >>> matcher("h.{layer}.ln_1.{part}").fullmatch("h.13.ln_1.bias").groupdict()
    {'layer': '13', 'part': 'bias'}
    """
    pieces = re.split(r"\{(\w+)\}", pattern)
    found = [re.escape(piece) for piece in pieces]
    found[1::2] = [f"(?P<{name}>{_PLACEHOLDERS[name]})" for name in pieces[1::2]]
    return re.compile("".join(found))


def pairs(rows: Iterable[Row], ours: Iterable[str]) -> list[Pair]:
    """The rows that concern a module whose tensors are called `ours`, placeholders filled in.

    >>> rows = [Row("ln_{layer}.{part}", "norms.{layer}.{part}")]
    >>> [pair.theirs for pair in pairs(rows, ["norms.0.weight", "norms.1.weight", "head.bias"])]
    ['ln_0.weight', 'ln_1.weight']
    """
    found: list[Pair] = []
    names = list(ours)
    for row in rows:
        match = matcher(row.names[0])
        for values in (hit.groupdict() for name in names if (hit := match.fullmatch(name))):
            filled = tuple(name.format(**values) for name in row.names)
            found.append(Pair(row.theirs.format(**values), filled, row.fit))
    return found
