"""Tensors that are kept longer than the model needs them: themselves, or copies."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Set
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary


def version_of(x: Tensor | None) -> int | None:
    """How often it has been written to; None where nobody counts."""
    return None if x is None or x.is_inference() else x._version


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor that is held, and how often it had been written to then."""

    x: Tensor
    version: int | None

    @property
    def is_written_over(self) -> bool:
        return self.version is not None and self.x._version != self.version

    def last(self, count: int) -> Held:
        """The last so many keys. A view would hold all of them."""
        if count >= self.x.shape[2]:
            return self
        some = self.x[:, :, self.x.shape[2] - count :].clone()
        return Held(some, version_of(some))


def memory_of(tensors: Iterable[Tensor]) -> set[int]:
    """Where the memory of each begins. Of a parameter that several processes share, each has a
    piece: that is its memory here.
    """
    pieces = (getattr(x, "_local_tensor", x) for x in tensors)
    return {x.untyped_storage().data_ptr() for x in pieces}


class Retention:
    """Holds on to tensors of a model, which goes on using its parameters and buffers."""

    def __init__(self, model: nn.Module, keep: Set[str]) -> None:
        self.keep = keep
        self._owned = memory_of((*model.parameters(), *model.buffers()))
        self._copies: MutableMapping[Tensor, tuple[int | None, Tensor]] = WeakIdKeyDictionary()

    def hold(self, x: Tensor) -> Held:
        """x, or a copy, if somebody may write into it later or it would keep more alive.

        What was written to once, as every cache that is made in advance, may be written to again.
        """
        x = x.detach()
        storage = x.untyped_storage()
        if (
            x.is_inference()
            or x._version
            or storage.nbytes() > x.numel() * x.element_size()  # a part of something larger
            or storage.data_ptr() in self._owned
        ):
            x = x.clone()
        return Held(x, version_of(x))

    def copy(self, x: Tensor) -> Tensor:
        """A copy of a mask or bias, one for all layers that got the same."""
        known = self._copies.get(x)
        if known is not None:
            version, copy = known
            if torch.equal(x, copy) if version is None else version == x._version:
                return copy
        copy = x.detach().clone()
        self._copies[x] = version_of(x), copy
        return copy
