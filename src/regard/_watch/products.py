"""Products as attention is written by hand: q kᵀ, and weights · v, by matmul, bmm or einsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_MATMULS: dict[Any, tuple[int, tuple[str, str]]] = {
    # Where the two factors stand among the arguments, and by which names.
    torch.matmul: (0, ("input", "other")),
    Tensor.matmul: (0, ("self", "other")),
    torch.bmm: (0, ("input", "mat2")),
    Tensor.bmm: (0, ("self", "mat2")),
    torch.mm: (0, ("input", "mat2")),
    Tensor.mm: (0, ("self", "mat2")),
    torch.baddbmm: (1, ("batch1", "batch2")),
    Tensor.baddbmm: (1, ("batch1", "batch2")),
}
PRODUCTS = frozenset((*_MATMULS, torch.einsum))


@dataclass(frozen=True, eq=False)
class Product:
    """A product of two tensors, and the letters of their axes, as einsum names them."""

    function: Any
    args: tuple[Any, ...]
    given: dict[str, Any]
    factors: tuple[Tensor, Tensor]
    letters: tuple[str, str, str]  # of the two factors, and of the result

    def compute(self) -> Tensor:
        return self.function(*self.args, **self.given)

    def with_factor(self, number: int, x: Tensor) -> Tensor:
        """The same with another tensor as one of its factors."""
        if self.function is torch.einsum:
            factors = [*self.factors]
            factors[number] = x
            return torch.einsum(self.args[0], *factors)
        first, names = _MATMULS[self.function]
        args, given = list(self.args), dict(self.given)
        if names[number] in given:
            given[names[number]] = x
        else:
            args[first + number] = x
        return self.function(*args, **given)


def read_product(function: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Product | None:
    """The product that a call of one of PRODUCTS computes; None if it is not one of two tensors."""
    if function is torch.einsum:
        return _einsum(args, given)
    first, names = _MATMULS[function]
    found = [given.get(name) for name in names]
    for number, x in enumerate(args[first : first + 2]):
        found[number] = x
    left, right = found
    if not isinstance(left, Tensor) or not isinstance(right, Tensor) or "out" in given:
        return None
    if left.dim() < 2 or right.dim() < 2:
        return None
    lead = _letters(max(left.dim(), right.dim()) - 2)
    own = [lead[len(lead) - (x.dim() - 2) :] for x in (left, right)]
    letters = (f"{own[0]}xz", f"{own[1]}zy", f"{lead}xy")  # z is what is summed over
    return Product(function, args, given, (left, right), letters)


def _einsum(args: tuple[Any, ...], given: dict[str, Any]) -> Product | None:
    if given or not args or not isinstance(args[0], str):
        return None
    operands: Sequence[Any] = args[1:]
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = operands[0]
    if len(operands) != 2 or not all(isinstance(x, Tensor) for x in operands):
        return None
    left, right = operands
    equation = args[0].replace(" ", "")
    ins, arrow, out = equation.partition("->")
    sides = ins.split(",")
    if not arrow or len(sides) != 2:
        return None
    # What “…” stands for has capital letters here.
    hidden = [
        x.dim() - len(side) + 3 if "..." in side else 0
        for x, side in zip((left, right), sides, strict=True)
    ]
    dots = _letters(max(hidden)).upper()
    named = [
        side.replace("...", dots[len(dots) - count :])
        for side, count in zip((*sides, out), (*hidden, len(dots)), strict=True)
    ]
    if any(len(set(side)) < len(side) for side in named):
        return None
    return Product(torch.einsum, args, given, (left, right), (named[0], named[1], named[2]))


def _letters(count: int) -> str:
    return "abcdefgh"[:count]


# ── what it means ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Scores:
    """q kᵀ: which factor is q and which is k, (…, Nq, D) and (…, Nk, D)."""

    q: Tensor
    k: Tensor


def read_scores(product: Product) -> Scores | None:
    """The product as scores, (…, Nq, Nk): its last axis is of keys, the one before of queries."""
    first, second, out = product.letters
    if len(out) < 2:
        return None
    query, key, lead = out[-2], out[-1], out[:-2]
    summed = set(first) & set(second) - set(out)
    if len(summed) != 1:
        return None
    (width,) = summed
    found: list[Tensor] = []
    for own, other in ((query, key), (key, query)):
        for x, letters in zip(product.factors, (first, second), strict=True):
            if own in letters and other not in letters and not set(letters) - {own, width, *lead}:
                found.append(ordered(x, letters, f"{lead}{own}{width}"))
    return Scores(*found) if len(found) == 2 else None


@dataclass(frozen=True, eq=False)
class Values:
    """weights · v: v as (…, Nk, Dv), and how the result becomes (…, Nq, Dv)."""

    number: int  # which factor the weights are
    v: Tensor
    by_head: Callable[[Tensor], Tensor]


def read_values(product: Product, number: int, is_transposed: bool) -> Values | None:
    """The product as values that are weighted, factor `number` being the weights (…, Nq, Nk), or,
    transposed, (…, Nk, Nq)."""
    letters, other, out = product.letters[number], product.letters[1 - number], product.letters[2]
    if len(letters) < 2:
        return None
    lead, query, key = letters[:-2], letters[-2], letters[-1]
    if is_transposed:
        query, key = key, query
    left = set(other) - set(letters)
    if key not in other or key in out or query in other or query not in out or len(left) != 1:
        return None
    (width,) = left
    if width not in out or set(out) != {*lead, query, width}:
        return None
    v = ordered(product.factors[1 - number], other, f"{lead}{key}{width}")
    return Values(number, v, lambda result: ordered(result, out, f"{lead}{query}{width}"))


def ordered(x: Tensor, letters: str, wanted: str) -> Tensor:
    """x with its axes in another order, those that it does not have being of length 1."""
    x = x.permute([letters.index(axis) for axis in wanted if axis in letters])
    for place, axis in enumerate(wanted):
        if axis not in letters:
            x = x.unsqueeze(place)
    return x
