"""`regard.monitor`: heads while a model trains, for a loop, for Trainer and for Lightning."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from regard._watch.looking import Looking, looking_at
from regard._watch.monitor import Monitor, Report
from regard._watch.signs import Signs
from regard._watch.watch import check_model


def monitor(
    model: nn.Module,
    every: int = 10,
    *,
    report: Report = None,
    tensorboard: str | Path | None = None,
) -> TrainingMonitor:
    """Look at every n-th step of a training: entropy, largest logit and sink of every head.

    `monitor.step()` stands around forward and backward pass of a step of your own loop; as one of
    the `callbacks` of transformers' `Trainer`, or of Lightning's, it knows itself what a step is.
    Steps that are not looked at run as they would without.

    - `report`: a function, or a file of JSON lines, that gets of each layer {step, layer, entropy,
      max_logit, sink}, lists with a number for each head: the mean entropy in nats, the largest
      logit, and the mean weight on the first token (with that of a learned sink, if there is one)
    - `tensorboard`: a folder for files of events with the same numbers

    A warning names layer, head and step once the entropy of a head is below 2 % of what equal
    weights would have, and once the largest logit of a layer is over 50 and four times that of the
    first step that was looked at.

    >>> import torch
    >>> layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    >>> lines = []
    >>> watching = monitor(layer, every=2, report=lines.append)
    >>> for _ in range(3):
    ...     with watching.step():
    ...         layer(torch.randn(2, 5, 16)).square().mean().backward()
    >>> [line["step"] for line in lines], len(lines[0]["max_logit"])
    ([0, 2], 4)
    """
    check_model("monitor()", model)
    where = Monitor(every, report, "monitor()", tensorboard=tensorboard)
    return TrainingMonitor(looking_at(model), where.every, where.tell, where.close)


class TrainingMonitor:
    """Looks at every n-th step, and tells what was measured of each layer."""

    def __init__(
        self,
        looking: Looking,
        every: int,
        tell: Callable[[int, Mapping[str, Signs]], None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._looking, self._every, self._tell, self._close = looking, every, tell, close
        self._next = 0  # the number of the next step, if nobody gives it
        self._step: int | None = None  # that is being looked at
        self._said: set[str] = set()
        # Trainer tells nobody of an error: then nothing is installed once this goes.
        weakref.finalize(self, looking.stop).atexit = False

    @contextmanager
    def step(self, step: int | None = None) -> Generator[bool]:
        """Around a step, its backward pass included; says whether it is looked at.

        `step` is its number, counted from 0 unless it is given: as after a stop.
        """
        step = self._next if step is None else step
        self._next = step + 1
        if step % self._every:
            yield False
            return
        self._begin(step)
        try:
            yield True
        except BaseException as error:
            self._stop(error)
            raise
        self._end()

    def _begin(self, step: int) -> None:
        self._stop()
        self._looking.begin()
        self._step = step

    def _end(self) -> None:
        """The step is over, if one is being looked at."""
        if self._step is None:
            return
        step, self._step = self._step, None
        found = self._looking.end()
        new = [each for each in self._looking.unseen if each not in self._said]
        if not found and not self._said and not new:
            new = ["no attention was computed in a step, or none that can be seen."]
        if new:
            self._said.update(new)
            warnings.warn("monitor(): " + "\n".join(new), stacklevel=3)
        self._tell(step, found)

    def _stop(self, error: BaseException | None = None) -> None:
        if self._step is not None:
            self._step = None
            self._looking.stop(error)

    def close(self) -> None:
        """The training is over, however it ended: nothing stays installed, files are closed."""
        self._stop()
        self._close()

    # ── transformers.Trainer ──────────────────────────────────────────────────────────────────
    # Its callbacks are known by the names of events, and so are Lightning's: neither asks for a
    # class, and so neither has to be installed.

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """The first process looks, for all."""
        if state.is_world_process_zero and state.global_step % self._every == 0:
            self._begin(state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._end()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._end()

    # ── Lightning ─────────────────────────────────────────────────────────────────────────────

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
        """Of a step that several batches make up, the first is looked at."""
        step = trainer.global_step
        if trainer.is_global_zero and step % self._every == 0 and step >= self._next:
            self._next = step + 1
            self._begin(step)

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        self._end()

    def on_train_batch_end(self, *given: Any) -> None:
        self._end()

    def on_exception(self, trainer: Any, module: Any, error: BaseException) -> None:
        self.close()

    @property
    def state_key(self) -> str:
        """What it would be called in a checkpoint, if it had a state."""
        return f"regard.monitor.{id(self)}"

    _legacy_state_key = state_key

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    # ── both ──────────────────────────────────────────────────────────────────────────────────

    def on_train_end(self, *given: Any, **more: Any) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_") or name in ("setup", "teardown"):
            return _nothing  # an event that changes nothing here
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _nothing(*given: Any, **more: Any) -> None:
    """What is done at most events."""
