"""AdamW, the learning rate at each step, random states: what a checkpoint has beside weights."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.train.settings import Optimizer, Schedule, Training

_STATES = ("exp_avg", "exp_avg_sq", "step")


def make_optimizer(model: nn.Module, settings: Optimizer) -> torch.optim.AdamW:
    """AdamW over a model's weights, each once; only matrices decay: no norm, no bias."""
    weights = [each for each in model.parameters() if each.requires_grad]
    groups = [
        {"params": [each for each in weights if each.dim() >= 2]},
        {"params": [each for each in weights if each.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def learning_rate(step: int, optimizer: Optimizer, schedule: Schedule, training: Training) -> float:
    """The learning rate of a step, the first being 0.

    >>> settings = Optimizer(learning_rate=1.0), Schedule(warmup=4), Training(steps=10, batch=1)
    >>> [round(learning_rate(step, *settings), 3) for step in (0, 3, 4, 7, 9)]
    [0.25, 1.0, 0.94, 0.325, 0.1]
    """
    most, warmup = optimizer.learning_rate, schedule.warmup
    if step < warmup:
        return most * (step + 1) / warmup
    if schedule.kind == "constant":
        return most
    if schedule.kind == "inverse-sqrt":
        return most * math.sqrt(max(warmup, 1) / (step + 1))
    share = min(1.0, (step + 1 - warmup) / max(1, training.steps - warmup))
    least = most * schedule.least
    return least + (most - least) * 0.5 * (1.0 + math.cos(math.pi * share))


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser by the names of the weights."""
    return {
        f"{kind}.{name}": optimizer.state[weight][kind]
        for name, weight in model.named_parameters()
        if weight in optimizer.state
        for kind in _STATES
    }


def restore_optimizer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
    piece: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """Put back what `optimizer_tensors` gave, of each tensor the `piece` that belongs to a weight.

    Raises ValueError if it is of another model.
    """
    for name, weight in model.named_parameters():
        if any(f"{kind}.{name}" not in tensors for kind in _STATES):
            raise ValueError(f"train(): the optimiser's state must have {name}; got none of it.")
        kept = {kind: tensors[f"{kind}.{name}"] for kind in _STATES}
        if kept["exp_avg"].shape != weight.shape:
            raise ValueError(f"train(): the optimiser's state of {name} has another shape.")
        optimizer.state[weight] = {kind: piece(weight, each) for kind, each in kept.items()}


# ── random states ─────────────────────────────────────────────────────────────────────────────


def random_states() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Those of PyTorch as a tensor, those of NumPy and Python as JSON has them."""
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002, as others draw from it
    version, numbers, gauss = random.getstate()
    described = {
        "numpy": [str(kind), np.asarray(keys).tolist(), *rest],
        "python": [version, list(numbers), gauss],
    }
    return {"random.torch": torch.get_rng_state()}, described


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


@contextlib.contextmanager
def own_random() -> Generator[None]:
    """What is drawn inside the `with` is not felt outside of it."""
    before = random_states()
    try:
        yield
    finally:
        restore_random(*before)


def restore_random(tensors: Mapping[str, Tensor], described: Mapping[str, Any]) -> None:
    torch.set_rng_state(tensors["random.torch"])
    kind, keys, *rest = described["numpy"]
    np.random.set_state((kind, np.array(keys, np.uint32), *rest))  # noqa: NPY002
    version, numbers, gauss = described["python"]
    random.setstate((version, tuple(numbers), gauss))
