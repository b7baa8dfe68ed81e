"""What is measured of heads while they learn: entropy, largest logit, the weight on the sink."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.run import Layer
from regard.run.heads import measure

# What is in the lines that are reported.
REPORTED = ("entropy", "max_logit", "sink")


@dataclass(frozen=True)
class Signs:
    """Of each head of a layer, over the real queries of one step; None where nothing was measured.

    `entropy` is the mean, in nats, `spread` the mean share of what equal weights would have,
    `max_logit` the largest logit of all, which may be NaN or infinite, and `sink` the mean weight
    on the first real key and on a sink that the model has learned.
    """

    entropy: list[float | None]
    spread: list[float | None]
    sink: list[float | None]
    max_logit: list[float | None]

    def line(self) -> dict[str, list[float | None]]:
        """What is reported of it: finite numbers, or None."""
        return {name: [_finite(x) for x in getattr(self, name)] for name in REPORTED}


def table_of(layer: Layer) -> Tensor:
    """(7, H) of what `watch` saw: sum and count of entropy, spread and sink, and the largest logit.

    What is measured of a query, and which queries count, is as `layer.heads` has it.
    """
    seen = layer.seen
    names, numbers = measure(seen, layer.shares, layer.queries, layer.allowed)
    measured = dict(zip(names, numbers, strict=True))
    rows: list[Tensor] = []
    for name in ("entropy", "spread", "first"):
        if name in measured:
            x = measured[name]
            if name == "first" and seen.sinks is not None:
                x = x + (seen.sinks[:, None] - seen.lse).exp()
            total = torch.nansum(x, (0, 2), dtype=torch.float64)
            rows += [total, (~x.isnan()).sum((0, 2)).double()]
        else:
            rows += [seen.lse.new_zeros(layer.shape[1], dtype=torch.float64)] * 2
    logits = seen.lse if seen.max_logit is None else seen.max_logit
    if layer.queries is not None:
        logits = torch.where(layer.queries[:, None], logits, -math.inf)
    return torch.stack([*rows, largest(logits.double(), (0, 2))])


def largest(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest along these axes, −inf if there are none."""
    return x.amax(axes) if x.numel() else x.new_full(x.sum(axes).shape, -math.inf)


def signs_of(tables: Sequence[Tensor]) -> Signs:
    """Tables (7, H) of one layer, taken together.

    >>> table = torch.tensor([[2.0], [4.0], [1.0], [2.0], [0.0], [0.0], [7.0]])
    >>> signs_of([table, table])
    Signs(entropy=[0.5], spread=[0.5], sink=[None], max_logit=[7.0])
    """
    together = tables[0]
    if len(tables) > 1:
        every = torch.stack(list(tables))
        together = torch.cat([every[:, :6].sum(0), every[:, 6:].amax(0)])
    *sums, most = together.tolist()
    entropy, spread, sink = (
        [total / count if count else None for total, count in zip(*sums[n : n + 2], strict=True)]
        for n in (0, 2, 4)
    )
    return Signs(entropy, spread, sink, [None if x == -math.inf else x for x in most])


def _finite(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None
