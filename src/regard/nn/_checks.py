"""Tensors of whole numbers that a caller gives: ids, segments, positions, lengths."""

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
    named: str = "",
    used: bool = True,
    dtypes: tuple[torch.dtype, ...] = (torch.int64, torch.int32),
) -> None:
    """Raise TypeError or ValueError unless x is a tensor of whole numbers from 0 to `most`.

    `fits` is whether it is of the `shape`, `named` what is said of the greatest number. What nobody
    uses may have any numbers; under a compiler, which cannot look at them, they are not checked.
    """
    said, end = f"{call}: {name} must be", f" {remedy}" if remedy else ""
    if not isinstance(x, Tensor):
        raise TypeError(f"{said} a tensor; got {type(x).__name__}.")
    if x.dtype not in dtypes:
        names = " or ".join(str(each).removeprefix("torch.") for each in dtypes[:2])
        raise TypeError(f"{said} whole numbers, {names}; got {x.dtype}. .long() makes them so.")
    if not fits:
        raise ValueError(f"{said} {shape}; got {tuple(x.shape)}.{end}")
    if not used or torch.compiler.is_compiling() or x.is_meta or not x.numel():
        return
    low, high = (int(each) for each in x.aminmax())
    if low < 0 or high > most:
        found = low if low < 0 else high
        raise ValueError(f"{said} from 0 to {named or most}; got {found}.{end}")
