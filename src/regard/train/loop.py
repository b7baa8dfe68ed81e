"""The loop: batch, loss, gradient, step; what is logged, evaluated and saved in between."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from regard._tensorboard import TENSORBOARD, Events
from regard.nn import Model
from regard.train import checkpoint
from regard.train.batches import Batch, torch_seed
from regard.train.diverged import Diverged, first_gradient, first_not_finite
from regard.train.log import LOG, Log, NoLog
from regard.train.memory import kept_memory
from regard.train.optimizer import (
    learning_rate,
    make_optimizer,
    optimizer_tensors,
    own_random,
    random_states,
    restore_optimizer,
    restore_random,
    seed_all,
)
from regard.train.ranks import Ranks
from regard.train.settings import Wrong
from regard.train.stopping import stopping
from regard.train.store import DATA_FILES, hash_of
from regard.train.tasks.task import Task, evaluate, summed_loss
from regard.train.watching import Watching

CHECKPOINTS = "checkpoints"
_FLUSHED = 2.0  # seconds after which the log can be read by others


@dataclass
class Progress:
    """How far a training is: what a watcher is told after each step."""

    step: int  # that are done
    steps: int
    loss: float
    rate: float  # tokens a second
    left: float  # seconds
    scores: dict[str, float] | None = None  # of an evaluation that has just been made
    saved: bool = False


@dataclass
class Outcome:
    """What a training came to."""

    step: int
    best: dict[str, float] | None
    ended: str  # "done", "patience", or the name of a signal
    scores: dict[str, float] = field(default_factory=dict)


@dataclass
class _State:
    """What changes from step to step, beside weights and the optimiser."""

    step: int = 0
    log: int = 0
    best: dict[str, float] | None = None
    worse: int = 0
    scores: dict[str, float] = field(default_factory=dict)


def build(task: Task) -> Model:
    """A model of the task, its weights as the recipe's seed draws them."""
    config = task.config()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(task.recipe.seed, 0))
        return Model._kinds[type(config)](config)


def train(
    task: Task,
    folder: Path,
    tell: Callable[[Progress], None] = lambda progress: None,
    note: Callable[[str], None] = lambda text: None,
    ranks: Ranks | None = None,
) -> Outcome:
    """Train in a folder, from its newest whole checkpoint on, if there is one."""
    with own_random(), kept_memory(), stopping(note) as stop:
        trainer = Trainer(task, folder, note, ranks)
        return trainer.run(tell, lambda: stop.asked)


class Trainer:
    """A model, its optimiser, and where they are in the course of a recipe."""

    def __init__(
        self,
        task: Task,
        folder: Path,
        note: Callable[[str], None] = lambda text: None,
        ranks: Ranks | None = None,
    ) -> None:
        self.task, self.recipe, self.folder = task, task.recipe, folder
        self._ranks = ranks or Ranks()
        self._parts = self.recipe.training.accumulate * self._ranks.count
        if self.recipe.training.batch % self._parts:
            raise Wrong(
                f"recipe [training]: batch must be a multiple of accumulate × processes, "
                f"{self._parts}; got {self.recipe.training.batch}."
            )
        self._place = folder / CHECKPOINTS
        self._place.mkdir(parents=True, exist_ok=True)
        step = self._ranks.told(lambda: _step_of(checkpoint.newest(self._place, note)))
        saved = None if step is None else checkpoint.check(self._place / f"step-{step:09}")
        self._is_new = saved is None
        self.state = _State()
        self.model = build(task) if saved is None else saved.model()
        self.model.train()
        self._forward = self._ranks.share(self.model)
        self._weights = list(self.model.parameters())
        self._optimizer = make_optimizer(self.model, self.recipe.optimizer)
        if saved is None:
            seed_all(torch_seed(self.recipe.seed, 7))
        else:
            self._restore(saved)
        self._log = Log(folder / LOG, self.state.log) if self._ranks.is_first else NoLog()
        if self._log.is_short:
            note(f"{LOG} is shorter than it was: lines of earlier steps are missing in it")
        self._events = None
        if self.recipe.watch.tensorboard and self._ranks.is_first:
            self._events = Events(folder / TENSORBOARD, self.state.step)
        self._watching = Watching(task, self.model, folder, self._write, note)
        if self.recipe.training.compile:
            self._forward = cast("nn.Module", torch.compile(self._forward))
        self._twin: Model | None = None

    def _restore(self, saved: checkpoint.Saved) -> None:
        if saved.state["recipe"] != self.recipe.hash:
            raise ValueError(
                f"train(): {saved.folder} must be of this recipe; got that of another one."
            )
        for name, digest in saved.state["data"].items():
            if hash_of(self.folder / name) != digest:
                raise ValueError(
                    f"train(): {self.folder / name} must be the one that the run has learned from; "
                    "got another. Put it back."
                )
        tensors = saved.tensors()
        restore_optimizer(self.model, self._optimizer, tensors, self._ranks.pieces)
        restore_random(tensors, saved.state["random"])
        of = saved.state
        self.state = _State(saved.step, of["log"], of["best"], of["worse"], of["scores"])

    # ── one step after the other ─────────────────────────────────────────────────────────────

    def run(self, tell: Callable[[Progress], None], stopped: Callable[[], str | None]) -> Outcome:
        settings, state = self.recipe.training, self.state
        ended = "done"
        flushed = began = time.perf_counter()
        first, tokens = state.step, 0

        def tired() -> bool:
            return 0 < settings.patience <= state.worse

        try:
            if self._is_new:
                self._save()
            if tired():
                ended = "patience"
            while state.step < settings.steps and not tired():
                self._look()
                batch = self.task.batch(state.step)
                loss, asks = self.learn(batch, stopped)
                tokens += batch.count
                now = time.perf_counter()
                rate = tokens / (now - began)
                each = (now - began) / (state.step - first)
                told = Progress(
                    state.step, settings.steps, loss, rate, each * (settings.steps - state.step)
                )
                last = state.step == settings.steps
                better = False
                if state.step % settings.evaluate == 0 or last:
                    told.scores, better = self._evaluate()
                asked = (stopped() or "a signal") if asks else None
                if better or state.step % settings.save == 0 or last or asked or tired():
                    self._save()
                    told.saved = True
                elif now - flushed > _FLUSHED:
                    self._flush()
                    flushed = now
                tell(told)
                if asked or tired():
                    ended = asked or "patience"
                    break
            if state.step == settings.steps:
                self._look()
        finally:
            self._log.close()
            if self._events is not None:
                self._events.close()
        return Outcome(state.step, state.best, ended, state.scores)

    def learn(
        self, batch: Batch, stopped: Callable[[], str | None] = lambda: None
    ) -> tuple[float, bool]:
        """One step: its loss over all processes, and whether any of them was asked to stop."""
        loss = self._step(batch)
        loss, asks = self._agree(batch, loss, stopped())
        self.state.step += 1
        return loss, asks

    def _step(self, batch: Batch) -> float:
        """Have the gradient of one batch; the loss of what this process has of it."""
        settings, recipe, ranks = self.recipe.training, self.recipe, self._ranks
        step, total = self.state.step, 0.0
        with ExitStack() as inside:
            if settings.autocast != "none":
                inside.enter_context(torch.autocast("cpu", torch.bfloat16))
            if ranks.is_first and settings.compile:
                self._watch_apart(step, batch)
            elif ranks.is_first:
                inside.enter_context(self._watching.step(step))
            for number in range(settings.accumulate):
                place = number * ranks.count + ranks.rank
                part = batch.part(place, self._parts)
                # That of the CPU alone: torch.manual_seed looks for devices, 0.2 ms each time.
                torch.default_generator.manual_seed(torch_seed(recipe.seed, 5, step, place))
                with ranks.quiet(self._forward, number + 1 == settings.accumulate):
                    loss = summed_loss(self._forward, part, settings.label_smoothing)
                    # Gradients of several processes are averaged; they shall be added up.
                    (loss * (ranks.count / batch.count)).backward()
                total += float(loss.detach()) / batch.count
        return total

    def _watch_apart(self, step: int, batch: Batch) -> None:
        """Look at a step of a compiled model by another pass: looking would compile it anew."""
        if self._ranks.strategy == "fsdp":
            return  # other processes would have to take part
        with self._watching.step(step) as is_on:
            if is_on:
                with torch.no_grad():
                    self.model(**batch.part(0, self._parts).inputs)

    def _agree(self, batch: Batch, loss: float, asked: str | None) -> tuple[float, bool]:
        """Take the step; the loss over all processes, and whether any was asked to stop."""
        step, recipe = self.state.step, self.recipe
        total, asks = self._ranks.summed(loss, float(asked is not None))
        gradients = [each.grad for each in self._weights if each.grad is not None]
        length = nn.utils.get_total_norm(gradients)
        norm = float(self._ranks.whole({"": length})[""])
        if not (_finite(total) and _finite(norm)):
            where = first_not_finite(self._whole(), batch) or first_gradient(self.model)
            where = where or "nothing else that is not finite was found"
            self._log.write({"step": step + 1, "diverged": where})
            self._log.sync()
            raise Diverged(step, total, where)
        if (most := recipe.optimizer.clip) and norm + 1e-6 > most:  # else it is a product by 1
            nn.utils.clip_grads_with_norm_(self._weights, most, length)
        rate = learning_rate(step, recipe.optimizer, recipe.schedule, recipe.training)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        line = {"step": step + 1, "loss": total, "learning_rate": rate, "gradient": norm}
        self._write(line)
        return total, asks > 0

    def _write(self, line: dict[str, Any]) -> None:
        self._log.write(line)
        if self._events is not None:
            self._events.add(line)

    def _flush(self) -> None:
        self._log.flush()
        if self._events is not None:
            self._events.flush()

    # ── what stands beside the steps ─────────────────────────────────────────────────────────

    def _whole(self) -> Model:
        """The model with all of its weights: itself, unless each process has a piece of them."""
        if self._ranks.strategy != "fsdp" or self._ranks.count == 1:
            return self.model
        state = self._ranks.whole(dict(self.model.named_parameters()))
        if self._twin is None:
            self._twin = build(self.task)
        with torch.no_grad():
            for name, weight in self._twin.named_parameters():
                weight.copy_(state[name])
        return self._twin

    def _look(self) -> None:
        if self._watching.is_time(self.state.step):
            model = self._whole()
            if self._ranks.is_first:
                self._watching.look(self.state.step, model)

    def _evaluate(self) -> tuple[dict[str, float], bool]:
        """The scores on what was kept aside, and whether they are the best so far."""
        state, model = self.state, self._whole()
        state.scores = self._ranks.told(lambda: evaluate(self.task, model))
        self._write({"step": state.step, "validation": state.scores})
        loss = state.scores["loss"]
        better = _finite(loss) and (state.best is None or loss < state.best["loss"])
        if better:
            state.best = {"step": state.step, **state.scores}
        state.worse = 0 if better else state.worse + 1
        return state.scores, better

    def _save(self) -> None:
        state, model = self.state, self._whole()
        tensors, described = random_states()
        tensors |= self._ranks.whole(optimizer_tensors(self.model, self._optimizer))
        if state.step == 0:
            tensors |= _untouched(model)
        content = {
            "recipe": self.recipe.hash,
            "data": {name: hash_of(self.folder / name) for name in DATA_FILES},
            "log": self._log.sync(),
            "best": state.best,
            "worse": state.worse,
            "scores": state.scores,
            "random": described,
            "versions": {each: importlib.metadata.version(each) for each in ("regard", "torch")},
        }

        def write() -> None:
            checkpoint.save(self._place, state.step, model, tensors, content)
            best = None if state.best is None else int(state.best["step"])
            checkpoint.sweep(self._place, self.recipe.training.keep, state.step, best)

        self._ranks.told(write)


def _step_of(saved: checkpoint.Saved | None) -> int | None:
    return None if saved is None else saved.step


def _untouched(model: nn.Module) -> dict[str, Any]:
    """The state that AdamW begins with, which it makes at its first step."""
    found: dict[str, Any] = {}
    for name, weight in model.named_parameters():
        found[f"exp_avg.{name}"] = torch.zeros_like(weight)
        found[f"exp_avg_sq.{name}"] = torch.zeros_like(weight)
        found[f"step.{name}"] = torch.tensor(0.0)
    return found


def _finite(x: float) -> bool:
    return x - x == 0.0
