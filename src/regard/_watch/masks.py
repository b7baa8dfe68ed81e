"""What the masks of a call mean: which tokens are real, and whether it is causal."""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from regard._attention.eager import is_transformed
from regard._attention.options import Options, four_axes, is_allowed, row_chunks
from regard._watch.call import Call

_SAMPLES = 6  # rows that are looked at before all are


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Real keys (B or 1, Nk), None: all; allowed to all queries, or, with a position, to those
    that do not stand before them."""

    position: int | None
    keys: Tensor | None
    is_all: bool  # nothing else is in the mask, so that this may stand in its place
    has_equal_rows: bool  # forbidden as a whole by finite numbers, and so equal, not empty


@torch.no_grad()
def read_masks(call: Call) -> Call:
    """The call with what its mask, bias and lengths mean: real queries and keys, `grows`, and, if
    nobody has said so, `cross`.

    A mask that is causality, padding or both becomes these, if computing with them gives the same;
    else it stays, and only its meaning is taken.
    """
    options, grows = call.options, call.grows
    batch, n_queries, n_keys = len(call.k), call.q.shape[2], call.k.shape[2]
    real: list[Tensor] = []  # keys, (B, Nk), by everything that says so
    if options.lengths is not None:
        key = torch.arange(n_keys, device=options.lengths.device)
        real.append(key < options.lengths[:, None])
    for name in ("mask", "bias"):
        given: Tensor | None = getattr(options, name)
        found = None if given is None else _read(given, n_queries, n_keys)
        if found is None or not _fits(found, options, n_keys - n_queries):
            continue
        if found.is_all:
            options = replace(options, **{name: None})
        if found.position is not None:
            grows = grows or found.has_equal_rows
            causal = options.causal or not found.has_equal_rows
            options = replace(options, causal=causal, position=found.position)
        if found.keys is None:
            continue
        if found.is_all:
            mask = found.keys[:, None, None, :]
            mask = mask if options.mask is None else options.mask & mask
            options = replace(options, mask=mask)
        real.append(found.keys.expand(batch, n_keys))
    keys, queries = reduce(and_, real) if real else None, None
    looks_back = options.causal or grows
    # As many queries as keys are taken for the same tokens. If they are not as many, and may look
    # anywhere, they are taken for those of another sequence.
    if keys is not None and (looks_back or n_queries == n_keys):
        first = options.offset(n_queries, n_keys)
        if 0 <= first <= n_keys - n_queries:
            queries = keys[:, first : first + n_queries]
    cross = call.cross if call.is_cross_known else n_queries != n_keys and not looks_back
    return replace(call, options=options, queries=queries, keys=keys, grows=grows, cross=cross)


def _fits(found: _Pattern, options: Options, end: int) -> bool:
    """Do the options say nothing else about where the queries stand?"""
    if found.position is None:
        return True
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
    wants_gradient, x = x.requires_grad, four_axes(x.detach())
    x = x[tuple(slice(0, 1) if not step else slice(None) for step in x.stride()[:3])]
    if x.shape[3] != n_keys or x.shape[2] not in (1, n_queries):
        return None
    rows = sorted({n * (x.shape[2] - 1) // _SAMPLES for n in range(_SAMPLES + 1)})
    sample = x[:, 0, rows]
    allowed = is_allowed(sample)  # (B, rows, Nk)
    some = allowed.any(1)
    place = torch.tensor(rows, device=x.device)
    ends = () if x.shape[2] == 1 else dict.fromkeys((n_keys - n_queries, 0))
    positions = [
        position
        for position in (None, *ends)
        if bool(((allowed == _expected(some, place, position)).all(-1) | ~allowed.any(-1)).all())
    ]
    is_plain = x.dtype == torch.bool or not bool((allowed & (sample != 0)).any())
    if positions == [None] and not is_plain and bool(allowed.all(-1).any(-1).all()):
        return None  # all keys are allowed, and the bias is one
    for position in positions:
        keys = some
        # The last query of a causal mask may attend to every key that any may, if it is real.
        if not bool((some if position is None else allowed[:, -1]).any(-1).all()):
            keys = torch.zeros_like(some)
            for _, chunk in _chunks(x[:, :1]):
                keys |= _any(is_allowed(chunk[:, 0]), 1)
        checked = _check(x, keys, position, n_queries == n_keys, is_plain)
        if checked is not None:
            exact, is_plain, has_equal_rows = checked
            is_all = exact and is_plain and not wants_gradient and not has_equal_rows
            return _Pattern(position, None if bool(keys.all()) else keys, is_all, has_equal_rows)
    return None


def _expected(keys: Tensor, place: Tensor, position: int | None) -> Tensor:
    """(B, rows, Nk): the keys, to all queries, or, with a position, to those not before them."""
    options = Options(causal=position is not None)
    expected = keys[:, None].expand(-1, len(place), -1)
    key = torch.arange(keys.shape[1], device=keys.device)
    for forbidden in options.forbidden(place[:, None] + (position or 0), key):
        expected = expected & ~forbidden
    return expected


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
    """Are the real keys allowed to all queries, or, with a position, to those that are not before
    them, in all heads alike? None if not; else whether this is so without exception (to a padded
    query everything may be forbidden), whether nothing is added to what is allowed, and whether
    there are rows that are forbidden as a whole by finite numbers."""
    exact, has_equal_rows, n_keys = True, False, x.shape[3]
    for rows, some in _chunks(x):
        place = torch.arange(rows.start, rows.stop, device=x.device)
        expected = _expected(keys, place, position)
        allowed = is_allowed(some)
        if some.dtype != torch.bool and is_plain:
            is_plain = not bool(_any(allowed & (some != 0)))
        differs = _any(allowed ^ expected[:, None], -1)  # (B, H, rows)
        empty = (differs | ~_any(expected, -1)[:, None]).any(1)  # (B, rows)
        if not bool(empty.any()):
            continue
        if bool(differs.any()):
            place = place + (position or 0)
            inside = (place >= 0) & (place < n_keys) & (same or position is not None)
            padded = ~keys[:, place.clamp(0, n_keys - 1)] & inside
            is_padding = padded[:, None] & ~_any(allowed, -1)
            if bool((differs & ~is_padding | (differs != differs[:, :1])).any()):
                return None
            exact = False
        if some.dtype != torch.bool and not has_equal_rows:
            has_equal_rows = not bool((some.transpose(1, 2)[empty] == -math.inf).all())
    return exact, is_plain, has_equal_rows
