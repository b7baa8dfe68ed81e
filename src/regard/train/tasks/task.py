"""What is learned: where batches come from, what model they need, and how well it does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.config import StackConfig
from regard.train.batches import Batch
from regard.train.recipe import Recipe
from regard.train.tokens import IGNORED

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Task(ABC):
    """The base of all tasks. It is made of a recipe, and of a folder with its prepared data."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer

    @property
    def vocabulary(self) -> int:
        return self.tokenizer.get_vocab_size()

    def config(self) -> StackConfig:
        """The config of the model that it needs."""
        return self.recipe.config(vocabulary=self.vocabulary)

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """What is learned from at this step."""

    @abstractmethod
    def validation(self) -> Iterator[Batch]:
        """What was kept aside, all of it, always the same."""

    def scores(self, model: nn.Module) -> dict[str, float]:
        """How well a model in evaluation mode does beside its loss: by names, each a share."""
        return {}

    def samples(self, model: nn.Module, count: int) -> list[dict[str, str]]:
        """What a model makes of some of what was kept aside."""
        return []

    @abstractmethod
    def example(self) -> dict[str, Any]:
        """One sequence to look at: the model's inputs, by names, of one row each."""


def summed_loss(model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """−ln p of each target, summed over those that count."""
    logits = model(**batch.inputs)
    return functional.cross_entropy(
        logits.flatten(0, -2).float() if logits.dim() > 2 else logits.float(),
        batch.targets.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=smoothing,
    )


@torch.no_grad()
def evaluate(task: Task, model: nn.Module) -> dict[str, float]:
    """The mean loss over what was kept aside, and the task's own scores."""
    was = model.training
    model.eval()
    total = count = 0.0
    for batch in task.validation():
        total += float(summed_loss(model, batch))
        count += batch.count
    found = {"loss": total / max(count, 1.0), **task.scores(model)}
    model.train(was)
    return found
