"""torch.autocast: kept out of our own arithmetic, and applied where PyTorch's function is cast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from regard._attention.causal_bias import is_causal_bias

__all__ = ["cast", "is_any_enabled", "without_autocast"]

is_any_enabled = torch._C._is_any_autocast_enabled  # on any device; quick
_AS_IT_IS = nullcontext()


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Products of float32 are float32 within, whatever is at work around."""
    return torch.autocast(device.type, enabled=False) if _is_enabled(device) else _AS_IT_IS


def cast(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """As an operator of lower precision gets them: in autocast's type, if it is at work.

    That goes for all floats on the device but those of float64.
    """
    kind = query.device.type
    if not _is_enabled(query.device):
        return query, key, value, mask
    dtype = torch.get_autocast_dtype(kind)

    def lower(x: Tensor) -> Tensor:
        may = x.is_floating_point() and x.dtype != torch.float64 and x.device.type == kind
        return x.to(dtype) if may else x

    if isinstance(mask, Tensor) and not is_causal_bias(mask):  # what is no tensor is refused later
        mask = lower(mask)
    return lower(query), lower(key), lower(value), mask


def _is_enabled(device: torch.device) -> bool:
    return (
        is_any_enabled()
        and torch.amp.is_autocast_available(device.type)
        and torch.is_autocast_enabled(device.type)
    )
