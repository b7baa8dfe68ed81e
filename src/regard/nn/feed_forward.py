"""The feed-forward layer: what refines each token's vector by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from regard._arguments import whole
from regard._attention.checks import check_dropout
from regard._rules.general import Gated
from regard._steps import StepKind
from regard._tokens import gated
from regard.nn._hooks import INPUT, HookPoints, activated, linear, record
from regard.nn.linear import Linear, together

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
        record(self, "input", x)
        made = None if self.w_gate is None else together(x, self.w_in, self.w_gate)
        hidden = self.w_in(x) if made is None else made[0]
        record(self, "hidden", hidden)
        if self.w_gate is None:
            activated = ACTIVATIONS[self.activation](hidden)
        else:
            gate = self.w_gate(x) if made is None else made[1]
            record(self, "gate", gate)
            activated = gated(gate, hidden)
        record(self, "activated", activated)
        output = self.w_out(self.dropout(activated))
        record(self, "output", output)
        return output

    def hook_points(self) -> HookPoints:
        features = activated("hidden", self.activation)
        if self.w_gate is not None:
            features = replace(features, formula="A = silu(G) ⊙ F", rule=Gated("gate", "hidden"))
        return {
            "input": INPUT,
            "hidden": StepKind(
                "Hidden",
                "F = X W_in",
                "Each token's vector, widened: features of it.",
                linear("input", "w_in"),
            ),
            "gate": StepKind(
                "Gate",
                "G = X W_gate",
                "How far each feature is let through.",
                linear("input", "w_gate"),
            ),
            "activated": features,
            "output": StepKind(
                "Refined",
                "O = A W_out",
                "The features, brought back to the width of a vector.",
                linear("activated", "w_out"),
                kind="refined",
            ),
        }

    def extra_repr(self) -> str:
        return f"activation={self.activation}"
