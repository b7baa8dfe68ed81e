"""The feed-forward layer: what refines each token's vector by itself."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from regard._arguments import whole
from regard._attention.checks import check_dropout
from regard.nn._tell import tell
from regard.nn.linear import Linear

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]

ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "swiglu": functional.silu,  # of the gate, which multiplies
}


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_in) W_out; with "swiglu" (silu(x W_gate) ⊙ x W_in) W_out.

    Each map has a bias, unless `bias` is False.
    x (B, N, width) gives (B, N, width), each token by itself. `hidden` is the width in between,
    4 · width unless given. "gelu" is exact, "gelu_tanh" GPT-2's approximation of it.

    >>> import torch
    >>> FeedForward(3, hidden=5, activation="swiglu", bias=False)(torch.ones(1, 2, 3)).shape
    torch.Size([1, 2, 3])
    """

    def __init__(
        self,
        width: int,
        *,
        hidden: int | None = None,
        activation: Activation = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        call = "FeedForward()"
        width = whole(call, "width", width, 1)
        hidden = 4 * width if hidden is None else whole(call, "hidden", hidden, 1)
        dropout = check_dropout(call, dropout)
        if activation not in tuple(ACTIVATIONS):
            raise ValueError(
                f"{call}: activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}."
            )
        self.activation = activation
        self.w_in = Linear(width, hidden, bias)
        self.w_gate = Linear(width, hidden, bias) if activation == "swiglu" else None
        self.w_out = Linear(hidden, width, bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        tell(self, "input", x)
        hidden = self.w_in(x)
        tell(self, "hidden", hidden)
        if self.w_gate is None:
            activated = ACTIVATIONS[self.activation](hidden)
        else:
            gate = self.w_gate(x)
            tell(self, "gate", gate)
            activated = functional.silu(gate) * hidden
        tell(self, "activated", activated)
        output = self.w_out(self.dropout(activated))
        tell(self, "output", output)
        return output

    def extra_repr(self) -> str:
        return f"activation={self.activation}"
