"""Linear maps: of whole vectors, and of each head's part by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard._attention.eager import is_eager
from regard._linear import linear, linears
from regard.nn._plain import calls_are_plain, is_plain


class Linear(nn.Linear):
    """y = x Wᵀ + b: x (…, width) gives (…, out_width); `weight` (out_width, width), `bias`.

    The same as PyTorch's. Few rows, as in decoding, take a way of their own, which reads the
    weights as fast as memory gives them.

    >>> layer = Linear(2, 3, bias=False)
    >>> layer(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    def reset_parameters(self) -> None:
        """Normal with σ = 1/√width, so that unit variance stays unit variance; the bias 0."""
        nn.init.normal_(self.weight, std=self.in_features**-0.5)
        if self.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def together(x: Tensor, *layers: Any) -> list[Tensor] | None:
    """What each layer makes of x, in one call; None if they have to be called one by one.

    That is so if one is no `Linear`, or if somebody listens to its calls, or has changed them.
    """
    if not (is_eager() and calls_are_plain() and all(is_plain(each, Linear) for each in layers)):
        return None
    return linears(x, [(each.weight, each.bias) for each in layers])


class HeadLinear(nn.Module):
    """Each head's own map of its own part: y_h = x_h W_hᵀ + b_h.

    x (B, N, H·width) gives (B, N, H·out_width); `weight` (H, out_width, width), `bias`
    (H, out_width). The same as one block-diagonal matrix.

    >>> layer = HeadLinear(3, 2, 5)
    >>> layer(torch.zeros(1, 7, 6)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([1, 7, 15]), 45)
    """

    def __init__(self, heads: int, width: int, out_width: int, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.width, self.out_width = heads, width, out_width
        self.weight = nn.Parameter(torch.empty(heads, out_width, width))
        self.bias = nn.Parameter(torch.empty(heads, out_width)) if bias else None
        nn.init.normal_(self.weight, std=width**-0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        parts = x.unflatten(-1, (self.heads, self.width))
        y = torch.einsum("bnhi,hoi->bnho", parts, self.weight)
        if self.bias is not None:
            y = y + self.bias.to(y.dtype)  # autocast may have made y of fewer bits
        return y.flatten(-2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, {self.width} → {self.out_width}, bias={self.bias is not None}"
