"""How much of the weight of each head lies elsewhere in another run of the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard.run.effect import check_tokens

if TYPE_CHECKING:
    from regard.run.run import Run

_MOST_ROWS = 256  # of a head that are compared


def moved(run: Run, other: Run) -> list[list[float] | None]:
    """Of each layer, for each head, half of Σ|a − b| over the weights of a row: the share of its
    weight that is on other keys. The mean over the rows of the first text; of a long one over 256
    of them, spread evenly. None of a layer whose weights are not known in both runs.

    >>> import torch, regard
    >>> from regard.run import Layer, Options
    >>> runs = []
    >>> for q in torch.eye(2)[None, None], torch.eye(2).flip(0)[None, None]:
    ...     _, seen = regard.attention(q, q, q, scale=90.0, see=regard.See())
    ...     layer = Layer("a", seen, Options(scale=90.0), q=q, k=torch.eye(2)[None, None])
    ...     runs.append(regard.Run({"a": layer}))
    >>> moved(*runs), moved(runs[0], runs[0])
    ([[1.0]], [[0.0]])
    """
    check_tokens(run, other)
    found: list[list[float] | None] = []
    for name, one in run.layers.items():
        two = other.layers.get(name)
        known = two is not None and one.has_weights and two.has_weights
        if two is None or not known or one.shape != two.shape:
            found.append(None)
            continue
        n = one.shape[2]
        rows = np.unique(np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(np.int64))
        if one.queries is not None:  # padding looks at nothing
            rows = rows[one.queries[0].cpu().numpy()[rows]]
        shares: list[float] = []
        for head in range(one.shape[1]):
            pairs = zip(*(x.weights_of_rows(0, head, rows) for x in (one, two)), strict=True)
            total = sum(float((a - b).abs().double().sum()) for (_, a), (_, b) in pairs)
            shares.append(total / 2 / max(len(rows), 1))
        found.append(shares)
    return found
