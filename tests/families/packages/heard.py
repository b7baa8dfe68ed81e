"""`Heard`: the weights of every attention that a model computes blind, by whatever function."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from families.truth import entropy, sdpa_weights

_MHA = inspect.signature(F.multi_head_attention_forward)
_SOFTMAXES = (F.softmax, torch.softmax, Tensor.softmax)


class Heard(TorchFunctionMode):
    """Inside, the entropies (…, Nq) of all weights are kept, in float64: of SDPA's by its
    definition, of `nn.MultiheadAttention`'s as it returns them, of flex_attention's as its
    functions say, cell by cell; and those of every softmax, which may be attention's or not."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions: list[Tensor] = []
        self.softmaxes: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is F.scaled_dot_product_attention:
            self.attentions.append(entropy(sdpa_weights(*args, **given)))
        elif func is F.multi_head_attention_forward:
            bound = _MHA.bind(*args, **given).arguments
            bound |= {"need_weights": True, "average_attn_weights": False}
            weights = func(**bound)[1].nan_to_num(0.0)
            self.attentions.append(entropy(weights[None] if weights.dim() == 3 else weights))
        elif getattr(func, "__name__", "") == "flex_attention":
            self.attentions.append(entropy(_flex_weights(*args, **given)))
        out = func(*args, **given)
        if func in _SOFTMAXES and args[0].dim() >= 3:
            self.softmaxes.append(entropy(out))
        return out


def _flex_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Any,
    block_mask: Any,
    scale: float,
    *others: Any,
    **more: Any,
) -> Tensor:
    q, k = query.double(), key.double()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = q @ k.mT * scale
    sizes = scores.shape
    places = [
        torch.arange(n).reshape([-1 if axis == each else 1 for each in range(4)])
        for axis, n in enumerate(sizes)
    ]
    if score_mod is not None:
        scores = score_mod(scores, *places)
    mask_mod = None if block_mask is None else block_mask[-1]
    if mask_mod is not None:
        scores = scores.masked_fill(~mask_mod(*places).expand(sizes), -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0)
