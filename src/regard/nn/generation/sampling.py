"""Drawing a token: temperature, the best k, the best of a probability p, and a uniform number."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Streams", "draw", "kept"]

_GLANCE = 1024  # tokens that are ranked first where top_p needs an order: they usually suffice


def kept(
    logits: Tensor, temperature: float, top_k: int | None = None, top_p: float | None = None
) -> tuple[Tensor, Tensor]:
    """The tokens that may be drawn, of logits (vocabulary,), and their shares in float64.

    p = softmax(logits / temperature). `top_k` leaves the k most probable tokens, of equally
    probable ones those of the lowest ids. `top_p` then leaves the smallest number of the most
    probable tokens whose share of what is left is at least p, and never less than one token.
    A token's share is its probability divided by that of the most probable token.

    >>> logits = torch.tensor([0.0, 2.0, 0.0, 0.0])
    >>> tokens, shares = kept(logits, temperature=1.0, top_k=3, top_p=0.8)
    >>> tokens.tolist(), shares.round(decimals=3).tolist()
    ([1, 0], [1.0, 0.135])
    """
    shares = ((logits.double() - logits.max()) / temperature).exp()
    size = len(logits)
    count = size if top_k is None else min(top_k, size)
    is_cut = count < size
    tokens = _ranked(logits, count) if is_cut else torch.arange(size, device=logits.device)
    if top_p is not None and top_p < 1.0:
        wanted = top_p * shares[tokens].sum()
        if not is_cut:
            tokens = _ranked(logits, min(_GLANCE, size))
            if shares[tokens].cumsum(0)[-1] < wanted:
                tokens = _ranked(logits, size)
        least = int((shares[tokens].cumsum(0) < wanted).sum()) + 1
        tokens = tokens[:least]
    return tokens, shares[tokens]


def _ranked(logits: Tensor, count: int) -> Tensor:
    """The `count` tokens of the greatest logits, from the greatest; of equal ones by their id."""
    if count == len(logits):
        return logits.sort(descending=True, stable=True).indices
    least = logits.topk(count).values[-1]
    tokens = (logits >= least).nonzero()[:, 0]
    order = logits[tokens].sort(descending=True, stable=True).indices
    return tokens[order[:count]]


def draw(tokens: Tensor, shares: Tensor, uniform: float) -> int:
    """The first token up to which the shares sum to more than `uniform`, in [0, 1), of their sum.

    >>> draw(torch.tensor([7, 5]), torch.tensor([1.0, 3.0]), uniform=0.25)
    5
    """
    upto = shares.cumsum(0)
    mark = uniform * float(upto[-1])  # below the sum, as uniform ≤ 1 − 2⁻⁵³
    return int(tokens[torch.searchsorted(upto, mark, right=True)])


class Streams:
    """Uniform numbers for each sequence from a generator of its own: that of n has seed + n.

    So what a sequence draws depends on nothing else in the batch. Without a seed PyTorch's own
    generator gives one: `torch.manual_seed` then makes it repeatable.

    >>> Streams(5, 2).next(1) == Streams(6, 1).next(0)
    True
    """

    def __init__(self, seed: int | None, count: int) -> None:
        first = int(torch.randint(2**62, ())) if seed is None else seed
        self._generators = [torch.Generator().manual_seed(first + n) for n in range(count)]

    def next(self, sequence: int) -> float:
        """A number in [0, 1)."""
        return float(torch.rand((), dtype=torch.float64, generator=self._generators[sequence]))
