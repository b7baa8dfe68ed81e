"""A small model of a family, every number random, in evaluation mode."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from families.corrections import CORRECTIONS
from families.inputs import Inputs, inputs_for
from families.names import classes_of
from families.shrink import Shrink

LARGEST = 40_000_000  # parameters: what is larger is not small


class NotBuilt(Exception):
    """No model of this family can be made here; the message says why."""


class NoModel(Exception):
    """The type names a part of other models."""


@dataclass
class Built:
    """A model, and inputs that it takes."""

    model: Any
    inputs: Inputs
    shrink: str  # "small"; "filled": also what was open; "deep": as wide as it is, of few layers


def build(family: str) -> Built:
    """The first model of a family that can be made, and run on inputs made for it."""
    try:
        kinds = classes_of(family)
    except ImportError as error:
        raise NotBuilt(told(error)) from error
    if not kinds:
        raise NoModel
    problems: list[str] = []
    for config, shrink in _configs(family, problems):
        for kind in kinds[:3]:
            try:
                model = _model(kind, config)
                return Built(model, inputs_for(family, model), shrink)
            except Exception as error:  # noqa: BLE001 — any of transformers', in any of its families
                problems.append(f"{kind.__name__}: {told(error)}")
    raise NotBuilt(problems[0] if problems else "nothing was tried")


def told(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    for package in (
        "timm",
        "scipy",
        "natten",
        "torchaudio",
        "detectron2",
        "torchvision",
        "mamba_ssm",
    ):
        if package in text and isinstance(error, ImportError):
            return f"needs {package}, which is not installed"
    return f"{type(error).__name__}: {text}"[:300]


def _configs(family: str, problems: list[str]) -> Iterator[tuple[Any, str]]:
    from transformers import CONFIG_MAPPING

    kind: Any = CONFIG_MAPPING[family]
    correction = CORRECTIONS.get(family, {})
    for shrink in ("small", "filled", "deep"):
        try:
            default = kind(**correction.get("needs", {}))
            sizes = Shrink(shrink != "deep", fill=shrink == "filled").sizes(default)
            merge(sizes, correction.get("needs", {}))
            merge(sizes, correction.get("sizes", {}))
            yield kind(**sizes), shrink
        except Exception as error:  # noqa: BLE001 — as above
            problems.append(told(error))


def merge(sizes: dict[str, Any], others: dict[str, Any]) -> None:
    """Put `others` over `sizes`, parts into parts."""
    for name, value in others.items():
        if isinstance(value, dict) and isinstance(sizes.get(name), dict):
            merge(sizes[name], value)
        else:
            sizes[name] = value


def _model(kind: type[Any], config: Any) -> Any:
    with torch.device("meta"):
        count = sum(x.numel() for x in kind(config).parameters())
    if count > LARGEST:
        raise NotBuilt(f"{count / 1e6:,.0f} million parameters are left of it")
    torch.manual_seed(7)
    model = kind(config).eval()
    randomize(model)
    return model


@torch.no_grad()
def randomize(model: nn.Module) -> None:
    """Weights that keep what goes through them at its size, so that attention is uneven and every
    layer counts; also where a model starts with a zero, or with a factor of next to nothing."""
    for parameter in model.parameters():
        if not parameter.is_floating_point():
            continue
        if parameter.dim() >= 2:
            inputs = max(parameter.numel() // len(parameter), 1) if len(parameter) else 1
            parameter.normal_(0.0, 1 / math.sqrt(inputs))
        else:
            start = torch.nan_to_num(parameter, 0.0, 0.0, 0.0).clamp(-4, 4)
            parameter.copy_(start + 0.1 * torch.randn_like(parameter))
