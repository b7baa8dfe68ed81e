"""Which layers, heads and sequences are meant: by number, or a layer by its name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard._arguments import shown, whole
from regard.run.layer import Layer

Which = int | str
Some = Which | Sequence[Which] | None  # None: all


def index_of(call: str, name: str, value: object, size: int, remedy: str) -> int:
    """A whole number from 0 to size − 1; negative ones count from the end."""
    return whole(call, name, value, -size, size - 1, remedy) % size


def layer_index(call: str, layers: Mapping[str, Layer], which: object) -> int:
    """Which layer that is, counted from 0."""
    names = list(layers)
    if not isinstance(which, str):
        return index_of(call, "layer", which, len(names), f"The run has {len(names)} layers.")
    if which in layers:
        return names.index(which)
    close = difflib.get_close_matches(which, names, n=3, cutoff=0.4) or names[:3]
    hint = f"Close to it are {', '.join(map(repr, close))}." if close else "The run has no layers."
    raise ValueError(f"{call}: layer must be the name of a layer; got {shown(which)}. {hint}")


def layer_indices(call: str, layers: Mapping[str, Layer], which: object) -> list[int]:
    """All layers if None; one, or several, in the order of the run."""
    if which is None:
        return list(range(len(layers)))
    return sorted({layer_index(call, layers, one) for one in _several(which)})


def heads_of(call: str, layers: Iterable[Layer], which: object) -> list[int] | None:
    """The heads that are meant, in order; None for all. A layer may have fewer."""
    if which is None:
        return None
    most = max((layer.shape[1] for layer in layers), default=0)
    remedy = f"The layers have {most} heads at most."
    return sorted({index_of(call, "head", one, most, remedy) for one in _several(which)})


def _several(which: Any) -> Iterable[object]:
    return which if isinstance(which, Iterable) and not isinstance(which, str) else [which]
