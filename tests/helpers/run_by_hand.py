"""Layers made of random tensors, each with its full weights in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import regard
from regard.run import Layer, Options, Run
from regard.text import Token

KINDS = (
    "plain",
    "causal",
    "window",
    "left padding",
    "right padding",
    "grouped",
    "sinks",
    "softcap",
    "bias",
    "mask",
    "cached",
    "cross",
)
ALL = regard.See(entropy=True, top=3, map=(3, 5), received=True, distance=True)


@dataclass
class Made:
    """A layer that has everything, and its weights (B, H, Nq, Nk) as the reference has them."""

    layer: Layer
    weights: NDArray[np.float64]

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """(B, H, Nq, Nk): queries by the real keys that are allowed: by position, mask and bias."""
        batch, heads, n_queries, n_keys = self.layer.shape
        options = self.layer.options
        reach = regard.reference.allowed_keys(
            n_queries,
            n_keys,
            causal=options.causal,
            window=options.window,
            position=options.position,
        )
        reach = np.broadcast_to(reach, (batch, heads, n_queries, n_keys))
        if options.mask is not None:
            reach = reach & options.mask.numpy()
        if options.bias is not None:
            reach = reach & (options.bias.numpy() > -np.inf)
        return reach & real(self.layer.keys, batch, n_keys)[:, None, None]


def real(given: Tensor | None, batch: int, size: int) -> NDArray[np.bool_]:
    return np.ones((batch, size), dtype=bool) if given is None else given.numpy()


def make(
    kind: str,
    *,
    name: str = "layer",
    seed: int = 0,
    see: regard.See = ALL,
    keep: tuple[str, ...] = ("q", "k", "v", "output"),
    dtype: torch.dtype = torch.float32,
    length: int | None = None,
) -> Made:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    batch, heads, kv_heads, width = 2, 3, 3, 5
    n_queries = n_keys = 11 if length is None else length
    if kind == "grouped":
        heads, kv_heads = 6, 2
    if kind in ("cached", "cross"):
        n_queries = 7
    q = 3 * draw(batch, heads, n_queries, width)
    k, v = draw(batch, kv_heads, n_keys, width), draw(batch, kv_heads, n_keys, 7)
    options: dict[str, Any] = {"causal": kind not in ("plain", "window", "bias", "cross")}
    queries = keys = None
    if kind == "window":
        options["window"] = (3, 1)
    elif kind == "left padding":
        keys = torch.arange(n_keys) >= torch.tensor([[0], [4]])
        queries = keys
        options["mask"] = keys[:, None, None, :]
    elif kind == "right padding":
        options["lengths"] = torch.tensor([n_keys, n_keys - 4])
        keys = torch.arange(n_keys) < options["lengths"][:, None]
        queries = keys
    elif kind == "sinks":
        options["sinks"] = draw(heads)
    elif kind == "softcap":
        options |= {"softcap": 2.0, "scale": 0.7}
    elif kind == "bias":
        bias = draw(1, heads, n_queries, n_keys)
        options["bias"] = bias.masked_fill(bias > 1.5, -math.inf)
    elif kind == "mask":
        options["mask"] = draw(batch, 1, n_queries, n_keys) > -0.5
    see = replace(see, queries=queries, distance=see.distance and kind != "cross")
    out, seen = regard.attention(q, k, v, see=see, **options)
    truth = regard.reference.attention(*map(numbers, (q, k, v)), **plain(options)).weights
    kept: dict[str, Any] = {"q": q, "k": k, "v": v, "output": out}
    layer = Layer(
        name,
        seen,
        Options(**options),
        cross=kind == "cross",
        kv_heads=kv_heads,
        queries=queries,
        keys=keys,
        shares={} if kind == "cross" else shares(truth, keys, seen.lse.dtype),
        notes=("made up",),
        **{each: kept[each] for each in keep},
    )
    return Made(layer, truth)


def numbers(x: Tensor) -> NDArray[Any]:
    return x.double().numpy() if x.is_floating_point() else x.numpy()


def plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: numbers(x) if isinstance(x, Tensor) else x for name, x in options.items()}


def shares(
    weights: NDArray[np.float64], keys: Tensor | None, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The weight on the first real key, on a query's own position and on the one before."""
    batch, heads, n_queries, n_keys = weights.shape
    start = real(keys, batch, n_keys).argmax(-1)
    columns = {name: np.full((batch, heads, n_queries), np.nan) for name in ("first", "self")}
    columns["previous"] = columns["self"].copy()
    for b in range(batch):
        columns["first"][b] = weights[b, :, :, start[b]]
        for i in range(n_queries):
            p = i + n_keys - n_queries
            columns["self"][b, :, i] = weights[b, :, i, p]
            if p > start[b]:
                columns["previous"][b, :, i] = weights[b, :, i, p - 1]
    return {name: torch.from_numpy(x).to(dtype) for name, x in columns.items()}


def words(batch: int, length: int) -> list[list[Token]]:
    return [
        [Token(f"{chr(97 + b)}{i % 5}", 2 * i, 2 * i + 2) for i in range(length)]
        for b in range(batch)
    ]


def make_run(*kinds: str, **how: Any) -> tuple[Run, list[Made]]:
    """A run of such layers, with tokens."""
    made = [make(kind, name=f"block.{n}", seed=n, **how) for n, kind in enumerate(kinds)]
    length = made[0].layer.shape[3]
    run = Run(
        {each.layer.name: each.layer for each in made},
        model="made up",
        text=["one", "two"],
        tokens=words(2, length),
        token_ids=torch.arange(2 * length).reshape(2, length),
        see=ALL,
        notes=["a note"],
        unseen=["block.9"],
    )
    return run, made


def run_of_everything() -> Run:
    """One that a folder holds all kinds of things of."""
    run, _ = make_run("causal", "left padding", "mask", "sinks", "right padding", "bias")
    bare = make("causal", name="bare", keep=(), see=regard.See(entropy=True, top=11)).layer
    run.layers["bare"] = replace(bare, shares={}, tokens=words(2, 11))
    run.hidden_states = {"block.0": torch.randn(2, 11, 5), "block.1": torch.randn(2, 11, 5)}
    return run
