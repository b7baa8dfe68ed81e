"""What the masks of a call mean: which tokens are real, and whether it is causal."""

from __future__ import annotations

import math
from collections.abc import MutableMapping
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
# A number that forbids in a mask that holds nothing else; below the first, it does by itself.
_OPEN, _SHUT = -1e8, -5e3


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Real keys (B or 1, Nk), None: all; allowed to all queries, or, with a position, to those
    that do not stand before them."""

    position: int | None
    keys: Tensor | None
    is_all: bool  # nothing else is in the mask, so that this may stand in its place
    has_equal_rows: bool  # forbidden as a whole by finite numbers, and so equal, not empty


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
    if options.segments is not None and n_queries == n_keys:
        real.append(options.segments[..., 0] < options.segments[..., 1])
    for name in ("mask", "bias") if options.segments is None else ():
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
    if options.segments is not None and keys is not None:
        keys = None if bool(keys.all()) else keys.expand(batch, n_keys)
    looks_back = options.causal or grows
    # As many queries as keys are taken for the same tokens. If they are not as many, and may look
    # anywhere, they are taken for those of another sequence.
    if keys is not None and (looks_back or n_queries == n_keys):
        first = options.offset(n_queries, n_keys)
        if 0 <= first <= n_keys - n_queries:
            queries = keys[:, first : first + n_queries]
    cross = call.cross if call.is_cross_known else n_queries != n_keys and not looks_back
    if keys is call.keys is None and options is call.options and cross == call.cross:
        return call
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
    batch, heads, n_rows, _ = x.shape
    if x.shape[3] != n_keys or n_rows not in (1, n_queries):
        return None
    same = n_queries == n_keys
    told = _told(x)
    is_told, x = told is not x, told
    rows = sorted({n * (n_rows - 1) // _SAMPLES for n in range(_SAMPLES + 1)})
    sample, places = x[:, :1, rows], torch.tensor(rows, device=x.device)
    allowed = is_allowed(sample)[:, 0]  # (B, rows, Nk)
    some = allowed.any(1)
    for position in (None, *(() if n_rows == 1 else dict.fromkeys((n_keys - n_queries, 0)))):
        checked = _check(sample, places, some, position, same)
        if checked is None:
            continue
        if position is None and not checked[1] and bool(some.all()):
            return None  # all keys are allowed, and the bias is one
        keys = some
        # The last query of a causal mask may attend to every key that any may, if it is real.
        if not bool((some if position is None else allowed[:, -1]).any(-1).all()):
            keys = torch.zeros_like(some)
            for chunk in row_chunks(n_rows, batch * n_keys):
                keys |= _any(is_allowed(x[:, 0, chunk]), 1)
        exact, is_plain, has_equal_rows = True, True, False
        for chunk in row_chunks(n_rows, batch * heads * n_keys):
            places = torch.arange(chunk.start, chunk.stop, device=x.device)
            checked = _check(x[:, :, chunk], places, keys, position, same)
            if checked is None:
                break
            exact, is_plain = exact and checked[0], is_plain and checked[1]
            has_equal_rows = has_equal_rows or checked[2]
        else:
            is_all = exact and is_plain and not (wants_gradient or has_equal_rows or is_told)
            return _Pattern(position, None if bool(keys.all()) else keys, is_all, has_equal_rows)
    return None


def _told(x: Tensor) -> Tensor:
    """A mask that holds 0 and one large negative number, −10,000 usually, with the least number of
    its type in that place: it forbids. Any other as it is."""
    if x.dtype == torch.bool:
        return x
    shut = float(x[:, :1, :: max(x.shape[2] - 1, 1)].amin())  # in the first row, or the last
    if not _OPEN < shut <= _SHUT or not bool(((x == 0) | (x == shut)).all()):
        return x
    return x.masked_fill(x == shut, torch.finfo(x.dtype).min)


def _any(x: Tensor, axis: int | tuple[()] = ()) -> Tensor:
    """x.any(axis), a hundred times as fast."""
    return x.view(torch.uint8).amax(axis).bool()


def _check(
    x: Tensor, places: Tensor, keys: Tensor, position: int | None, same: bool
) -> tuple[bool, bool, bool] | None:
    """Are the real keys allowed to the queries at some places, or, with a position, to those of
    them that do not stand before the key, in all heads alike? x is (B, H, places, Nk).

    None if not; else whether this is so without exception (to a padded query everything may be
    forbidden), whether nothing is added to what is allowed, and whether there are rows that are
    forbidden as a whole by finite numbers."""
    exact, is_plain, has_equal_rows, n_keys = True, True, False, x.shape[3]
    allowed, expected = is_allowed(x), keys[:, None].expand(-1, len(places), -1)
    key = torch.arange(n_keys, device=x.device)
    positions = places + (position or 0)
    _, end = Options(causal=position is not None).bounds(positions, positions)
    if end is not None:
        expected = expected & (key < end[:, None])
    if x.dtype != torch.bool:
        is_plain = not bool(_any(allowed & (x != 0)))
    differs = _any(allowed ^ expected[:, None], -1)  # (B, H, places)
    empty = (differs | ~_any(expected, -1)[:, None]).any(1)  # (B, places)
    if not bool(empty.any()):
        return exact, is_plain, has_equal_rows
    if bool(differs.any()):
        inside = (positions >= 0) & (positions < n_keys) & (same or position is not None)
        padded = ~keys[:, positions.clamp(0, n_keys - 1)] & inside
        is_padding = padded[:, None] & ~_any(allowed, -1)
        if bool((differs & ~is_padding | (differs != differs[:, :1])).any()):
            return None
        exact = False
    if x.dtype != torch.bool:
        has_equal_rows = not bool((x.transpose(1, 2)[empty] == -math.inf).all())
    return exact, is_plain, has_equal_rows
