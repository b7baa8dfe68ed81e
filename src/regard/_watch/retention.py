"""Tensors that are kept longer than the model needs them: themselves, or copies."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor, nn

__all__ = ["Copies", "Owned", "TextKeys", "version_of"]


def version_of(x: Tensor | None) -> int | None:
    """How often it has been written to; None where nobody counts."""
    return None if x is None or x.is_inference() else x._version


class Owned:
    """What a model goes on using: its parameters and buffers."""

    def __init__(self, model: nn.Module) -> None:
        self._storages = {
            x.untyped_storage().data_ptr() for x in (*model.parameters(), *model.buffers())
        }

    def held(self, x: Tensor) -> Tensor:
        """x, or a copy, if somebody may write into it later or it would keep more alive.

        What was written to once, as every cache that is made in advance, may be written to again.
        """
        x = x.detach()
        if x.is_inference() or x._version:
            return x.clone()
        storage = x.untyped_storage()
        if storage.nbytes() > x.numel() * x.element_size():  # a part of something larger
            return x.clone()
        return x.clone() if storage.data_ptr() in self._storages else x


class Copies:
    """Copies of masks and biases, one for all layers that got the same."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], int | None, Tensor]] = {}

    def of(self, x: Tensor) -> Tensor:
        given, version, copy = self._known.get(id(x), (None, None, None))
        if given is not None and given() is x and copy is not None:
            same = version == x._version if version is not None else torch.equal(x, copy)
            if same:
                return copy
        copy = x.detach().clone()
        self._known = {key: each for key, each in self._known.items() if each[0]() is not None}
        self._known[id(x)] = weakref.ref(x), version_of(x), copy
        return copy


class TextKeys:
    """The keys of a text, as they came: a cache may forget what it held before."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []

    def add(self, x: Tensor, new: int, axis: int) -> None:
        """The last `new` of what is there along an axis. A view would hold all of it."""
        whole = new >= x.shape[axis]
        self._parts.append(x if whole else x.narrow(axis, x.shape[axis] - new, new).clone())

    def all(self, axis: int) -> Tensor | None:
        return torch.cat(self._parts, axis) if self._parts else None
