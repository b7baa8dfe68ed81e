"""What is seen of attention while it forms: how broad each head looks, and pictures of where."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard._attention import Options
from regard._attention.options import Window
from regard._checkpoint.safetensors_file import write_tensors
from regard._extras import need
from regard._files import naming
from regard._followed import PICTURES
from regard._watch import watch
from regard._watch.monitor import COLLAPSED, collapse
from regard.nn import MultiHeadAttention
from regard.observation import Observation, See
from regard.train.tasks.task import Task

LONGEST = 64  # tokens of a picture


class Watching:
    """Looks at some steps; what it sees goes to the log, and never into the result."""

    see = See(entropy=True)

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        folder: Path,
        write: Callable[[dict[str, Any]], None],
        note: Callable[[str], None],
    ) -> None:
        self._task, self._write, self._note = task, write, note
        self._every = task.recipe.watch.every
        self._place = folder / PICTURES
        self._moments = moments(task.recipe.training.steps, task.recipe.watch.pictures)
        self._layers = {
            module: name
            for name, module in model.named_modules()
            if isinstance(module, MultiHeadAttention)
        }
        self._taken: dict[str, list[Tensor]] = {}
        self._collapsed: set[tuple[str, int]] = set()

    @contextmanager
    def step(self, step: int) -> Generator[bool]:
        """Around a step that is learned from; says whether it is watched.

        The modules are asked themselves: what `regard.watch` does to see any model costs more than
        a small step may.
        """
        if not self._every or step % self._every:
            yield False
            return
        self._taken = {}
        for module in self._layers:
            module.watcher = self
        try:
            yield True
        finally:
            for module in self._layers:
                del module.watcher
        entropies: dict[str, list[float | None]] = {}
        for name, several in self._taken.items():
            total = torch.stack(several).sum(0) if len(several) > 1 else several[0]
            rows = total.T.tolist()  # of each head
            entropies[name] = [_mean(each, count) for each, count, _, _ in rows]
            for head, (_, _, share, count) in enumerate(rows):
                self._warn(step, name, head, entropies[name][head], _mean(share, count))
        self._write({"step": step + 1, "entropy": entropies})

    def take(
        self,
        module: nn.Module,
        seen: Observation,
        options: Options,
        shape: tuple[int, int, int, int],
        *,
        is_cross: bool,
    ) -> None:
        """Of each head the sum of its entropies, and of their shares of what equal weights would
        have, each with how many they are: (4, H). Padding counts in none of them.
        """
        assert isinstance(module, MultiHeadAttention)
        assert seen.entropy is not None
        batch, heads, n_queries, _ = shape
        entropy, lengths = seen.entropy, options.lengths
        if options.mask is options.bias is lengths is None:
            inverse, count = _of_equal(options.causal, options.window, n_queries, shape[3])
            sums = [entropy.sum((0, 2), dtype=torch.float64), (entropy * inverse).sum((0, 2))]
            counts = (x * torch.ones(heads) for x in (batch * n_queries, batch * count))
        else:
            use = seen.lse > -math.inf
            if lengths is not None and not is_cross:
                use = use & (torch.arange(n_queries) < lengths[:, None])[:, None]
            most = options.count(shape, entropy.device).clamp(min=1).double().log()
            both = use, use & (most > 0)
            shares = entropy.double() / most
            sums = [
                torch.where(which, x, 0.0).sum((0, 2))
                for which, x in zip(both, (entropy.double(), shares), strict=True)
            ]
            counts = (which.sum((0, 2)) for which in both)
        found = torch.stack(
            [each.double() for pair in zip(sums, counts, strict=True) for each in pair]
        )
        self._taken.setdefault(self._layers[module], []).append(found)

    def _warn(
        self, step: int, name: str, head: int, entropy: float | None, spread: float | None
    ) -> None:
        if entropy is None or spread is None or spread >= COLLAPSED:
            return
        if (name, head) not in self._collapsed:
            self._collapsed.add((name, head))
            self._note(collapse(name, head, step, entropy, spread))

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


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


@lru_cache(64)
def _of_equal(
    causal: bool, window: Window | None, n_queries: int, n_keys: int
) -> tuple[Tensor, int]:
    """One over the entropy of equal weights, of each query, 0 where that is 0; and how many are
    not.
    """
    shape = (1, 1, n_queries, n_keys)
    counts = Options(causal, window).count(shape, torch.device("cpu"))[0, 0]
    most = counts.clamp(min=1).double().log()
    return torch.where(most > 0, 1 / most, 0.0), int((most > 0).sum())


def moments(steps: int, count: int) -> set[int]:
    """So many steps to take a picture before, and the end, ever farther apart.

    >>> sorted(moments(1000, 5))
    [0, 16, 125, 422, 1000]
    """
    return {round(steps * (number / max(1, count - 1)) ** 3) for number in range(count)}
