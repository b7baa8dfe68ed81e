"""Tensors in a file are the same as in memory, whatever is done to them; or an error in words."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from helpers.soak import attacks
from safetensors.torch import save_file
from torch import Tensor

from regard._checkpoint.safetensors_file import open_tensors
from regard.run import RunError
from regard.run.on_disk import OnDisk

KINDS = (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.bfloat16)


def made(choose: Random) -> Tensor:
    shape = [choose.choice([0, 1, 2, 3, 5, 7]) for _ in range(choose.randint(0, 4))]
    if shape and choose.random() < 0.3:
        shape[choose.randrange(len(shape))] = 503
    x = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape) % 251
    return x.to(choose.choice(KINDS))


def index(choose: Random, size: int) -> Any:
    first, last = sorted(choose.randint(-1, size + 1) for _ in range(2))
    step = choose.choice([None, 1, 2, 3])
    some: list[Any] = [slice(first, last, step), slice(None), None, ..., slice(last, first)]
    some += [choose.randrange(size), torch.tensor([0, size - 1]), [0]] if size else []
    return choose.choice(some)


def changed(choose: Random, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The same done to both."""
    how = choose.choice(["index", "index", "expand", "permute", "transpose", "unsqueeze", "narrow"])
    axis = choose.randrange(x.dim()) if x.dim() else 0
    if how == "index" and x.dim():
        at: Any = index(choose, x.shape[0])
        at = (at, index(choose, x.shape[1])) if x.dim() > 1 and choose.random() < 0.5 else at
        if isinstance(at, tuple) and sum(each is ... for each in at) > 1:
            at = at[0]
        try:
            found = x[at]
        except IndexError:
            with pytest.raises(IndexError):
                y[at]
            return x, y
        return found, y[at]
    if how == "expand" and x.numel() < 10**5:
        return x.expand(3, *x.shape), y.expand(3, *y.shape)
    if how == "permute":
        order = choose.sample(range(x.dim()), x.dim())
        return x.permute(order), y.permute(order)
    if how == "transpose" and x.dim():
        return x.transpose(axis, -1), y.transpose(axis, -1)
    if how == "narrow" and x.dim() and x.shape[axis]:
        return x.narrow(axis, 0, 1), y.narrow(axis, 0, 1)
    return x.unsqueeze(0), y.unsqueeze(0)


def test_parts_of_parts_are_those_of_the_tensor_in_memory(tmp_path: Path) -> None:
    for choose in attacks(60):
        tensors = {f"{n}": made(choose) for n in range(3)}
        save_file(tensors, tmp_path / "x.safetensors")
        opened = open_tensors(tmp_path / "x.safetensors")
        for name, x in tensors.items():
            y: Tensor = OnDisk.of(opened, opened.entries[name])
            for _ in range(choose.randint(0, 5)):
                x, y = changed(choose, x, y)
                assert (x.shape, x.dtype) == (y.shape, y.dtype)
            assert torch.equal(x, y)
            assert x.tolist() == y.tolist()
            if isinstance(y, OnDisk):
                assert y.read().stride() == y.stride()
        opened.close()


def test_a_file_that_is_cut_anywhere_is_an_error_or_reads_right(tmp_path: Path) -> None:
    for choose in attacks(60):
        x = torch.arange(choose.choice([1, 7, 5003])).float()
        save_file({"x": x}, tmp_path / "x.safetensors")
        opened = open_tensors(tmp_path / "x.safetensors")
        y = OnDisk.of(opened, opened.entries["x"])
        size = (tmp_path / "x.safetensors").stat().st_size
        at = choose.randint(0, size)
        os.truncate(tmp_path / "x.safetensors", at)
        try:
            assert torch.equal(y, x)
            assert at == size
        except RunError:
            pass
        opened.close()
