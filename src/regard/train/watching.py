"""What is seen of attention while it forms: how broad each head looks, and pictures of where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard._checkpoint.safetensors_file import write_tensors
from regard._extras import need
from regard._files import naming
from regard._followed import PICTURES
from regard._watch import watch
from regard._watch.alarms import Alarms
from regard._watch.looking import Asked
from regard._watch.monitor import by_sign
from regard._watch.signs import Signs
from regard._watch.training import TrainingMonitor
from regard.observation import See
from regard.train.tasks.task import Task

LONGEST = 64  # tokens of a picture


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
        self._task, self._write = task, write
        self._every = task.recipe.watch.every
        self._place = folder / PICTURES
        self._moments = moments(task.recipe.training.steps, task.recipe.watch.pictures)
        self._alarms = Alarms(note)
        self._monitor = TrainingMonitor(Asked(model), self._every, self._tell)

    def step(self, step: int) -> AbstractContextManager[bool]:
        """Around a step that is learned from; says whether it is watched."""
        return self._monitor.step(step) if self._every else nullcontext(False)

    def _tell(self, step: int, layers: Mapping[str, Signs]) -> None:
        self._write({"step": step + 1, **by_sign(layers)})
        self._alarms.hear(step, layers)

    def is_time(self, step: int) -> bool:
        """Is a picture to be taken after so many steps?"""
        return step in self._moments

    def look(self, step: int, model: nn.Module) -> None:
        """Take a picture of where every head looks in one example after so many steps."""
        library = need("train()", "safetensors.torch", "models")
        inputs = {
            name: each[:, :LONGEST] if each.dim() > 1 else each.clamp(max=LONGEST)
            for name, each in self._task.example().items()
        }
        was = model.training
        model.eval()
        with torch.no_grad(), watch(model, See(), keep=("q", "k")) as run:
            model(**inputs)
        model.train(was)
        maps = {name: layer.weights()[0] for name, layer in run.layers.items()}
        halves = {name: each.half() for name, each in maps.items()}
        new = self._place / f".step-{step:09}"
        picture = self._place / f"step-{step:09}.safetensors"
        with naming(picture):
            self._place.mkdir(exist_ok=True)
            try:
                write_tensors(library, halves, new, {"format": "pt"})
                new.rename(picture)
            except BaseException:
                with suppress(OSError):
                    new.unlink()
                raise


def moments(steps: int, count: int) -> set[int]:
    """So many steps to take a picture before, and the end, ever farther apart.

    >>> sorted(moments(1000, 5))
    [0, 16, 125, 422, 1000]
    """
    return {round(steps * (number / max(1, count - 1)) ** 3) for number in range(count)}
