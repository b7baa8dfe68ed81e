"""Tensors that a caller gives: are they whole numbers, are they those that were given before."""

from __future__ import annotations

import torch
from torch import Tensor

COUNTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_whole(
    call: str,
    name: str,
    x: object,
    shape: str,
    fits: bool,
    most: int,
    remedy: str = "",
    *,
    named: str = "{most}",
    used: bool = True,
    dtypes: tuple[torch.dtype, ...] = (torch.int64, torch.int32),
) -> None:
    """Raise TypeError or ValueError unless x is a tensor of whole numbers from 0 to `most`.

    `fits` is whether it is of the `shape`; `named` says it of the greatest number, {most}, and of
    how many there are, {count}. What nobody uses may have any numbers; under a compiler, which
    cannot look at them, they are not checked. Messages are made when they are needed: a token that
    is decoded comes by here.
    """
    if not isinstance(x, Tensor):
        problem, error = f"a tensor; got {type(x).__name__}.", TypeError
    elif x.dtype not in dtypes:
        names = " or ".join(str(each).removeprefix("torch.") for each in dtypes[:2])
        problem = f"whole numbers, {names}; got {x.dtype}. .long() makes them so."
        error = TypeError
    elif not fits:
        problem, error = f"{shape}; got {tuple(x.shape)}. {remedy}", ValueError
    elif not used or torch.compiler.is_compiling() or x.is_meta or not x.numel():
        return
    else:
        low, high = (int(each) for each in x.aminmax())
        if low >= 0 and high <= most:
            return
        upto, found = named.format(most=most, count=most + 1), low if low < 0 else high
        problem, error = f"from 0 to {upto}; got {found}. {remedy}", ValueError
    raise error(f"{call}: {name} must be {problem}".rstrip())


def same_numbers(one: Tensor, other: Tensor | None) -> bool:
    """Are these tensors alike, number by number? NaN is like NaN."""
    if other is None or one.shape != other.shape:
        return False
    if one.dtype != other.dtype or one.device != other.device:
        return False
    if torch.equal(one, other):
        return True
    return one.is_floating_point() and torch.allclose(one, other, 0.0, 0.0, equal_nan=True)
