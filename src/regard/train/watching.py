"""What is seen of attention while it forms: how broad each head looks, and pictures of where."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard._checkpoint.safetensors_file import write_tensors
from regard._extras import need
from regard._watch import watch
from regard.observation import See
from regard.train.tasks.task import Task

PICTURES = "pictures"
_LONGEST = 64  # tokens of a picture


class Watching:
    """Looks at some steps; what it sees goes to the log, and never into the result."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        folder: Path,
        write: Callable[[dict[str, Any]], None],
        note: Callable[[str], None],
    ) -> None:
        self._task, self._model, self._write, self._note = task, model, write, note
        self._every = task.recipe.watch.every
        self._place = folder / PICTURES
        self._moments = moments(task.recipe.training.steps, task.recipe.watch.pictures)

    @contextmanager
    def step(self, step: int) -> Generator[None]:
        """Around a step that is learned from."""
        if not self._every or step % self._every:
            yield
            return
        entropies: dict[str, Any] = {}

        def report(line: dict[str, Any]) -> None:
            entropies[line["layer"]] = line["entropy"]

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with watch(self._model, See(entropy=True), every=1, report=report):
                yield
        self._write({"step": step + 1, "entropy": entropies})
        for warning in caught:
            self._note(str(warning.message).removeprefix("watch(): "))

    def is_time(self, step: int) -> bool:
        """Is a picture to be taken after so many steps?"""
        return step in self._moments

    def look(self, step: int, model: nn.Module) -> None:
        """Take a picture of where every head looks in one example after so many steps."""
        library = need("train()", "safetensors.torch", "models")
        inputs = {
            name: each[:, :_LONGEST] if each.dim() > 1 else each.clamp(max=_LONGEST)
            for name, each in self._task.example().items()
        }
        was = model.training
        model.eval()
        with torch.no_grad(), watch(model, See(), keep=("q", "k")) as run:
            model(**inputs)
        model.train(was)
        maps = {name: layer.weights()[0] for name, layer in run.layers.items()}
        self._place.mkdir(exist_ok=True)
        new = self._place / f".step-{step:09}"
        write_tensors(
            library, {name: each.half() for name, each in maps.items()}, new, {"format": "pt"}
        )
        new.rename(self._place / f"step-{step:09}.safetensors")


def moments(steps: int, count: int) -> set[int]:
    """So many steps to take a picture before, and the end, ever farther apart.

    >>> sorted(moments(1000, 5))
    [0, 16, 125, 422, 1000]
    """
    return {round(steps * (number / max(1, count - 1)) ** 3) for number in range(count)}
