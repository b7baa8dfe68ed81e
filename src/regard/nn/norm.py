"""Norms: each token's vector brought to one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from regard._rules.general import LayerNormed, RmsNormed
from regard._rules.rule import Rule
from regard._steps import StepKind
from regard._tokens import rms_norm
from regard.nn._hooks import INPUT, HookPoints, record

if TYPE_CHECKING:
    from regard.nn.config import StackConfig

NormName = Literal["layer", "rms"]


class LayerNorm(nn.LayerNorm):
    """y = (x − mean(x)) / √(variance(x) + ε) · γ + β, over the last axis.

    x (…, width) gives (…, width). γ is `weight`, β is `bias`.

    >>> LayerNorm(2)(torch.tensor([1.0, 3.0])).round(decimals=3).tolist()
    [-1.0, 1.0]
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__(width, eps=eps)

    def forward(self, input: Tensor) -> Tensor:
        record(self, "input", input)
        output = super().forward(input)
        record(self, "output", output)
        return output

    def hook_points(self) -> HookPoints:
        rule = LayerNormed("input", "weight", "bias", self.eps)
        return _points("LayerNorm", "N = (x − mean) / √(variance + ε) · γ + β", rule)


class RMSNorm(nn.Module):
    """y = x / √(mean(x²) + ε) · γ, over the last axis.

    x (…, width) gives (…, width). γ is `weight`. Sums in float32 at least.

    >>> RMSNorm(2)(torch.tensor([3.0, 4.0]))
    tensor([0.8485, 1.1314], grad_fn=<_RmsNormBackward>)
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        record(self, "input", x)
        output = rms_norm(x, self.weight, self.eps)
        record(self, "output", output)
        return output

    def hook_points(self) -> HookPoints:
        rule = RmsNormed("input", "weight", self.eps)
        return _points("RMSNorm", "N = x / √(mean(x²) + ε) · γ", rule)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


def _points(title: str, formula: str, rule: Rule) -> HookPoints:
    meaning = "Each token's vector brought to one size."
    return {"input": INPUT, "output": StepKind(title, formula, meaning, rule, kind="norm")}


def norm_of(config: StackConfig) -> nn.Module:
    """A norm as a configuration has it."""
    return {"layer": LayerNorm, "rms": RMSNorm}[config.norm](config.width, config.norm_eps)
