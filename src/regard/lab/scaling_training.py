"""A small attention layer that learns to find a token, with and without √dₖ: pairs of models that
begin with the same numbers and see the same data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.lab.experiment import Asked

_TOKENS, _WIDTH, _HEAD_WIDTH, _BATCH, _LABELS = 16, 32, 1024, 32, 8
_RATE = 3e-3
_SURENESS = 4.0  # of an answer, in the beginning
_POINTS = 41  # of a curve


def train(asked: Asked, tell: Callable[[float], None]) -> dict[str, Any]:
    """Losses (models, points) of both ways, and the steps that the points stand at.

    Each model reads 16 random tokens with a label each, and one token more that is a noisy copy of
    one of them: it must name that one's label. All models of a way are trained at once.
    """
    import torch
    from torch.nn.functional import cross_entropy, one_hot

    models, steps = asked["models"], asked["steps"]
    generator = torch.Generator().manual_seed(asked.seed)

    def matrices(rows: int, columns: int) -> Any:
        return torch.randn(models, rows, columns, generator=generator) / rows**0.5

    begin = [matrices(_WIDTH, _HEAD_WIDTH), matrices(_WIDTH, _HEAD_WIDTH)]
    if asked["length"] == "one":  # queries and keys of length 1, as in the figures by width
        begin = [x / _HEAD_WIDTH**0.5 for x in begin]
    begin.append(_SURENESS * torch.eye(_LABELS).repeat(models, 1, 1))
    at = sorted({round(n * steps / (_POINTS - 1)) for n in range(_POINTS)})
    found: dict[str, Any] = {"at": at, "width": _HEAD_WIDTH}
    for nth, (way, scale) in enumerate((("plain", 1.0), ("scaled", _HEAD_WIDTH**-0.5))):
        parameters = [x.clone().requires_grad_() for x in begin]
        w_q, w_k, w_v = parameters
        optimizer = torch.optim.Adam(parameters, lr=_RATE)
        data = torch.Generator().manual_seed(asked.seed + 1)
        curves = []
        for step in range(steps + 1):
            keys = torch.randn(_BATCH, _TOKENS, _WIDTH, generator=data)
            labels = torch.randint(_LABELS, (_BATCH, _TOKENS), generator=data)
            meant = torch.randint(_TOKENS, (_BATCH,), generator=data)
            rows = torch.arange(_BATCH)
            noise = torch.randn(_BATCH, _WIDTH, generator=data)
            query = keys[rows, meant] + 0.3 * noise
            # x W_Q (y W_K)ᵀ as x (W_Q W_Kᵀ) yᵀ, as a batch has more tokens than they have numbers.
            scores = (keys @ (query @ (w_q @ w_k.mT))[..., None]).squeeze(-1)
            weights = torch.softmax(scale * scores, dim=-1)  # (models, batch, tokens)
            found_labels = torch.einsum("mbn,bnl->mbl", weights, one_hot(labels, _LABELS).float())
            answer = found_labels @ w_v
            target = labels[rows, meant].expand(models, -1)
            losses = cross_entropy(answer.flatten(0, 1), target.flatten(), reduction="none")
            losses = losses.view(models, _BATCH).mean(1)
            if step in at:
                curves.append(losses.detach())
            if step < steps:
                optimizer.zero_grad()
                losses.sum().backward()
                optimizer.step()
            if step % 10 == 0:
                tell((nth * steps + step) / (2 * steps))
        found[way] = torch.stack(curves, 1).double().tolist()
    return found
