"""Keys and values of the tokens so far, so that each new token is computed alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard._arguments import whole
from regard.nn._checks import same_numbers


class KeyValues:
    """Keys (B, Hkv, N, D) and values (B, Hkv, N, Dv) of one layer, which grow.

    With a `window` only those are kept that a new token may see: itself and the window − 1 before.
    `length` counts the tokens so far, `n_kept` those that are kept.

    >>> one = torch.zeros(1, 2, 3, 5)
    >>> grows, slides = KeyValues(), KeyValues(window=4)
    >>> for _ in range(3):
    ...     keys, _values = grows.extend(one, one)
    ...     last, _values = slides.extend(one, one)
    >>> keys.shape[2], last.shape[2], slides.length
    (9, 6, 9)
    """

    def __init__(self, window: int | None = None) -> None:
        self.window = window
        self.length = 0
        self.n_kept = 0
        self.context: Context | None = None  # what cross-attention looks at
        self._first = 0  # where in the room those that are kept begin
        self._room: tuple[Tensor, Tensor] | None = None  # of keys and of values

    def n_seen(self, new: int) -> int:
        """How many keys `extend` will return for this many new tokens."""
        return new + (self.n_kept if self.window is None else min(self.n_kept, self.window - 1))

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values that the new tokens may see, their own `k` and `v` at the end.

        They are views of the cache: the next call may write over them.
        """
        if k.requires_grad or v.requires_grad:
            raise ValueError(
                "Cache: keys and values must carry no gradient; got some that do. A cache is for "
                "inference: run it under torch.no_grad()."
            )
        keys, values = self._room or (None, None)
        if keys is not None and values is not None:
            _check_fits("keys", keys, k)
            _check_fits("values", values, v)
        new = k.shape[2]
        first, upto = self._span(new)
        old = upto - new
        if keys is None or values is None or first + upto > keys.shape[2]:
            keys, values = _with_room(keys, first, old, k), _with_room(values, first, old, v)
            self._room, first = (keys, values), 0
        self._advance(first, upto, new)
        keys.narrow(2, first + old, new).copy_(k)
        values.narrow(2, first + old, new).copy_(v)
        return keys.narrow(2, first, upto), values.narrow(2, first, upto)

    def extend_by(self, new: int, write: Callable[[tuple[Tensor, Tensor, int, int]], bool]) -> bool:
        """The same for who writes `new` keys and values by himself, to a cache that has some.

        `write` gets all the room for keys and for values (B, Hkv, …, D); where those begin that the
        new tokens may see; and how many they are, the new ones at the end. It says whether it has
        written these.
        """
        if self._room is None or new > self._room[0].shape[2]:
            return False
        first, upto = self._span(new)
        keys, values = self._room
        if first + upto > keys.shape[2]:
            old = upto - new
            keys = _with_room(keys, first, old, keys.narrow(2, 0, new))
            values = _with_room(values, first, old, values.narrow(2, 0, new))
            self._room, self._first, self.n_kept, first = (keys, values), 0, old, 0
        if not write((keys, values, first, upto)):
            return False
        self._advance(first, upto, new)
        return True

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """(B, Hkv, how many are kept); None if there are none yet."""
        if self._room is None:
            return None
        batch, heads = self._room[0].shape[:2]
        return batch, heads, self.n_kept

    def forget(self, kept: Tensor) -> None:
        """Leave these of the keys and values, (B, Hkv, count), in their order."""
        assert self._room is not None
        at = (self._first + kept.to(self._room[0].device))[..., None]
        keys, values = (x.gather(2, at.expand(-1, -1, -1, x.shape[3])) for x in self._room)
        self._room, self._first, self.n_kept = (keys, values), 0, kept.shape[2]

    def _span(self, new: int) -> tuple[int, int]:
        """Where in the room those begin that `new` tokens see, and how many they will be."""
        upto = self.n_seen(new)
        return self._first + self.n_kept - (upto - new), upto

    def _advance(self, first: int, upto: int, new: int) -> None:
        self._first, self.n_kept = first, upto
        self.length += new

    def select(
        self, rows: Tensor, memory: bool = True, moved: dict[int, Tensor] | None = None
    ) -> None:
        """Keep these rows of the batch, in this order; a row may be kept more than once.

        Without `memory` what cross-attention looks at stays as it is. `moved` holds these rows of
        contexts, by the id of the whole ones, so that several layers share them.
        """
        if self._room is not None:
            self._room = self._room[0][rows], self._room[1][rows]
        if memory and self.context is not None:
            self.context.select(rows, {} if moved is None else moved)


class Context:
    """A tensor (B, M, width), to be known when it comes again, and its `keys` and `values`.

    PyTorch counts how often a tensor was written to, but for those of `torch.inference_mode`: of
    these the first row of each sequence is kept.
    """

    def __init__(self, tensor: Tensor, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self._keep(tensor)

    def _keep(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._first = tensor[:, :1].clone() if tensor.is_inference() else None
        self._version = tensor._version if self._first is None else 0

    def check(self, whose: str, tensor: Tensor) -> None:
        """Raise ValueError unless it has the numbers of the first one; `whose` says what it is."""
        if self._is_untouched():
            if tensor is self._tensor:
                return
            if same_numbers(tensor, self._tensor):
                self._keep(tensor)  # it will come again, and is then known at once
                return
        raise ValueError(
            f"{whose} must be the one that the cache has been given, of "
            f"{self._tensor.shape[1]} tokens; got another, of {tensor.shape[1]}, or the same with "
            "other numbers written to it. Make a new cache for it with new_cache()."
        )

    def _is_untouched(self) -> bool:
        if self._first is None:
            return torch.compiler.is_compiling() or self._tensor._version == self._version
        return same_numbers(self._tensor[:, :1], self._first)

    def select(self, rows: Tensor, moved: dict[int, Tensor]) -> None:
        """Keep these rows of the batch, in this order; `moved` is that of `KeyValues.select`."""
        self.keys, self.values = self.keys[rows], self.values[rows]
        if self._is_untouched():
            if id(self._tensor) not in moved:
                moved[id(self._tensor)] = self._tensor[rows]
            self._keep(moved[id(self._tensor)])


def _check_fits(name: str, kept: Tensor, new: Tensor) -> None:
    found, expected = new.shape, kept.shape
    if found[0] != expected[0]:
        raise ValueError(
            f"Cache: {name} must be of {expected[0]} sequences, as before; got {found[0]}. "
            "A cache belongs to one batch: make a new one."
        )
    if found[1] != expected[1] or found[3] != expected[3] or new.dtype != kept.dtype:
        raise ValueError(
            f"Cache: {name} must be of {expected[1]} heads of width {expected[3]} in {kept.dtype}, "
            f"as before; got {found[1]} of width {found[3]} in {new.dtype}. A cache belongs to one "
            "model: make a new one."
        )


def _with_room(kept: Tensor | None, first: int, old: int, new: Tensor) -> Tensor:
    """A tensor whose first `old` places hold those from `first` on, with room for the new ones.

    For where there is no room for them after those.
    """
    needed = old + new.shape[2]
    if kept is not None and 2 * needed <= kept.shape[2]:
        # first + needed > room ≥ 2 · needed, so first > old: the two do not overlap.
        kept[:, :, :old] = kept[:, :, first : first + old]
        return kept
    batch, heads, _, width = new.shape
    room = new.new_empty(batch, heads, max(16, 2 * needed), width)
    if kept is not None:
        room[:, :, :old] = kept[:, :, first : first + old]
    return room


@dataclass(frozen=True, eq=False)
class Memory:
    """What an encoder made of a source: hidden states (B, M, width), and which are real."""

    hidden_states: Tensor
    source: Tensor  # (B, M)
    mask: Tensor | None  # (B, M)
    lengths: Tensor | None  # (B,)

    def select(self, rows: Tensor) -> Memory:
        """These rows of the batch, in this order."""
        padding = (None if x is None else x[rows] for x in (self.mask, self.lengths))
        return Memory(self.hidden_states[rows], self.source[rows], *padding)


class Cache:
    """What a decoder remembers of `batch` sequences: keys and values, layer by layer.

    `length` counts the tokens so far. `real` (B, length) says which of them are real, None if all
    are. `model.new_cache(batch)` makes one that fits the model.

    >>> cache = Cache(batch=2, layers=3)
    >>> cache.length, len(cache.layers)
    (0, 3)
    """

    def __init__(self, batch: int, layers: int, window: int | None = None) -> None:
        self.batch = whole("Cache()", "batch", batch, 0)
        self.window = None if window is None else whole("Cache()", "window", window, 1)
        self.length = 0
        count = whole("Cache()", "layers", layers, 1)
        self.layers = [KeyValues(self.window) for _ in range(count)]
        self.memory: Memory | None = None  # what an encoder made of a source
        self.real: Tensor | None = None
        self.forgets = False  # are some of the keys of the text not there any more?
        self._is_open = False  # has a pass begun that has not ended?

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
        if self._is_open:
            raise ValueError(
                f"Cache: every layer must hold the {self.length} tokens so far; got a cache whose "
                "last pass was broken off. Make a new one with model.new_cache()."
            )

    def forget(self, kept: list[Tensor]) -> None:
        """Leave these keys and values, (B, Hkv, count), of each layer. `length` stays."""
        for layer, some in zip(self.layers, kept, strict=True):
            layer.forget(some)
        self.forgets, self.real = True, None

    def close(self) -> None:
        """The pass that `advance` began has ended."""
        self._is_open = False

    def real_after(self, new: int, mask: Tensor | None) -> Tensor | None:
        """What `real` is after `new` tokens more; `mask` (B, new) says which of them are real."""
        like = mask if self.real is None else self.real
        if like is None:
            return None
        before = like.new_ones(self.batch, self.length) if self.real is None else self.real
        return torch.cat([before, like.new_ones(self.batch, new) if mask is None else mask], 1)

    def advance(self, new: int, real: Tensor | None) -> int:
        """Take in `new` tokens, after which `real` is this; gives how many keys they see."""
        self.length += new
        self.real, self._is_open = real, True
        return self.layers[0].n_seen(new)

    def select(self, rows: Tensor, memory: bool = True) -> None:
        """Keep these rows of the batch, in this order; a row may be kept more than once.

        Without `memory` what cross-attention looks at stays as it is: rows that move among those
        that look at the same.
        """
        self.batch = len(rows)
        moved: dict[int, Tensor] = {}
        if memory and self.memory is not None:
            old, self.memory = self.memory, self.memory.select(rows)
            moved[id(old.hidden_states)] = self.memory.hidden_states
        for layer in self.layers:
            layer.select(rows, memory, moved)
        if self.real is not None:
            self.real = self.real[rows]
