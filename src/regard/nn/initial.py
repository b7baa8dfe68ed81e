"""How weights begin."""

from __future__ import annotations

import math
from collections import Counter

from torch import nn

from regard.nn._places import Positions
from regard.nn.config import StackConfig
from regard.nn.linear import HeadLinear
from regard.nn.residual import PreNorm

__all__ = ["begin"]

# The matrices that end a sublayer: what they give is added to the residual.
_LAST = ("w_o", "w_out")


def begin(module: nn.Module, config: StackConfig) -> None:
    """Set all weights of a module as they begin.

    Matrices are normal with σ = 1/√inputs, so that unit variance stays unit variance. Under
    `PreNorm` those that end a sublayer are divided by √(sublayers of the stack), as that many are
    added up. Biases are 0; norms 1 and 0; tables of embeddings σ = 1/√width; relative biases 0.

    >>> import torch
    >>> layer = nn.Linear(1000, 500)
    >>> _ = torch.manual_seed(0)
    >>> begin(layer, StackConfig(width=10, heads=2))
    >>> round(layer.weight.std().item() * 1000**0.5, 1), layer.bias.abs().max().item()
    (1.0, 0.0)
    """
    last = {name for name, _ in module.named_modules() if name.rpartition(".")[2] in _LAST}
    added = Counter(map(_stack, last))
    for name, part in module.named_modules():
        if isinstance(part, nn.Linear | HeadLinear):
            variance = 1.0 / part.weight.shape[-1]
            if name in last and isinstance(config.residual, PreNorm):
                alone = config.layers if "layers." not in name else 1  # a layer that will be in one
                variance /= added[_stack(name)] * alone
            nn.init.normal_(part.weight, std=math.sqrt(variance))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=1.0 / math.sqrt(config.width))
        elif isinstance(part, Positions):
            part.begin()


def _stack(name: str) -> str:
    """The stack that a part belongs to; "" if that is all there is."""
    return name.partition("layers.")[0] if "layers." in name else ""
