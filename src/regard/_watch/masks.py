"""What a mask over queries and keys says: which tokens are real, and whether it is causal."""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from regard._attention import Options
from regard._attention.eager import is_transformed
from regard._attention.options import four_axes, is_allowed, row_chunks

_SAMPLES = 6  # rows that are looked at before all are


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
    first = options.offset(n_queries, n_keys)
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
    """The pattern of a mask that broadcasts to (B, H, Nq, Nk); None if it is another one, or one
    that says nothing. Layers that get the same mask have it read once."""
    is_mask = x.dtype == torch.bool or x.is_floating_point()
    if not is_mask or x.is_meta or is_transformed() or not x.numel():
        return None
    if x.is_inference():  # it does not tell when it is written to
        return _found(x, n_queries, n_keys)
    state = x._version, n_queries, n_keys
    known = _known.get(x)
    if known is None or known[0] != state:
        known = _known[x] = state, _found(x, n_queries, n_keys)
    return known[1]


_known: MutableMapping[Tensor, tuple[tuple[int, int, int], _Pattern | None]] = WeakIdKeyDictionary()


def _found(x: Tensor, n_queries: int, n_keys: int) -> _Pattern | None:
    wants_gradient, x = x.requires_grad, x.detach()
    x = four_axes(x)
    x = x[tuple(slice(0, 1) if not step else slice(None) for step in x.stride()[:3])]
    if x.shape[3] != n_keys or x.shape[2] not in (1, n_queries):
        return None
    same = n_queries == n_keys
    ends = () if x.shape[2] == 1 else (n_keys - n_queries, *(() if same else (0,)))
    rows = sorted({n * (x.shape[2] - 1) // _SAMPLES for n in range(_SAMPLES + 1)})
    sample = x[:, 0, rows]
    open_ = is_allowed(sample)  # (B, rows, Nk)
    place = torch.tensor(rows, device=x.device)
    positions = [p for p in (None, *ends) if _may_be(open_, place, p)]
    is_plain = x.dtype == torch.bool or not bool((open_ & (sample != 0)).any())
    if positions == [None] and not is_plain and bool(open_.all(-1).any(-1).all()):
        return None  # all keys are open, and the bias is one
    for position in positions:
        keys = _keys(x, open_, position)
        checked = _check(x, keys, position, same, is_plain)
        if checked is not None:
            exact, is_plain, shuts_rows = checked
            is_all = exact and is_plain and not wants_gradient and not shuts_rows
            real = None if bool(keys.all()) else keys
            return _Pattern(position is not None, position or 0, real, is_all, shuts_rows)
    return None


def _may_be(open_: Tensor, place: Tensor, position: int | None) -> bool:
    """Could some rows (B, rows, Nk), which stand at these places, be of the pattern?"""
    expected = _expected(open_.any(1), place, position)
    return bool(((open_ == expected).all(-1) | ~open_.any(-1)).all())


def _expected(keys: Tensor, place: Tensor, position: int | None) -> Tensor:
    """(B, rows, Nk): the keys, to all queries, or, with a position, to those not before them."""
    if position is None:
        return keys[:, None].expand(-1, len(place), -1)
    key = torch.arange(keys.shape[1], device=keys.device)
    return keys[:, None] & (key <= place[:, None] + position)


def _keys(x: Tensor, sample: Tensor, position: int | None) -> Tensor:
    """Keys (B, Nk) that are open to any query. The last one that sees any sees them all."""
    telling = sample.any(1) if position is None else sample[:, -1]
    if bool(telling.any(-1).all()):
        return sample.any(1)
    keys = torch.zeros((x.shape[0], x.shape[3]), dtype=torch.bool, device=x.device)
    for _, some in _chunks(x[:, :1]):
        keys |= _any(is_allowed(some[:, 0]), 1)
    return keys


def _chunks(x: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Some rows at a time: (B, H, rows, Nk)."""
    for rows in row_chunks(x.shape[2], x.shape[0] * x.shape[1] * x.shape[3]):
        yield rows, x[:, :, rows]


def _any(x: Tensor, axis: int | tuple[()] = ()) -> Tensor:
    """x.any(axis), a hundred times as fast."""
    return x.view(torch.uint8).amax(axis).bool()


def _check(
    x: Tensor, keys: Tensor, position: int | None, same: bool, is_plain: bool
) -> tuple[bool, bool, bool] | None:
    """Are the real keys open to all queries, or, with a position, to those that are not before
    them, in all heads alike? None if not; else whether this is so without exception (to a padded
    query everything may be shut), whether nothing is added to what is open, and whether there are
    rows that are shut by finite numbers."""
    exact, shuts_rows, n_keys = True, False, x.shape[3]
    for rows, some in _chunks(x):
        place = torch.arange(rows.start, rows.stop, device=x.device)
        expected = _expected(keys, place, position)
        open_ = is_allowed(some)
        if some.dtype != torch.bool and is_plain:
            is_plain = not bool(_any(open_ & (some != 0)))
        differs = _any(open_ ^ expected[:, None], -1)  # (B, H, rows)
        dead = (differs | ~_any(expected, -1)[:, None]).any(1)  # (B, rows)
        if not bool(dead.any()):
            continue
        if bool(differs.any()):
            place = place + (position or 0)
            inside = (place >= 0) & (place < n_keys) & (same or position is not None)
            padded = ~keys[:, place.clamp(0, n_keys - 1)] & inside
            is_shut = padded[:, None] & ~_any(open_, -1)
            if bool((differs & ~is_shut | (differs != differs[:, :1])).any()):
                return None
            exact = False
        if some.dtype != torch.bool and not shuts_rows:
            shuts_rows = not bool((some.transpose(1, 2)[dead] == -math.inf).all())
    return exact, is_plain, shuts_rows
