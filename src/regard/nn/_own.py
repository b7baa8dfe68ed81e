"""May a module write over what it has just computed? Only if nobody can have kept it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from regard.nn._tell import is_heard

__all__ = ["may_overwrite"]

_LEAST = 2**16  # elements; below, another tensor costs less than asking


def may_overwrite(result: Tensor, made_by: nn.Module) -> bool:
    """Is `result`, which `made_by` has just returned, this module's own to write over?

    Not if it may have a gradient, if somebody listens, or if a hook has seen it.
    """
    return (
        result.numel() >= _LEAST
        and not torch.is_grad_enabled()
        and not is_heard()
        and not hooks._global_forward_hooks
        and not any(part._forward_hooks for part in made_by.modules())
    )
