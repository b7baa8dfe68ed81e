"""`Watching`: a model that is being watched, from the `with` to the finished `Run`."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard._attention.eager import is_transformed
from regard._watch import sharing
from regard._watch.call import Call
from regard._watch.check import Check
from regard._watch.fast_paths import fast_paths
from regard._watch.functions import Functions, off_work, settle
from regard._watch.hugging_face import HuggingFace
from regard._watch.modules import OTHER_SEQUENCE, Function, Modules, Running, install, main_tensor
from regard._watch.recording import Recording
from regard._watch.residual_stream import ResidualStream
from regard._watch.unseen import Unseen
from regard.run import Run


class Watching:
    _lock = threading.RLock()
    _active: ClassVar[list[Watching]] = []
    _stance: ClassVar[Any] = None  # of PyTorch's compiler, which is to be put back

    def __init__(
        self,
        model: nn.Module,
        recording: Recording,
        text: str | list[str] | None,
        check: bool = False,
    ) -> None:
        self._recording = recording
        self._run = Run(model=type(model).__name__, text=text, see=recording.see)
        self._modules = Modules(model)
        self._unseen = Unseen(self._modules)
        self._passes = 0
        self._has_run = False  # any module of it
        self._entered = self._released = self._is_away = False
        self._mode = Functions(self._modules, self._attend, self._unseen)
        self._hugging_face = HuggingFace(self._modules, self._attend, self._unseen)
        self._hooks = list(fast_paths(self._modules, self._mode))
        self._residual_stream: ResidualStream | None = None
        if "hidden_states" in recording.keep:
            self._residual_stream = ResidualStream(self._modules, recording.names_in)
            self._hooks += self._residual_stream.hooks
        for running in self._modules.may_attend():
            self._hooks.append((running.module, partial(self._around_module, running)))
        self._hooks.append((model, self._around_model))
        self._check = Check(self._modules, self._away) if check else None
        if self._check is not None:
            around = self._check.around
            self._hooks += [(running.module, around) for running in self._modules.may_attend()]

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
                self._install()
            self._mode.enter()
            return self._run
        except BaseException:
            self._put_back()
            raise

    def leave(self, error: BaseException | None, quiet: bool = False) -> Run:
        """Look no more, and finish the run; in silence, if an error is on its way."""
        try:
            settle(None if error is None else error.__traceback__)
        finally:
            self._put_back()
        self._finish(quiet=quiet or error is not None)
        return self._run

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
            self._install()
        self._released = True

    @contextmanager
    def _away(self) -> Generator[None]:
        """Inside, nothing of this watch is installed, though it is entered."""
        with self._mode.away():
            try:
                with self._lock:
                    self._is_away = True
                    self._install()
                yield
            finally:
                with self._lock:
                    self._is_away = False
                    self._install()

    @classmethod
    def around(cls, model: nn.Module) -> Watching | None:
        """The one that was entered and watches this model."""
        return next((each for each in cls._active if id(model) in each._modules.by_id), None)

    @property
    def unseen(self) -> list[str]:
        """What could not be seen so far."""
        return self._unseen.sentences(self._recording.names)

    @classmethod
    def lock(cls) -> AbstractContextManager[object]:
        """While it is held, nobody enters or leaves a watch."""
        return cls._lock

    @classmethod
    def _install(cls) -> None:
        """Have PyTorch and transformers ask those that are entered; nobody, if there are none."""
        active = [each for each in cls._active if not each._is_away]
        install(hook for each in active for hook in each._hooks)
        HuggingFace.install(each._hugging_face for each in active)
        # Nothing is compiled as long as dynamo is not imported, which takes long.
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        if not active:
            off_work()
            if dynamo is not None and cls._stance is not None:
                dynamo._set_stance(cls._stance)
                cls._stance = None
        elif dynamo is not None and cls._stance is None:
            cls._stance = dynamo._stance
            torch.compiler.set_stance("force_eager")

    # ── while the model runs ──────────────────────────────────────────────────────────────────

    def _around_module(self, known: Running, run: Function, /, *args: Any, **kwargs: Any) -> Any:
        """Around every module that may attend: it is on the stack while it runs."""
        stack, given = self._modules.stack.running, self._modules.stack.given
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
            self._modules.have_run.add(known.name)
            is_plain = OTHER_SEQUENCE.isdisjoint(kwargs)
            stack.append(known if is_plain else known.given(args, kwargs))
            given.append((args[1:], kwargs))
            return run(*args, **kwargs)
        finally:
            del stack[depth:], given[depth:]
            if not depth:
                self._mode.by_hand.forget()
            if has_entered:
                self._mode.leave()

    def _around_model(self, run: Function, model: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """Around the model itself: a pass of it."""
        self._passes += 1
        shared = sharing.now()
        if shared is None:
            self._recording.begin(args, kwargs)
        else:
            self._recording.begin((), {"input_ids": shared.ids})
        output = run(model, *args, **kwargs)
        if "output" in self._recording.keep:
            found = main_tensor(output)
            self._run.output = None if found is None else found.clone()
        if self._recording.monitor is not None:
            self._leave_out_spoilt()
        self._mode.aside(self._recording.end)
        return output

    def _attend(self, running: Running, call: Call) -> tuple[Tensor, Call]:
        """The output, and the call as it was computed."""
        if is_transformed():
            raise RuntimeError(
                "watch(): torch.func transforms (vmap, grad) of a watched model are not "
                "implemented. Call the model itself."
            )
        if self._check is not None and sharing.now() is None:
            self._check.refuse(running, call)
        if (shared := sharing.now()) is not None:
            if self._check is not None:
                raise ValueError(
                    "watch(): check must be False where a text is read on several ranks; got True. "
                    "Check the model on one rank, with a shorter text."
                )
            recording = self._recording
            call = self._mode.aside(shared.over, call, recording.keep, recording.is_looking)
        out, call = self._mode.aside(self._recording.attend, running, call)
        if self._check is not None and call.queries is not None:
            self._check.real.append(call.queries)
        return out, call

    # ── when it ends ──────────────────────────────────────────────────────────────────────────

    def _leave_out_spoilt(self) -> None:
        """Modules of which a softmax ended otherwise than in attention were not seen."""
        spoilt = self._mode.by_hand.spoilt
        for name in self._recording.leave_out(spoilt):
            self._unseen.add(spoilt[name])

    def _finish(self, quiet: bool) -> None:
        run, recording = self._run, self._recording
        keep, monitor = recording.keep, recording.monitor
        self._leave_out_spoilt()
        names = recording.names
        if self._residual_stream is not None:
            run.hidden_states, run.between = self._residual_stream.found()
        recording.finish(run, is_named=not quiet)
        if keep & {"hidden_states", "output"} and self._passes > 1 and monitor is None:
            run.notes.append(
                f"hidden_states and output: of the last of {self._passes} passes only. "
                "One pass inside the with has all."
            )
        if "hidden_states" in keep and not run.hidden_states and run.layers:
            run.notes.append(
                "hidden_states: none. Blocks are known by standing in a list (nn.ModuleList, "
                "nn.Sequential), and none of these holds attention."
            )
        run.unseen = self._unseen.sentences(names)
        if not run.unseen and not names:
            run.unseen = self._hugging_face.refused
        problems = [*run.unseen, *run.notes, *recording.interventions.unused()]
        if monitor is not None:
            if not monitor.lines:
                problems.append(
                    "nothing was reported: no attention was computed in a step of the model that "
                    "was looked at. A step is one call of the model that is watched."
                )
        elif not names and not run.unseen:
            problems.append(
                "no attention was computed inside the with"
                + (", or none that can be seen." if self._has_run else ". Call the model there.")
            )
        run.notes += recording.by_hand()
        run.notes += [] if self._check is None else self._check.notes()
        if problems and not quiet:
            warnings.warn("watch(): " + "\n".join(problems), stacklevel=4)
