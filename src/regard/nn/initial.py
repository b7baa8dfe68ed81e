"""How the matrices begin that end a sublayer; all others begin as their modules say."""

from __future__ import annotations

import math

import torch
from torch import nn

from regard.nn.config import StackConfig
from regard.nn.residual import PreNorm


@torch.no_grad()
def shrink(layer: nn.Module, config: StackConfig, n_sublayers: int) -> None:
    """Divide the matrices that end a sublayer by √(sublayers of the stack), under `PreNorm`.

    What they give is added to the residual, that many times: so the sum stays of one size.

    >>> from regard.nn import FeedForward
    >>> layer = FeedForward(2, hidden=3)
    >>> layer.w_out.weight.data.fill_(2.0)
    tensor([[2., 2., 2.],
            [2., 2., 2.]])
    >>> shrink(layer, StackConfig(width=2, heads=1, layers=2), n_sublayers=2)
    >>> layer.w_out.weight.data
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    if isinstance(config.residual, PreNorm):
        for name, part in layer.named_modules():
            if isinstance(part, nn.Linear) and name.rpartition(".")[2] in ("w_o", "w_out"):
                part.weight /= math.sqrt(n_sublayers * config.layers)
