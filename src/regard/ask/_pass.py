"""One more pass of the text of a run, for what is asked of its model besides."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard._watch import watch
from regard.ask._see import each_block
from regard.observation import See

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from regard._watch.interventions import Link
    from regard.models import Loaded, Reading
    from regard.run import Run


@dataclass(frozen=True, eq=False)
class Again:
    """What a run was made from: `loaded` read `reading`, without the heads of `ablated`."""

    loaded: Loaded
    reading: Reading
    ablated: dict[str, list[int]]

    def logits(
        self,
        position: int,
        hooks: Iterable[AbstractContextManager[object]] = (),
        without: tuple[str, int] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Tensor:
        """The logits (vocabulary,) after one position, from a pass inside of `hooks`, and `without`
        a head: (the name of its layer, its number).
        """
        with ExitStack() as stack:  # first of all, so that no hook is left behind
            for hook in hooks:
                stack.enter_context(hook)
            return self._logits(position, without, progress)

    def _logits(
        self,
        position: int,
        without: tuple[str, int] | None,
        progress: Callable[[int, int], None] | None,
    ) -> Tensor:
        ablated = {name: list(heads) for name, heads in self.ablated.items()}
        if without is not None:
            layer, head = without
            ablated[layer] = sorted({*ablated.get(layer, ()), head})
        rows, _ = self._pass([position], See(), ablated, (), (), progress)
        return rows[0]

    def rows(
        self,
        positions: Sequence[int],
        see: See | None = None,
        *,
        blocked: Iterable[int] = (),
        keep: Iterable[str] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[Tensor, Run]:
        """The logits (positions, vocabulary) of a pass in which no query sees the `blocked` keys,
        and what was seen in it.
        """
        links: list[Link] = [("*", None, None, key) for key in blocked]
        look = See() if see is None else see
        return self._pass(list(positions), look, self.ablated, links, keep, progress)

    def _pass(
        self,
        positions: list[int],
        see: See,
        ablated: dict[str, list[int]],
        links: Iterable[Link],
        keep: Iterable[str],
        progress: Callable[[int, int], None] | None,
    ) -> tuple[Tensor, Run]:
        model: Any = self.loaded.model
        taken = inspect.signature(model.forward).parameters
        settings = {"use_cache": False, "logits_to_keep": torch.tensor(positions)}
        inputs: dict[str, Any] = {
            **self.loaded.batch([self.reading]),
            **{name: value for name, value in settings.items() if name in taken},
        }
        watching: Any = {"ablate": ablated or None, "block": links, "keep": keep}
        telling = nullcontext() if progress is None else each_block(model, progress)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were told of the run itself
            with watch(model, see, **watching) as run, torch.no_grad(), telling:
                output = model(**inputs)
        logits = output if isinstance(output, Tensor) else output.logits
        if logits.shape[1] != len(positions) or "logits_to_keep" not in taken:
            logits = logits[:, positions]
        return logits[0].detach(), run


def row(x: Tensor, position: int) -> int:
    """Where a position stands in x (1, N, …), which may be of that position alone."""
    return 0 if x.shape[1] == 1 else position


def again_of(call: str, run: Run, model: Loaded | None) -> Again:
    """What a run was made from. Raises ValueError if it does not know its model, or if `model` does
    not read its text as the run has it.
    """
    again = run.again
    loaded: Loaded | None = model
    if loaded is None and again is not None:
        loaded = again.args[0]
    if loaded is None or (again is None and not isinstance(run.text, str)):
        name = call.removesuffix("()")
        raise ValueError(
            f"{call}: the run must know its model, and be of one text; got one from a disk, or of "
            f"regard.watch. Give it the model: run.{name}(…, model=regard.models.load(name))."
        )
    reading: Any = None if again is None else again.args[1]
    if again is None or (model is not None and model is not again.args[0]):
        reading = loaded.reader().read(run.text if reading is None else reading.text, call[:-2])
    keys = [layer.shape[3] for layer in run.layers.values()]
    if not keys or len(reading.ids) != keys[-1]:
        n = keys[-1] if keys else 0
        raise ValueError(
            f"{call}: model must be the one of the run, which has {n} tokens; "
            f"got {loaded.name}, which reads {len(reading.ids)}. See the text with it once more."
        )
    return Again(loaded, reading, run.ablated)
