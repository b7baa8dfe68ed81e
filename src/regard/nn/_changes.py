"""What is changed of attentions while somebody looks: links cut, scores set, heads left out."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard._attention import Options

if TYPE_CHECKING:
    from regard.nn.attention import MultiHeadAttention


@dataclass(frozen=True)
class AttentionChange:
    """Of one attention, in its pass of one sequence; None is as it is.

    `cut` are links (head, or None for all; query; key) that are masked; `scores` are scaled scores
    (head, query, key) that are set; `left_out` are heads whose output is 0. `causal` is of
    self-attention, and `scale` says whether scores are divided at all.
    """

    cut: tuple[tuple[int | None, int, int], ...] = ()
    scores: tuple[tuple[int, int, int, float], ...] = ()
    left_out: frozenset[int] = frozenset()
    causal: bool | None = None
    scale: bool | None = None

    def options(self, q: Tensor, k: Tensor, scale: float | None, options: Options) -> Options:
        """The options of the call with q (1, H, Nq, D) and k (1, Hkv, Nk, D)."""
        if self.causal is not None:
            options = replace(options, causal=self.causal)
        if not self.cut and not self.scores:
            return options
        shape = (*q.shape[:3], k.shape[2])
        allowed = options.allowed(q.shape[2], k.shape[2], q.device).expand(shape).clone()
        for head, query, key in self.cut:
            allowed[:, slice(None) if head is None else head, query, key] = False
        bias = options.bias
        if self.scores:
            bias = torch.zeros(shape, dtype=q.dtype, device=q.device)
            bias += 0.0 if options.bias is None else options.bias
        factor = 1.0 / math.sqrt(q.shape[3]) if scale is None else scale
        for head, query, key, value in self.scores:
            allowed[:, head, query, key] = True
            own = q[0, head, query].double() @ k[0, head * k.shape[1] // q.shape[1], key].double()
            if bias is not None:
                bias[:, head, query, key] = value - own * factor
        # All that says who may be seen is in the mask by now.
        return replace(options, causal=False, window=None, lengths=None, mask=allowed, bias=bias)

    def output(self, out: Tensor) -> Tensor:
        """What the heads give, (1, H, Nq, Dv)."""
        if not self.left_out:
            return out
        kept = torch.ones(out.shape[1], dtype=out.dtype, device=out.device)
        kept[sorted(self.left_out)] = 0.0
        return out * kept[:, None, None]


@contextmanager
def changing(changes: Mapping[MultiHeadAttention, AttentionChange]) -> Generator[None]:
    """Inside the `with` these attentions are changed; then they are as they were."""
    scales = {module: module.scale for module in changes}
    try:
        for module, change in changes.items():
            module.change = change
            if change.scale is not None:
                module.scale = None if change.scale else 1.0
        yield
    finally:
        for module, scale in scales.items():
            module.scale = scale
            vars(module).pop("change", None)
