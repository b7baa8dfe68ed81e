"""What a model's own attention computes, blind: its weights, heard where they are made."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@dataclass
class Truth:
    """Of each module, the entropy of every query (B, H, Nq), call by call; and what the model
    reports in its output, with the names of nobody."""

    calls: dict[str, list[Tensor]] = field(default_factory=dict[str, list[Tensor]])
    reported: list[Tensor] = field(default_factory=list[Tensor])

    @property
    def unnamed(self) -> list[Tensor]:
        """What is reported by modules that did not ask transformers for their attention."""
        known = [x for calls in self.calls.values() for x in calls]
        return [x for x in self.reported if not any(_is_same(x, each) for each in known)]


def _is_same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, atol=1e-6, equal_nan=True))


def entropy(weights: Tensor) -> Tensor:
    """Of the rows of weights (B, H, Nq, Nk), in float64. What eager leaves of a forbidden key,
    exp(−3e38) and less, is 0."""
    w = weights.detach().double()
    return -torch.special.xlogy(w, w).sum(-1)


class _Sdpa(TorchFunctionMode):
    """Inside, the weights behind every SDPA are computed, in float64 and as its definition says."""

    def __init__(self) -> None:
        super().__init__()
        self.entropies: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is F.scaled_dot_product_attention:
            self.entropies.append(entropy(sdpa_weights(*args, **given)))
        return func(*args, **given)


def sdpa_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    q, k = query.double(), key.double()
    if enable_gqa:
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, -torch.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1).nan_to_num(0.0)  # a row without a key has no weights


@contextmanager
def heard(model: nn.Module) -> Generator[Truth]:
    """Inside, the weights of every attention that a module asks transformers for are kept: those
    that eager functions return, or those behind the SDPA that they call."""
    from transformers import AttentionInterface

    names = {id(module): name for name, module in model.named_modules()}
    truth, before = Truth(), AttentionInterface.get_interface

    def get_interface(self: Any, attn_implementation: str, default: Any) -> Any:
        function = before(self, attn_implementation, default)

        def attend(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            with _Sdpa() as called:
                out, weights = function(module, *args, **kwargs)
            found = [entropy(weights)] if isinstance(weights, Tensor) else called.entropies
            truth.calls.setdefault(names.get(id(module), "?"), []).extend(found)
            return out, weights

        return attend

    AttentionInterface.get_interface = get_interface
    try:
        yield truth
    finally:
        AttentionInterface.get_interface = before


def reported(output: Any) -> list[Tensor]:
    """The entropies of all weights in an output with attentions."""
    found: list[Tensor] = []
    for name, value in output.items() if isinstance(output, dict) else ():
        if "ngram" in name:  # of the same modules as the others, a second time
            continue
        if "attentions" in name and isinstance(value, list | tuple):
            weights = [x for x in _tensors(value) if _are_weights(x)]
            if all(x.dim() == 3 and x.shape[1] == 1 for x in weights):
                weights = weights[:1]  # a recurrent cell reports each of its steps
            found += [entropy(x) for x in weights]
    return found


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _are_weights(x: Tensor) -> bool:
    """Weights of each head, as a whole: some models report those of a part of their keys."""
    if x.dim() < 3 or not x.numel() or not x.is_floating_point():
        return False
    if x.dim() == 4 and x.shape[1] > 1 and bool((x == x[:, :1]).all()):
        return False  # the mean of all heads, given for each (WavLM)
    sums = x.float().sum(-1)
    is_whole = ((sums - 1).abs() < 1e-3) | (sums == 0)
    return bool((x >= 0).all() and is_whole.all())
