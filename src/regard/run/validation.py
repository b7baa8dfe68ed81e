"""Which tensors a layer may have, and whether those that were read fit each other."""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import cast

import torch
from torch import Tensor

from regard._arguments import shown
from regard._attention.options import broadcasts
from regard.observation import FIELDS
from regard.run.layer import Layer

_SEEN = (torch.float32, torch.float64)
_FLOATS = (*_SEEN, torch.float16, torch.bfloat16)
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_BOOL = (torch.bool,)
_SCORES = ("B", "H", "Nq", "Nk")
# Where a layer keeps its tensors, the types that they may have, and their axes: those of the scores
# as in lse and n_keys, another as where it stands first. None is what broadcasts to the scores.
TENSORS: dict[str, tuple[tuple[torch.dtype, ...], tuple[str, ...] | None]] = {
    **{f"seen.{name}": (_SEEN, axes) for name, (axes, _) in FIELDS.items()},
    "seen.top_keys": ((torch.int64,), FIELDS["top_keys"][0]),
    "seen.sinks": (_FLOATS, ("H",)),
    "options.sinks": (_FLOATS, ("H",)),
    "options.lengths": (WHOLE, ("B",)),
    "options.segments": ((torch.int64,), ("B of segments", "Nq", "columns")),
    "options.indices": ((torch.int64,), ("B of indices", "H of indices", "Nq", "K")),
    "options.mask": (_BOOL, None),
    "options.bias": (_FLOATS, None),
    "spans": ((torch.int64,), ("Nk", "ends")),
    "queries": (_BOOL, ("B", "Nq")),
    "keys": (_BOOL, ("B", "Nk")),
    "q": (_FLOATS, ("B", "H", "Nq", "D")),
    "k": (_FLOATS, ("B", "Hkv", "Nk", "D")),
    "v": (_FLOATS, ("B", "heads of v", "Nk", "Dv")),
    "output": (_FLOATS, ("B", "H", "Nq", "Dv")),
    "scores": (_FLOATS, _SCORES),
}
_KEYS = 2**22  # of all sequences, where no tensor holds as many
_FURTHEST = 2**40  # positions, as in attention
_WIDEST = 2**62  # windows, so that a position can be added
_MOST_HEADS = 2**31 - 1


def misfit(layer: Layer) -> str | None:
    """What is wrong with a layer; None if nothing is.

    >>> from dataclasses import replace
    >>> from regard.observation import Observation
    >>> layer = Layer("a", Observation(torch.zeros(1, 2, 3), n_keys=3))
    >>> misfit(layer)
    >>> misfit(replace(layer, queries=torch.ones(1, 5, dtype=torch.bool)))
    "says that queries of 'a' is bool (1, 5), where its lse and n_keys make it bool (1, 3)"
    """
    # Each check may rely on what those before it have found in order.
    return _wrong_number(layer) or _wrong_tensor(layer) or _wrong_together(layer)


def _wrong_number(layer: Layer) -> str | None:
    seen, options, levels = layer.seen, layer.options, layer.levels
    window = cast("object", options.window)
    sides = window if isinstance(window, tuple | list) else (None, None, None)
    level = None if levels is None else levels.level
    scale, softcap = options.scale, options.softcap
    is_capped = softcap is None or (_is_number(softcap, 1e30) and softcap >= 1e-30)
    checks = [
        ("n_keys", seen.n_keys, is_whole(seen.n_keys, 0, _FURTHEST)),
        ("kv_heads", layer.kv_heads, is_whole(layer.kv_heads, 0, _MOST_HEADS)),
        ("level", level, levels is None or is_whole(level, 0, 40)),
        ("cross", layer.cross, isinstance(layer.cross, bool)),  # pyright: ignore[reportUnnecessaryIsInstance]
        ("causal", options.causal, isinstance(options.causal, bool)),  # pyright: ignore[reportUnnecessaryIsInstance]
        *(
            ("position", each, each is None or is_whole(each, -_FURTHEST, _FURTHEST))
            for each in (seen.position, options.position)
        ),
        ("window", window, window is None or len(sides) == 2),
        *(("window", window, side is None or is_whole(side, 0, _WIDEST)) for side in sides),
        ("scale", scale, scale is None or _is_number(scale, sys.float_info.max)),
        ("softcap", softcap, is_capped),
    ]
    for what, value, good in checks:
        if not good:
            return f"says that {what} of {shown(layer.name)} is {shown(value)}"
    return None


def _wrong_tensor(layer: Layer) -> str | None:
    """A tensor of another type or shape than its place in the layer makes it."""
    name, lse = shown(layer.name), layer.seen.lse
    if not isinstance(lse, Tensor) or lse.dim() != 3 or lse.dtype not in _SEEN:  # pyright: ignore[reportUnnecessaryIsInstance]
        return f"has no log-sum-exp (B, H, Nq) of {name} in float32 or float64"
    sizes: dict[str, int] = dict(zip(_SCORES, layer.shape, strict=True))
    found = {path: (attrgetter(path)(layer), *kind) for path, kind in TENSORS.items()}
    by_query = _SCORES[:3]
    found |= {f"shares {shown(share)}": (x, _SEEN, by_query) for share, x in layer.shares.items()}
    if layer.levels is not None:
        blocks = (-(-n >> layer.levels.level) for n in layer.shape[2:])
        sizes |= dict(zip(("block of Nq", "block of Nk"), blocks, strict=True))
        for reduce, x in layer.levels.pictures.items():
            axes = ("B", "H", "block of Nq", "block of Nk")
            found[f"the picture {shown(reduce)}"] = x, _SEEN, axes
    for path, (x, kinds, axes) in found.items():
        if x is None:
            continue
        what = path.removeprefix("seen.").removeprefix("options.")
        own, fits = tuple(x.shape), x.dtype in kinds
        if axes is None:
            if not fits or not broadcasts(own, layer.shape):
                return (
                    f"says that the {what} of {name} is {_described(x.dtype, own)}, which "
                    f"does not broadcast to {_described(kinds[0], layer.shape)}"
                )
            continue
        if len(axes) == 4 != len(own):
            return f"says that {what} of {name} is {own}, and not of four axes"
        for axis, size in zip(axes, own, strict=False):
            sizes.setdefault(axis, size)
        shape = tuple(sizes[axis] for axis in axes)
        if not fits or own != shape:
            return (
                f"says that {what} of {name} is {_described(x.dtype, own)}, where its "
                f"lse and n_keys make it {_described(x.dtype if fits else kinds[0], shape)}"
            )
    return None


def _wrong_together(layer: Layer) -> str | None:
    """What single tensors do not tell: heads that share keys, and keys that nothing is known of."""
    name = shown(layer.name)
    batch, heads, _, n_keys = layer.shape
    if layer.top_weights is not None and layer.top_keys is None:
        return f"has top_weights of {name} without its top_keys"
    for what, x in (("keys", layer.k), ("values", layer.v)):
        if x is not None and (heads % x.shape[1] if x.shape[1] else heads):
            return f"says that {heads} heads of {name} share {x.shape[1]} of its {what}"
    # One key that was expanded is no trace of the others: its stride is 0.
    by_key = ((layer.k, 2), (layer.v, 2), (layer.keys, 1), (layer.received, 2), (layer.scores, 3))
    if batch * n_keys > _KEYS and all(x is None or not x.stride(axis) for x, axis in by_key):
        return f"says that {name} has {n_keys:,} keys, of which there is no trace"
    segments, indices = layer.options.segments, layer.options.indices
    if segments is not None and (len(segments) not in (1, batch) or segments.shape[2] != 3):
        return f"has segments {tuple(segments.shape)} of {name}, which are no intervals of its keys"
    if indices is not None and not broadcasts(indices.shape[:2], (batch, heads)):
        return f"has indices {tuple(indices.shape)} of {name}, which has other heads"
    if layer.spans is not None and layer.spans.shape[1] != 2:
        return f"has spans {tuple(layer.spans.shape)} of {name}, which are not from … to"
    top = layer.top_keys
    if top is not None and top.numel():
        least, most = (int(x) for x in top.aminmax())
        if least < -1 or most >= n_keys:
            return f"names keys from {least} to {most} as the strongest of the {n_keys} of {name}"
    return None


def _described(kind: torch.dtype, shape: tuple[int, ...]) -> str:
    return f"{str(kind).removeprefix('torch.')} {shape}"


def is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -most <= value <= most
