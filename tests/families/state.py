"""Everything that a watch could leave behind in a model, in PyTorch or in transformers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack


def state_of(model: Any) -> dict[str, Any]:
    """By name, what can be compared with itself later."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    found: dict[str, Any] = {
        "nn.Module.__call__": nn.Module.__call__,
        "scaled_dot_product_attention": F.scaled_dot_product_attention,
        "get_interface": AttentionInterface.get_interface,
        "masks": tuple(AttentionMaskInterface._global_mapping.items()),
        "functions": tuple(
            (name, ALL_ATTENTION_FUNCTIONS[name]) for name in ALL_ATTENTION_FUNCTIONS
        ),
        "modes": tuple(_get_current_function_mode_stack()),
        "gradients": torch.is_grad_enabled(),
        "config": _plain(model.config),
    }
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            found[f"{name}.{key}"] = _comparable(value)
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """The names of what is not as it was."""
    return {
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or before[name] != after[name]
    }


def _plain(config: Any) -> str:
    parts = [getattr(config, name, None) for name in getattr(config, "sub_configs", ())]
    every = [config, *(part for part in parts if part is not None)]
    return "".join(f"{sorted(vars(each).items(), key=lambda item: item[0])!r}" for each in every)


def _comparable(value: Any) -> Any:
    """What is equal to itself alone: numbers by value, tensors and objects by identity."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return tuple((key, _comparable(x)) for key, x in value.items())
    if isinstance(value, Tensor):
        return id(value), value._version
    return id(value)
