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

    `cut` are links (head, or None for all; query; key) that are masked; `products` are scores
    (head, query, key) that are set before they are divided, `scores` those that are set after it;
    these are seen whatever the mask says. `left_out` are heads whose output is 0. `causal` is of
    self-attention, and `scale` says whether scores are divided at all.
    """

    cut: tuple[tuple[int | None, int, int], ...] = ()
    products: tuple[tuple[int, int, int, float], ...] = ()
    scores: tuple[tuple[int, int, int, float], ...] = ()
    left_out: frozenset[int] = frozenset()
    causal: bool | None = None
    scale: bool | None = None

    def options(self, q: Tensor, k: Tensor, options: Options) -> Options:
        """Who may be seen in the call with q (1, H, Nq, D) and k (1, Hkv, Nk, D)."""
        if self.causal is not None:
            options = replace(options, causal=self.causal)
        if not self.cut and not self.scores:
            return options
        shape = (*q.shape[:3], k.shape[2])
        allowed = options.allowed(q.shape[2], k.shape[2], q.device).expand(shape).clone()
        for head, query, key in self.cut:
            allowed[:, slice(None) if head is None else head, query, key] = False
        for head, query, key, _ in self.scores:
            allowed[:, head, query, key] = True
        # All that says who may be seen is in the mask by now.
        return replace(options, causal=False, window=None, lengths=None, mask=allowed)

    def shift(
        self, q: Tensor, k: Tensor, scale: float | None, bias: Tensor | None
    ) -> Tensor | None:
        """What makes of the scaled scores those that are set, added to them, (1, H, Nq, Nk)."""
        if not self.products and not self.scores:
            return None
        shape = (*q.shape[:3], k.shape[2])
        made = torch.zeros(shape, dtype=q.dtype, device=q.device)
        factor = 1.0 / math.sqrt(q.shape[3]) if scale is None else scale

        def own(head: int, query: int, key: int) -> Tensor:
            group = head * k.shape[1] // q.shape[1]
            return q[0, head, query].double() @ k[0, group, key].double()

        for head, query, key, value in self.products:
            made[:, head, query, key] = (value - own(head, query, key)) * factor
        for head, query, key, value in self.scores:
            added = 0.0 if bias is None else bias.expand(shape)[0, head, query, key].double()
            made[:, head, query, key] = value - own(head, query, key) * factor - added
        return made

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
