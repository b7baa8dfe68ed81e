"""`Head`: what a head does on average, in measured numbers, and the kind that these make it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.observation import Observation

# How a share is called when it is what a head mostly does, the most telling first.
KINDS = {
    "induction": "induction",
    "previous": "previous token",
    "self": "itself",
    "first": "first token",
}
_MOSTLY = 0.4  # of the weight
_ENOUGH = 4  # queries with a number: fewer tell nothing of a head
_BROAD = 0.9  # of the entropy that equal weights would have


@dataclass(frozen=True)
class Head:
    """The means of one head over all real queries; None where it was not measured.

    `entropy` is in nats, `spread` the entropy as a share of what equal weights would have,
    `distance` in tokens; `first`, `self_`, `previous` and `induction` are shares of the weight.
    `kind` is what the head mostly does, and `score` the share, or spread, that says so.
    """

    head: int
    entropy: float | None = None
    spread: float | None = None
    distance: float | None = None
    first: float | None = None
    self_: float | None = None
    previous: float | None = None
    induction: float | None = None
    kind: str = "mixed"
    score: float | None = None


def describe(
    seen: Observation,
    shares: dict[str, Tensor],
    queries: Tensor | None = None,
    allowed: Tensor | None = None,
) -> list[Head]:
    """Every head, from what was seen of each query (B, H, Nq).

    `queries` (B, Nq) says which count, `allowed` (B, H, Nq) how many keys each may attend
    to.
    """
    n_heads = seen.lse.shape[1]
    # A query without a key looks nowhere, and counts in no mean.
    counted = seen.lse > -math.inf
    if queries is not None:
        counted = counted & queries[:, None, :]
    columns = {name: _means(x, counted) for name, x in shares.items()}
    columns["entropy"] = _means(seen.entropy, counted)
    columns["distance"] = _means(seen.distance, counted)
    columns["spread"] = _means(_spread(seen.entropy, allowed), counted)
    columns["self_"] = columns.pop("self", None)
    repeated = None
    if "induction" in shares:
        repeated = (counted & ~shares["induction"].isnan()).sum((0, 2)).tolist()
    heads: list[Head] = []
    for n in range(n_heads):
        means = {name: x[n] for name, x in columns.items() if x is not None and x[n] is not None}
        telling = dict(means)
        if repeated is not None and repeated[n] < _ENOUGH:
            telling.pop("induction", None)
        heads.append(Head(n, **means, **_kind(telling)))  # pyright: ignore[reportArgumentType]
    return heads


def _means(x: Tensor | None, counted: Tensor) -> list[float | None] | None:
    """The mean of each head over the queries that count and have a number."""
    if x is None:
        return None
    use = counted & ~x.isnan()
    total = torch.where(use, x.double(), 0.0).sum((0, 2))
    count = use.sum((0, 2))
    return [t / n if n else None for t, n in zip(total.tolist(), count.tolist(), strict=True)]


def _spread(entropy: Tensor | None, allowed: Tensor | None) -> Tensor | None:
    """Entropy over the logarithm of the number of keys, NaN for a single one."""
    if entropy is None or allowed is None:
        return None
    most = allowed.clamp(min=1).double().log()
    return torch.where(most > 0, entropy.double() / most, math.nan)


def _kind(means: dict[str, float | None]) -> dict[str, object]:
    shares = {
        name: share
        for name in KINDS
        if (share := means.get("self_" if name == "self" else name)) is not None
    }
    strongest = max(shares, key=lambda name: shares[name], default=None)
    if strongest is not None and shares[strongest] >= _MOSTLY:
        return {"kind": KINDS[strongest], "score": shares[strongest]}
    spread = means.get("spread")
    if spread is not None and spread >= _BROAD:
        return {"kind": "broad", "score": spread}
    return {"kind": "mixed", "score": shares[strongest] if strongest is not None else None}
