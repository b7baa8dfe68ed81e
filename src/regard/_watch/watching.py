"""`Watching`: a model that is being watched, from the `with` to the finished `Run`."""

from __future__ import annotations

import sys
import threading
import warnings
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard._attention.eager import is_transformed
from regard._watch.call import Call
from regard._watch.fast_paths import add_fast_paths
from regard._watch.functions import Functions, at_work, off_work, settle
from regard._watch.hugging_face import HuggingFace
from regard._watch.interventions import Interventions, LayerName
from regard._watch.modules import Hooks, ModuleCall, Modules, Running, main_tensor, may_attend
from regard._watch.monitor import Monitor
from regard._watch.recording import Recording, is_backward
from regard._watch.residual_stream import ResidualStream
from regard._watch.tokens import TokenIds
from regard._watch.unseen import Unseen
from regard.observation import See
from regard.run import Run


class Watching:
    _lock = threading.RLock()
    _active: ClassVar[list[Watching]] = []
    _stance: ClassVar[Any] = None  # of PyTorch's compiler, which is to be put back

    def __init__(
        self,
        model: nn.Module,
        see: See,
        keep: frozenset[str],
        layers: tuple[LayerName, ...] | None,
        tokenizer: Any,
        text: str | list[str] | None,
        interventions: Interventions,
        monitor: Monitor | None,
        is_asked: bool,
    ) -> None:
        names = {name for name, _ in model.named_modules(remove_duplicate=False)}
        interventions.check_names({name or type(model).__name__ for name in names})
        self._model = model
        self._keep = keep
        self._tokenizer = tokenizer
        self._interventions = interventions
        self._monitor = monitor
        self._run = Run(model=type(model).__name__, text=text, see=see)
        self._modules = Modules(model)
        self._unseen = Unseen(model)
        self._token_ids = TokenIds(model, names)
        self._recording = Recording(
            model, see, keep, layers, interventions, self._token_ids, is_asked, monitor is None
        )
        self._passes = 0
        self._has_run = False  # any module of it
        self._output: Tensor | None = None
        self._entered = self._released = False
        self._mode = Functions(self._modules, self._attend, self._unseen)
        self._hugging_face = HuggingFace.of(model, self._modules, self._attend, self._unseen)
        self._hooks = Hooks()
        add_fast_paths(self._hooks, model, self._mode)
        self._residual_stream: ResidualStream | None = None
        if "hidden_states" in keep:
            self._residual_stream = ResidualStream(self._hooks, model, self._recording.names_in)
        for _, module in may_attend(model):
            self._hooks.add(module, partial(self._around_module, self._modules.of(module)))
        self._hooks.add(model, self._around_model)

    # ── in and out ────────────────────────────────────────────────────────────────────────────

    def enter(self) -> Run:
        if self._entered:
            raise RuntimeError(
                "watch(): each one can be entered once; got a second time. Call watch(…) again."
            )
        self._entered = True
        try:
            with self._lock:
                for other in self._active:
                    if other._modules.by_id.keys() & self._modules.by_id.keys():
                        raise RuntimeError(
                            "watch(): a module can be watched by one at a time; it is being "
                            "watched already. Leave the other with first."
                        )
                self._active.append(self)
                self._run_uncompiled()
            if self._hugging_face is not None:
                self._hugging_face.enter()
            self._hooks.enter()
            self._mode.enter()
            return self._run
        except BaseException:
            self._put_back()
            raise

    def leave(self, error: BaseException | None) -> None:
        """Look no more, and finish the run; in silence, if an error is on its way."""
        try:
            settle(None if error is None else error.__traceback__)
        finally:
            self._put_back()
        self._finish(quiet=error is not None)

    def _put_back(self) -> None:
        try:
            self.release()
        finally:
            self.release()  # what an interrupt has left undone

    def release(self) -> None:
        """Put everything back. Each part of it can be done twice."""
        if self._released or not self._entered:
            return
        self._mode.leave()
        with self._lock:
            if self in self._active:
                self._active.remove(self)
            if not self._active:
                off_work()
                self._run_compiled()
        self._hooks.leave()
        if self._hugging_face is not None:
            self._hugging_face.leave()
        self._released = True

    @staticmethod
    def _run_uncompiled() -> None:
        """Nothing is compiled as long as dynamo is not imported, which takes long."""
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        if dynamo is not None:
            if Watching._stance is None:
                Watching._stance = dynamo._stance
            torch.compiler.set_stance("force_eager")

    @staticmethod
    def _run_compiled() -> None:
        if Watching._stance is not None:
            sys.modules["torch._dynamo.eval_frame"]._set_stance(Watching._stance)
            Watching._stance = None

    # ── while the model runs ──────────────────────────────────────────────────────────────────

    def _around_module(self, known: Running, call: ModuleCall) -> Any:
        """Around every module that may attend: it is on the stack while it runs."""
        stack = self._modules.stack
        depth = len(stack)
        has_entered = False
        try:
            if not depth:
                self._has_run = True
                self._recording.begin_pass()
                if not self._mode.is_entered:
                    # Another thread, or what is computed once more on the way back.
                    has_entered = True
                    self._mode.enter()
            stack.append(known.called(call))
            return call.run()
        finally:
            del stack[depth:]
            if has_entered:
                self._mode.leave()

    def _around_model(self, call: ModuleCall) -> Any:
        """Around the model itself: a pass of it."""
        self._passes += 1
        self._token_ids.take(call.args, call.kwargs)
        if self._monitor is not None:
            self._monitor.begin()
        output = call.run()
        if "output" in self._keep:
            found = main_tensor(output)
            self._output = None if found is None else found.clone()
        if self._monitor is not None and self._monitor.is_on and not is_backward():
            try:
                self._monitor.end(self._recording.close())
            finally:
                self._recording.clear()
        return output

    def _attend(self, running: Running, call: Call) -> tuple[Tensor, Call]:
        """The output, and the call as it was computed."""
        if is_transformed():
            raise RuntimeError(
                "watch(): torch.func transforms (vmap, grad) of a watched model are not "
                "implemented. Call the model itself."
            )
        is_on = self._monitor is None or self._monitor.is_on
        is_watched = is_on and not is_backward()
        return self._mode.aside(at_work, self._recording.attend, running, call, is_watched)

    # ── when it ends ──────────────────────────────────────────────────────────────────────────

    def _finish(self, quiet: bool) -> None:
        run, recording = self._run, self._recording
        run.layers = recording.close()
        last = self._token_ids.last
        run.token_ids = None if last is None else last.ids
        run.output = self._output
        if self._residual_stream is not None:
            run.hidden_states, run.between = self._residual_stream.found()
        run.notes += recording.notes
        run.notes += [note for layer in run.layers.values() for note in layer.notes]
        if self._monitor is not None:
            self._monitor.close()
        if not quiet:
            try:
                recording.name_tokens(run, self._tokenizer)
            except Exception as error:  # noqa: BLE001 — it takes nothing with it but the names
                run.notes.append(
                    f"tokens: not named. The tokenizer failed: {type(error).__name__}: {error} "
                    "A fast tokenizer (use_fast=True) can say where its tokens stand in a text."
                )
        run.notes += [*recording.not_found(), *self._not_kept()]
        run.unseen = self._unseen.sentences(recording.names)
        if not run.unseen and not recording.names and self._hugging_face is not None:
            run.unseen = self._hugging_face.refused()
        problems = [*run.unseen, *run.notes, *self._interventions.unused()]
        if self._monitor is not None:
            if not self._monitor.lines:
                problems.append(
                    "nothing was reported: no attention was computed in a step of the model that "
                    "was looked at. A step is one call of the model that is watched."
                )
        elif not recording.names and not run.unseen:
            problems.append(
                "no attention was computed inside the with"
                + (", or none that can be seen." if self._has_run else ". Call the model there.")
            )
        if problems and not quiet:
            warnings.warn("watch(): " + "\n".join(problems), stacklevel=4)

    def _not_kept(self) -> list[str]:
        """What was to be kept and is not there."""
        notes: list[str] = []
        if self._keep & {"hidden_states", "output"} and self._passes > 1 and self._monitor is None:
            notes.append(
                f"hidden_states and output: of the last of {self._passes} passes only. "
                "One pass inside the with has all."
            )
        if "hidden_states" in self._keep and not self._run.hidden_states and self._run.layers:
            notes.append(
                "hidden_states: none. Blocks are known by standing in a list (nn.ModuleList, "
                "nn.Sequential), and none of these holds attention."
            )
        return notes
