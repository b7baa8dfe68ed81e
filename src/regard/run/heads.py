"""`Head`: what a head does on average, in measured numbers, and the kind that these make it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

    `queries` (B, Nq) says which count, `allowed` (B, H, Nq) how many keys each may attend to.
    """
    names, numbers = measure(seen, shares, queries, allowed)
    totals = torch.nansum(numbers, (1, 3), dtype=torch.float64).T.tolist()
    found = (~numbers.isnan()).sum((1, 3)).T.tolist()  # of the queries that have a number
    counts = [dict(zip(names, each, strict=True)) for each in found]
    means = [
        {name: total / count[name] for name, total in zip(names, each, strict=True) if count[name]}
        for each, count in zip(totals, counts, strict=True)
    ]
    return named(means, counts)


def measure(
    seen: Observation,
    shares: Mapping[str, Tensor],
    queries: Tensor | None = None,
    allowed: Tensor | None = None,
) -> tuple[list[str], Tensor]:
    """The names of what was measured, and the numbers of each query, (names, B, H, Nq): NaN where
    it has none, or does not count."""
    # A query without a key looks nowhere, and counts in no mean.
    counted = seen.lse > -math.inf
    if queries is not None:
        counted = counted & queries[:, None, :]
    measured = {**shares, "entropy": seen.entropy, "distance": seen.distance}
    if seen.entropy is not None and allowed is not None:
        if allowed.stride(1) == 0:  # the same in all heads
            allowed = allowed[:, :1]
        most = allowed.clamp(min=1).double().log()  # the entropy of equal weights
        most = most.masked_fill(most == 0, math.nan).to(seen.entropy.dtype)
        measured["spread"] = seen.entropy / most
    some = {name: x.to(seen.lse.dtype) for name, x in measured.items() if x is not None}
    numbers = seen.lse.new_empty((len(some), *seen.lse.shape))
    if some:
        torch.stack(list(some.values()), out=numbers)
        numbers += torch.zeros_like(seen.lse).masked_fill_(~counted, math.nan)
    return list(some), numbers


def named(means: Sequence[dict[str, float]], counts: Sequence[Mapping[str, int]]) -> list[Head]:
    """Heads by what they do on average, `counts` being over how many queries each mean was taken.

    >>> named([{"first": 0.75, "self": 0.125}], [{"first": 7, "self": 7}])[0].kind
    'first token'
    """
    heads: list[Head] = []
    for n, of_head in enumerate(means):
        telling = {name: of_head[name] for name in KINDS if name in of_head}
        if counts[n].get("induction", 0) < _ENOUGH:
            telling.pop("induction", None)
        strongest = max(telling, key=lambda name: telling[name], default=None)
        kind, score = "mixed", None if strongest is None else telling[strongest]
        spread = of_head.get("spread", 0.0)
        if strongest is not None and telling[strongest] >= _MOSTLY:
            kind = KINDS[strongest]
        elif spread >= _BROAD:
            kind, score = "broad", spread
        numbers = {"self_" if name == "self" else name: x for name, x in of_head.items()}
        heads.append(Head(n, **numbers, kind=kind, score=score))
    return heads
