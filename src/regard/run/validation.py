"""Do the numbers and tensors of a layer that was read fit each other?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor

from regard._arguments import shown
from regard.run.layer import Layer

_SEEN = (torch.float32, torch.float64)
_FLOATS = (*_SEEN, torch.float16, torch.bfloat16)
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_BOOL = (torch.bool,)
_KEYS = 2**22  # of all sequences, where no tensor holds as many
_FURTHEST = 2**40  # positions, as in attention
_WIDEST = 2**62  # windows, so that a position can be added
_MOST_HEADS = 2**31 - 1

Shape = tuple[int, ...]


def misfit(layer: Layer) -> str | None:
    """What is wrong with a layer; None if nothing is.

    >>> from dataclasses import replace
    >>> from regard.observation import Observation
    >>> layer = Layer("a", Observation(torch.zeros(1, 2, 3), n_keys=3))
    >>> misfit(layer)
    >>> misfit(replace(layer, queries=torch.ones(1, 5, dtype=torch.bool)))
    "says that queries of 'a' is bool (1, 5), where its lse and n_keys make it bool (1, 3)"
    """
    return next(_faults(layer), None)


def _faults(layer: Layer) -> Iterator[str]:
    """All that is wrong. Each may rely on what those before it have found in order."""
    name, lse = shown(layer.name), layer.seen.lse
    for what, value, good in _numbers(layer):
        if not good:
            yield f"says that {what} of {name} is {shown(value)}"
    if not isinstance(lse, Tensor) or lse.dim() != 3 or lse.dtype not in _SEEN:  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"has no log-sum-exp (B, H, Nq) of {name} in float32 or float64"
    batch, heads, _, n_keys = layer.shape
    parts = {what: getattr(layer.seen, what) for what in ("top_keys", "top_weights", "map")}
    parts |= {what: getattr(layer, what) for what in ("q", "k", "v", "output")}
    for what, x in parts.items():
        if x is not None and x.dim() != 4:
            yield f"says that {what} of {name} is {tuple(x.shape)}, and not of four axes"
    for what, x, kinds, shape in _tensors(layer):
        if x is not None and (x.dtype not in kinds or tuple(x.shape) != shape):
            kind = x.dtype if x.dtype in kinds else kinds[0]
            yield (
                f"says that {what} of {name} is {_described(x.dtype, tuple(x.shape))}, where its "
                f"lse and n_keys make it {_described(kind, shape)}"
            )
    for what, x, kinds in (
        ("mask", layer.options.mask, _BOOL),
        ("bias", layer.options.bias, _FLOATS),
    ):
        if x is not None and (x.dtype not in kinds or not _broadcasts(tuple(x.shape), layer.shape)):
            yield (
                f"says that the {what} of {name} is {_described(x.dtype, tuple(x.shape))}, which "
                f"does not broadcast to {_described(kinds[0], layer.shape)}"
            )
    for what, x in (("keys", layer.k), ("values", layer.v)):
        if x is not None and (heads % x.shape[1] if x.shape[1] else heads):
            yield f"says that {heads} heads of {name} share {x.shape[1]} of its {what}"
    # One key that was expanded is no trace of the others: its stride is 0.
    by_key = ((layer.k, 2), (layer.v, 2), (layer.keys, 1), (layer.received, 2))
    if batch * n_keys > _KEYS and all(x is None or not x.stride(axis) for x, axis in by_key):
        yield f"says that {name} has {n_keys:,} keys, of which there is no trace"
    top = layer.top_keys
    if top is not None and top.numel():
        least, most = (int(x) for x in top.aminmax())
        if least < -1 or most >= n_keys:
            yield f"names keys from {least} to {most} as the strongest of the {n_keys} of {name}"


def _numbers(layer: Layer) -> Iterator[tuple[str, object, bool]]:
    """What is no tensor, and whether it is in order."""
    seen, options = layer.seen, layer.options
    yield "n_keys", seen.n_keys, _is_whole(seen.n_keys, 0, _FURTHEST)
    yield "kv_heads", layer.kv_heads, _is_whole(layer.kv_heads, 0, _MOST_HEADS)
    if layer.levels is not None:
        yield "level", layer.levels.level, _is_whole(layer.levels.level, 0, 40)
    flags: dict[str, object] = {"cross": layer.cross, "causal": options.causal}
    for what, value in flags.items():
        yield what, value, isinstance(value, bool)
    for position in (seen.position, options.position):
        good = position is None or _is_whole(position, -_FURTHEST, _FURTHEST)
        yield "position", position, good
    window = cast("object", options.window)
    good = window is None or (
        isinstance(window, tuple | list)
        and len(window) == 2
        and all(side is None or _is_whole(side, 0, _WIDEST) for side in window)
    )
    yield "window", window, good
    scale, softcap = options.scale, options.softcap
    yield "scale", scale, scale is None or _is_number(scale, sys.float_info.max)
    yield "softcap", softcap, softcap is None or (_is_number(softcap, 1e30) and softcap >= 1e-30)


def _tensors(layer: Layer) -> Iterator[tuple[str, Tensor | None, tuple[torch.dtype, ...], Shape]]:
    """Each tensor with the types that it may have, and the one shape."""
    seen, options = layer.seen, layer.options
    batch, heads, n_queries, n_keys = layer.shape
    row = (batch, heads, n_queries)
    top = _last(seen.top_keys, 1)
    width = _last(layer.k if layer.q is None else layer.q, 1)
    columns = _last(layer.output if layer.v is None else layer.v, 1)
    yield "entropy", seen.entropy, _SEEN, row
    yield "distance", seen.distance, _SEEN, row
    yield "top_keys", seen.top_keys, (torch.int64,), (*row, *top)
    yield "top_weights", seen.top_weights, _SEEN, (*row, *top)
    yield "map", seen.map, _SEEN, (batch, heads, *_last(seen.map, 2))
    yield "received", seen.received, _SEEN, (batch, heads, n_keys)
    yield "sinks", seen.sinks, _FLOATS, (heads,)
    yield "sinks", options.sinks, _FLOATS, (heads,)
    yield "lengths", options.lengths, _WHOLE, (batch,)
    yield "queries", layer.queries, _BOOL, (batch, n_queries)
    yield "keys", layer.keys, _BOOL, (batch, n_keys)
    yield "q", layer.q, _FLOATS, (*row, *width)
    yield "k", layer.k, _FLOATS, (batch, *_last(layer.k, 3)[:1], n_keys, *width)
    yield "v", layer.v, _FLOATS, (batch, *_last(layer.v, 3)[:1], n_keys, *columns)
    yield "output", layer.output, _FLOATS, (*row, *columns)
    for name, x in layer.shares.items():
        yield f"shares {shown(name)}", x, _SEEN, row
    if layer.levels is not None:
        size = 1 << layer.levels.level
        picture = (batch, heads, -(-n_queries // size), -(-n_keys // size))
        for name, x in layer.levels.pictures.items():
            yield f"the picture {shown(name)}", x, _SEEN, picture


def _last(x: Tensor | None, count: int) -> Shape:
    """So many axes of a tensor, from the end."""
    return () if x is None else tuple(x.shape[-count:])


def _broadcasts(shape: Shape, full: Shape) -> bool:
    """Does it broadcast to the full shape, without growing it?"""
    return len(shape) <= len(full) and all(
        n in (1, size) for n, size in zip(shape[::-1], full[::-1], strict=False)
    )


def _described(kind: torch.dtype, shape: Shape) -> str:
    return f"{str(kind).removeprefix('torch.')} {shape}"


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -most <= value <= most
