"""`forget`: a cache without the keys that a policy gives up, whose positions go on as if it had."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from regard._arguments import number, shown
from regard.evict.policies import Full, Policy
from regard.nn.cache import Cache
from regard.run import Layer, Run

if TYPE_CHECKING:
    from transformers import DynamicCache


def forget(
    cache: Cache | DynamicCache, policy: Policy, keep: float, run: Run | None = None
) -> None:
    """Leave `keep` of the keys and values of every layer in a cache, those that `policy` chooses.

    `cache` is one of `regard.nn` or transformers' `DynamicCache`, of sequences without padding. As
    many stay in each layer and head: ⌈keep · N⌉ of N, but one at least. Positions go on from the
    true length, and what stays keeps the position that it had. With keep = 1 the cache is left as
    it is, bit for bit. `run` is what `regard.watch` saw of the prefix: a policy that looks at
    attention needs it.

    Raises ValueError before anything is forgotten if the cache cannot do it: with padding, with a
    sliding window of its own, with states instead of keys.

    >>> import torch
    >>> from regard.evict import SlidingWindow
    >>> from regard.nn import LanguageModel, LanguageModelConfig, Rotary
    >>> config = LanguageModelConfig(vocabulary=11, width=12, heads=3, position=Rotary())
    >>> model = LanguageModel(config).eval()
    >>> cache = model.new_cache(1)
    >>> with torch.no_grad():
    ...     _ = model(torch.arange(8)[None], cache=cache)
    ...     forget(cache, SlidingWindow(), keep=0.25)
    ...     _ = model(torch.tensor([[8]]), cache=cache)
    >>> cache.length, cache.layers[0].n_kept
    (9, 3)
    """
    call = "forget()"
    if not isinstance(cast("object", policy), Policy):
        raise TypeError(
            f"{call}: policy must be one of regard.evict; got {shown(policy)}. "
            "regard.evict.SlidingWindow() is one."
        )
    share = check_share(call, keep)
    shapes = _own_shapes(call, cache) if isinstance(cache, Cache) else _shapes(call, cache)
    layers = _layers(call, policy, run, shapes)
    kept: list[Tensor] = []
    for shape, layer in zip(shapes, layers, strict=True):
        count = max(math.ceil(share * shape[2]), 1)
        if count == shape[2] or isinstance(policy, Full):
            return  # nothing is to be forgotten, in any layer
        kept.append(policy.kept(shape, count, layer))
    if isinstance(cache, Cache):
        cache.forget(kept)
    else:
        from regard.evict.dynamic import Remembering

        pairs = zip(cache.layers, kept, strict=True)
        cast("Any", cache).layers = [Remembering(layer, some) for layer, some in pairs]


def check_share(call: str, keep: object) -> float:
    """How much stays: more than 0, at most 1."""
    share = number(call, "keep", keep, 0, 1, "1 forgets nothing.")
    if share == 0.0:
        raise ValueError(f"{call}: keep must be more than 0; got 0. 0.25 keeps a quarter.")
    return share


def _own_shapes(call: str, cache: Cache) -> list[tuple[int, int, int]]:
    if cache.window is not None:
        raise ValueError(
            f"{call}: cache must have no window; got one of {cache.window}. It forgets by itself."
        )
    if cache.real is not None and not bool(cache.real.all()):
        raise ValueError(
            f"{call}: cache must be of sequences without padding; got some with it. "
            "Give each sequence a cache of its own."
        )
    shapes = [layer.shape for layer in cache.layers]
    if any(shape is None for shape in shapes):
        raise ValueError(f"{call}: cache must hold tokens; got an empty one. Read the text first.")
    return [shape for shape in shapes if shape is not None]


def check_kinds(call: str, cache: object) -> None:
    """Raise TypeError or ValueError unless each layer of a cache of transformers holds all keys."""
    layers: Any = getattr(cache, "layers", None)
    if layers is None or not hasattr(cache, "get_seq_length"):
        raise TypeError(
            f"{call}: cache must be a regard.nn.Cache or transformers' DynamicCache; got "
            f"{type(cache).__name__}. model.new_cache(1) and DynamicCache() make them."
        )
    if wrong := {type(layer).__name__ for layer in layers} - {"DynamicLayer", "Remembering"}:
        raise ValueError(
            f"{call}: every layer of cache must hold all keys so far (DynamicLayer); got "
            f"{', '.join(sorted(wrong))}. A window forgets by itself, and a state holds no keys."
        )


def _shapes(call: str, cache: object) -> list[tuple[int, int, int]]:
    """Of each layer of a cache of transformers."""
    check_kinds(call, cache)
    layers = cast("Any", cache).layers
    if not layers or any(not layer.is_initialized or layer.keys.dim() != 4 for layer in layers):
        raise ValueError(f"{call}: cache must hold tokens; got an empty one. Read the text first.")
    return [tuple(layer.keys.shape[:3]) for layer in layers]


def _layers(
    call: str, policy: Policy, run: Run | None, shapes: Sequence[tuple[int, int, int]]
) -> Sequence[Layer | None]:
    """What was seen of each layer, if it fits the cache."""
    if run is None and not policy.looks:
        return [None] * len(shapes)
    if run is None:
        raise ValueError(
            f"{call}: run must be what was seen of the prefix, which {policy.name} looks at; got "
            'None. regard.watch(model, regard.See(received=True), keep=("q", "k")) sees it.'
        )
    layers = [layer for layer in run.layers.values() if not layer.cross]
    found = [(layer.shape[0], layer.kv_heads, layer.shape[3]) for layer in layers]
    if found != list(shapes):
        raise ValueError(
            f"{call}: run must be of what the cache holds, {len(shapes)} layers of (sequences, key "
            f"heads, keys) = {shapes[0]}; got {len(found)} of {found[0] if found else 'none'}. "
            "Watch the call that fills the cache, and forget once."
        )
    if any(layer.keys is not None for layer in layers):
        raise ValueError(
            f"{call}: cache must be of sequences without padding; got some with it. "
            "Give each sequence a cache of its own."
        )
    return layers
