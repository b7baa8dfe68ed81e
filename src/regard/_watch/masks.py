"""What a mask over queries and keys says: which tokens are real, and whether it is causal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard._attention.eager import is_transformed
from regard.run import Options
from regard.run.reach import is_open, row_chunks

__all__ = ["Meaning", "meaning_of"]


@dataclass(frozen=True, eq=False)
class Meaning:
    """Options in their plainest form, and which queries (B, Nq) and keys (B, Nk) are real.

    None: all. `grows`: no query looks ahead, though `options.causal` does not say so.
    """

    options: Options
    queries: Tensor | None = None
    keys: Tensor | None = None
    grows: bool = False

    @property
    def looks_back(self) -> bool:
        return self.options.causal or self.grows


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Real keys (B or 1, Nk), None: all; open to all queries, or, if causal, to those behind."""

    causal: bool
    position: int
    keys: Tensor | None
    is_all: bool  # nothing else is in the mask, so that this may stand in its place
    shuts_rows: bool  # by finite numbers: such a row is equal everywhere, and not empty


@torch.no_grad()
def meaning_of(q: Tensor, k: Tensor, options: Options) -> Meaning:
    """What the mask, the bias and the lengths of one call mean.

    A mask that is causality, padding or both becomes these, if computing with them gives the same;
    else it stays, and only its meaning is taken.
    """
    batch, n_queries, n_keys = k.shape[0], q.shape[2], k.shape[2]
    keys, grows = _within(options.lengths, n_keys), False
    for name in ("mask", "bias"):
        given: Tensor | None = getattr(options, name)
        found = None if given is None else _read(given, n_queries, n_keys)
        if found is None or (found.causal and not _fits(found, options, n_keys - n_queries)):
            continue
        if found.is_all:
            options = replace(options, **{name: None})
        if found.causal:
            grows = grows or found.shuts_rows
            causal = options.causal or not found.shuts_rows
            options = replace(options, causal=causal, position=found.position)
        if found.keys is None:
            continue
        if found.is_all:
            options = replace(options, mask=_both(options.mask, found.keys[:, None, None, :]))
        keys = _both(keys, found.keys.expand(batch, n_keys))
    grows = grows and not options.causal
    first = n_keys - n_queries if options.position is None else options.position
    # As many queries as keys are taken for the same tokens.
    is_known = options.causal or grows or n_queries == n_keys
    queries = _at(keys, first, n_queries) if is_known else None
    return Meaning(options, queries, keys, grows)


def _within(lengths: Tensor | None, n_keys: int) -> Tensor | None:
    """(B, Nk): which keys are within the lengths."""
    if lengths is None:
        return None
    return torch.arange(n_keys, device=lengths.device) < lengths[:, None]


def _at(keys: Tensor | None, first: int, count: int) -> Tensor | None:
    """Those of the keys that so many queries are; None if they are not among them."""
    if keys is None or first < 0 or first + count > keys.shape[1]:
        return None
    return keys[:, first : first + count]


def _both(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one & other


def _fits(found: _Pattern, options: Options, end: int) -> bool:
    """Do the options say nothing else about where the queries stand?"""
    if options.position is not None:
        return options.position == found.position
    has_window = options.window is not None and options.window != (None, None)
    return found.position == end or not (options.causal or has_window)


def _read(x: Tensor, n_queries: int, n_keys: int) -> _Pattern | None:
    """The pattern of a mask that broadcasts to (B, H, Nq, Nk); None if it is another one."""
    is_mask = x.dtype == torch.bool or x.is_floating_point()
    if not is_mask or x.is_meta or is_transformed() or not x.numel():
        return None
    wants_gradient, x = x.requires_grad, x.detach()
    x = x[(None,) * (4 - x.dim())]
    x = x[tuple(slice(0, 1) if not step else slice(None) for step in x.stride()[:3])]
    if x.shape[3] != n_keys or x.shape[2] not in (1, n_queries):
        return None
    keys, is_plain, shuts_rows = _look(x[:, :1])
    is_plain = is_plain and not wants_gradient and not shuts_rows
    real = None if bool(keys.all()) else keys
    same = n_queries == n_keys
    ends = () if x.shape[2] == 1 else (n_keys - n_queries, *(() if same else (0,)))
    for position in (None, *ends):
        exact = _is(x[:, :1], keys, position, same)
        if exact is not None:
            if not _heads_agree(x):
                return None
            is_all = is_plain and exact and (x.shape[1] == 1 or _look(x)[1])
            return _Pattern(position is not None, position or 0, real, is_all, shuts_rows)
    return None


def _chunks(x: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Some rows at a time: (B, H, rows, Nk)."""
    for rows in row_chunks(x.shape[2], x.shape[0] * x.shape[1] * x.shape[3]):
        yield rows, x[:, :, rows]


def _look(x: Tensor) -> tuple[Tensor, bool, bool]:
    """Keys (B, Nk) that are open to any query; is nothing added to what is open; are there rows
    that are shut by finite numbers?"""
    keys = torch.zeros((x.shape[0], x.shape[3]), dtype=torch.bool, device=x.device)
    is_plain, shuts_rows = True, False
    for _, some in _chunks(x):
        open_ = is_open(some)
        keys |= open_[:, 0].any(1)
        if some.dtype == torch.bool:
            continue
        is_plain = is_plain and not bool((open_ & (some != 0)).any())
        dead = some[~open_.any(-1)]
        shuts_rows = shuts_rows or not bool((dead == -math.inf).all())
    return keys, is_plain, shuts_rows


def _heads_agree(x: Tensor) -> bool:
    """Is the same open in all heads?"""
    if x.shape[1] == 1:
        return True
    return all(bool((is_open(some) == is_open(some[:, :1])).all()) for _, some in _chunks(x))


def _is(x: Tensor, keys: Tensor, position: int | None, same: bool) -> bool | None:
    """Are the real keys open to all queries, or, with a position, to those that are not before
    them? None if not; False if so, but for padded queries, to which everything is shut."""
    exact = True
    n_keys = x.shape[3]
    key = torch.arange(n_keys, device=x.device)
    for rows, some in _chunks(x):
        open_ = is_open(some[:, 0])
        place = torch.arange(rows.start, rows.stop, device=x.device) + (position or 0)
        expected = keys[:, None]
        if position is not None:
            expected = expected & (key <= place[:, None])
        differs = (open_ != expected).any(-1)  # (B, rows)
        if not bool(differs.any()):
            continue
        inside = (place >= 0) & (place < n_keys) & (same or position is not None)
        padded = ~keys[:, place.clamp(0, n_keys - 1)] & inside
        if bool((differs & ~(padded & ~open_.any(-1))).any()):
            return None
        exact = False
    return exact
