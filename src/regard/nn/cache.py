"""Keys and values of the tokens so far, so that each new token is computed alone."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Cache", "KeyValues"]


class KeyValues:
    """Keys (B, Hkv, N, D) and values (B, Hkv, N, Dv) of one layer, which grow.

    With a `window` only those are kept that a new token may see: itself and the window − 1 before.

    >>> one = torch.zeros(1, 2, 3, 5)
    >>> grows, slides = KeyValues(), KeyValues(window=4)
    >>> for _ in range(3):
    ...     keys, _values = grows.extend(one, one)
    ...     last, _values = slides.extend(one, one)
    >>> keys.shape[2], last.shape[2]
    (9, 6)
    """

    def __init__(self, window: int | None = None) -> None:
        self.window = window
        self.n_kept = 0
        self.memory: tuple[Tensor, Tensor] | None = None  # of cross-attention, computed once
        self._keys: Tensor | None = None  # with room to grow
        self._values: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values that the new tokens may see, their own `k` and `v` at the end."""
        if k.requires_grad or v.requires_grad:
            raise ValueError(
                "Cache: keys and values must carry no gradient; got some that do. A cache is for "
                "inference: run it under torch.no_grad()."
            )
        if self._keys is not None and len(k) != len(self._keys):
            raise ValueError(
                f"Cache: k must be of {len(self._keys)} sequences, as before; got {len(k)}. "
                "A cache belongs to one batch: make a new one."
            )
        first = 0 if self.window is None else max(0, self.n_kept - self.window + 1)
        old, new = self.n_kept - first, k.shape[2]
        self._keys = _with_room(self._keys, first, old, k)
        self._values = _with_room(self._values, first, old, v)
        self.n_kept = old + new
        self._keys[:, :, old : self.n_kept] = k
        self._values[:, :, old : self.n_kept] = v
        return self._keys[:, :, : self.n_kept], self._values[:, :, : self.n_kept]

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may be kept more than once."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]
        if self.memory is not None:
            self.memory = self.memory[0][rows], self.memory[1][rows]


def _with_room(kept: Tensor | None, first: int, old: int, new: Tensor) -> Tensor:
    """A tensor whose first `old` places hold those from `first` on, with room for the new ones."""
    needed = old + new.shape[2]
    if kept is not None and first == 0 and kept.shape[2] >= needed:
        return kept
    if kept is not None and kept.shape[2] >= needed and old <= first:
        kept[:, :, :old] = kept[:, :, first : first + old]  # apart from each other
        return kept
    batch, heads, _, width = new.shape
    room = new.new_empty(batch, heads, max(16, 1 << needed.bit_length()), width)
    if kept is not None:
        room[:, :, :old] = kept[:, :, first : first + old]
    return room


class Cache:
    """What a decoder remembers of `batch` sequences: keys and values, layer by layer.

    `length` counts the tokens so far. `real` (B, length) says which of them are real, if any are
    not. `model.new_cache(batch)` makes one that fits the model.

    >>> cache = Cache(batch=2, layers=3)
    >>> cache.length, len(cache.layers)
    (0, 3)
    """

    def __init__(self, batch: int, layers: int, window: int | None = None) -> None:
        self.batch = batch
        self.window = window
        self.length = 0
        self.real: Tensor | None = None
        self.layers = [KeyValues(window) for _ in range(layers)]
        self.memory_mask: Tensor | None = None  # (B, M): which tokens of the source are real

    def check(self, batch: int, layers: int) -> None:
        """Raise ValueError if the cache belongs to another batch, or to another model."""
        if batch != self.batch:
            raise ValueError(
                f"Cache: the tokens must be those of {self.batch} sequences, as before; got "
                f"{batch}. A cache belongs to one batch: make a new one with model.new_cache()."
            )
        if layers != len(self.layers):
            raise ValueError(
                f"Cache: the model must have {len(self.layers)} layers; got one of {layers}. "
                "A cache belongs to one model: make a new one with model.new_cache()."
            )

    def advance(self, new: int, mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Take in `new` tokens; `mask` (B, new) says which are real.

        Returns the positions (B, new) of the new tokens, None where they just go on counting, and
        which keys of those that are kept are real (B, kept), None if all are.
        """
        first = self.length
        self.length += new
        if self.real is None and mask is None:
            return None, None
        device = (self.real if mask is None else mask).device  # pyright: ignore[reportOptionalMemberAccess]
        before = self.real
        if before is None:
            before = torch.ones(self.batch, first, dtype=torch.bool, device=device)
        if mask is None:
            mask = torch.ones(self.batch, new, dtype=torch.bool, device=device)
        self.real = torch.cat([before, mask], 1)
        positions = (self.real.cumsum(1) - 1).clamp(min=0)[:, first:]
        kept = self.length
        if self.window is not None:
            kept = min(first, self.window - 1) + new
        return positions, self.real[:, self.length - kept :]

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may be kept more than once."""
        self.batch = len(rows)
        for layer in self.layers:
            layer.select(rows)
        if self.real is not None:
            self.real = self.real[rows]
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[rows]
