"""`Watching`: a model that is being watched, from the `with` to the finished `Run`."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _pop_mode_temporarily

from regard._attention.eager import is_transformed
from regard._watch.call import Call
from regard._watch.cut import Cuts
from regard._watch.functions import Functions
from regard._watch.hugging_face import HuggingFace
from regard._watch.modules import Modules, Running
from regard._watch.monitor import Monitor
from regard._watch.record import Record
from regard._watch.tokens import TokenIds, tokens_of
from regard.observation import See
from regard.run import Run

__all__ = ["LayerName", "Watching"]

LayerName = str | int


class Watching(AbstractContextManager[Run]):
    def __init__(
        self,
        model: nn.Module,
        see: See,
        keep: frozenset[str],
        layers: tuple[LayerName, ...] | None,
        tokenizer: Any,
        text: str | list[str] | None,
        cuts: Cuts,
        monitor: Monitor | None,
    ) -> None:
        self._model = model
        self._see = see
        self._keep = keep
        self._layers = layers
        self._tokenizer = tokenizer
        self._cuts = cuts
        self._monitor = monitor
        self._modules = Modules(model)
        self._ids = TokenIds()
        self._records: dict[str, list[Record]] = {}
        self._order: dict[str, int] = {}  # of the modules' first calls
        self._skipped: dict[str, None] = {}  # modules that computed a softmax of their own
        self._vectors: dict[str, Tensor] = {}
        self._output: Tensor | None = None
        self._mode = Functions(
            self._is_running, self._from_function, self._missed, self._saw_softmax
        )
        self._passes = 0
        self._wanted_layers: set[LayerName] = set()  # those asked for that were found
        self._queries: dict[str, Tensor | None] = {}  # the real ones of each block
        self._hugging_face: HuggingFace | None = None
        self._entered = False
        self._run = Run(model=type(model).__name__, text=text, see=see)

    # ── in and out ────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Run:
        if self._entered:
            raise RuntimeError(
                "watch(): each one can be entered once; got a second time. Call watch(…) again."
            )
        self._entered = True
        with _lock:
            for other in _watching:
                if other._modules.names.keys() & self._modules.names.keys():
                    raise RuntimeError(
                        "watch(): a module can be watched by one at a time; it is being watched "
                        "already. Leave the other with first."
                    )
            _watching.append(self)
        try:
            if HuggingFace.is_needed(self._model):
                self._hugging_face = HuggingFace(self._model, self._from_hugging_face)
                self._hugging_face.enter()
            self._modules.watch(self._enter_module, self._leave_module)
            self._mode.enter()
        except BaseException:
            self._release()
            raise
        return self._run

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._mode.leave()
        self._release()
        self._close(quiet=kind is not None)

    def _release(self) -> None:
        with _lock:
            if self in _watching:
                _watching.remove(self)
        self._modules.release()
        if self._hugging_face is not None:
            self._hugging_face.leave()

    # ── while the model runs ──────────────────────────────────────────────────────────────────

    def _enter_module(
        self, running: Running, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if running.outermost and not self._mode.is_entered:
            # Another thread, or what is computed once more on the way back.
            running.has_entered = True
            self._mode.enter()
        if running.module is self._model:
            self._passes += 1
            self._ids.take(args, kwargs)
            if self._monitor is not None:
                self._monitor.begin()

    def _leave_module(self, running: Running, output: Any) -> None:
        if running.has_entered:
            self._mode.leave()
        if running.module is self._model:
            if "output" in self._keep:
                self._output = _main_tensor(output)
            if self._monitor is not None and self._monitor.is_on and not _is_going_back():
                try:
                    self._monitor.end(self._closed())
                finally:
                    self._records.clear()
        if "vectors" in self._keep and running.name.rpartition(".")[2].isdigit():
            vector = _main_tensor(output)
            if vector is not None and vector.dim() == 3:
                self._vectors[running.name] = vector

    def _is_running(self) -> bool:
        return self._modules.running() is not None

    def _from_function(self, call: Call) -> tuple[Tensor, Call]:
        running = self._modules.running()
        assert running is not None
        return self._attend(running, call)

    def _missed(self) -> None:
        running = self._modules.running()
        if running is not None:
            self._skipped[running.name] = None

    def _from_hugging_face(self, module: nn.Module, call: Call) -> tuple[Tensor, Call] | None:
        running = self._modules.of(module)
        if running is None:
            return None
        if not torch._C._len_torch_function_stack():  # as in a thread of the model's own
            return self._attend(running, call)
        with _pop_mode_temporarily():  # ours would only see its own work
            return self._attend(running, call)

    def _saw_softmax(self, x: Tensor) -> None:
        running = self._modules.running()
        if running is None or x.shape[-1] < 2:
            return
        if x.dim() >= 4 or self._modules.is_running("attention"):
            self._skipped[running.name] = None

    def _attend(self, running: Running, call: Call) -> tuple[Tensor, Call]:
        """The output, and the call as it was computed."""
        if is_transformed():
            raise RuntimeError(
                "watch(): torch.func transforms (vmap, grad) of a watched model are not "
                "implemented. Call the model itself."
            )
        name = running.name or type(running.module).__name__
        if running.cross and not call.cross:
            call = replace(call, cross=True, said=True)
        call = self._told_apart(name, call)
        index = self._order.setdefault(name, len(self._order))
        call, heads = self._cuts.apply(name, index, call)
        wanted = self._is_wanted(name, index) and not _is_going_back()
        if self._monitor is not None and not self._monitor.is_on:
            wanted = False
        out, seen = call.compute(self._see if wanted else None)
        if heads:
            alive = torch.ones(call.q.shape[1], dtype=torch.bool, device=out.device)
            alive[list(heads)] = False
            out = torch.where(alive[:, None, None], out, 0.0)
        if wanted:
            assert seen is not None
            record = self._record(name, call)
            tokens = self._ids.of(name, call.start + call.k.shape[2])
            record.add(call, out, seen, tokens, shares=self._monitor is None)
        return out, call

    def _told_apart(self, name: str, call: Call) -> Call:
        """The call, known to be of one sequence or of two, and with its padded queries."""
        records = self._records.get(name)
        if call.cross and not call.said and call.q.shape[2] == 1 and records:
            # One query on more keys than before: a step of a generation, if the keys are the old.
            step = replace(
                call,
                cross=False,
                options=replace(call.options, causal=True, position=call.k.shape[2] - 1),
            )
            if records[-1].continues(step):
                return step
        block = _block_of(name)
        if not call.cross:
            self._queries[block] = call.queries
            return call
        own = self._queries.get(block)  # of the same tokens, when they looked at themselves
        fits = own is not None and own.shape == (call.q.shape[0], call.q.shape[2])
        return replace(call, queries=own if fits else None)

    def _is_wanted(self, name: str, index: int) -> bool:
        if self._layers is None:
            return True
        found = [
            layer
            for layer in self._layers
            if (layer == index if isinstance(layer, int) else fnmatchcase(name, layer))
        ]
        self._wanted_layers.update(found)
        return bool(found)

    def _record(self, name: str, call: Call) -> Record:
        records = self._records.setdefault(name, [])
        if not records or not records[-1].continues(call):
            if records and not call.cross:
                self._ids.forget()
            keep = self._keep & {"q", "k", "v", "output"}
            records.append(Record(name, call.cross, self._see, frozenset(keep)))
        return records[-1]

    # ── when it ends ──────────────────────────────────────────────────────────────────────────

    def _closed(self) -> dict[str, Any]:
        layers: dict[str, Any] = {}
        for name, records in self._records.items():
            for n, record in enumerate(records):
                unique = name if n == 0 else f"{name}#{n + 1}"
                layers[unique] = record.close(unique)
        return layers

    def _close(self, quiet: bool) -> None:
        run = self._run
        run.layers = self._closed()
        run.token_ids = self._ids.all()
        if not quiet:
            run.tokens = tokens_of(self._tokenizer, run.text, run.token_ids)
        run.output = self._output
        run.vectors = {
            name: vector
            for name, vector in self._vectors.items()
            if any(each.startswith(f"{name}.") or each == name for each in self._records)
        }
        run.notes = [note for layer in run.layers.values() for note in layer.notes]
        run.notes += self._remarks(run)
        run.unseen = self._unseen()
        problems = [*run.unseen, *run.notes, *self._cuts.unused()]
        if self._monitor is not None:
            self._monitor.close()
            if not self._monitor.lines:
                problems.append(
                    "nothing was reported: no attention was computed in a step of the model that "
                    "was looked at. A step is one call of the model that is watched."
                )
        elif not run.layers and not run.unseen:
            problems.append(
                "no attention was computed inside the with. Call the model there; attention that "
                "is written by hand (softmax of q·k) cannot be seen: use "
                "torch.nn.functional.scaled_dot_product_attention or regard.attention."
            )
        if problems and not quiet:
            warnings.warn("watch(): " + "\n".join(problems), stacklevel=3)

    def _remarks(self, run: Run) -> list[str]:
        """What was asked for and is not there."""
        remarks = [
            f"layers: no attention of {layer!r} was computed."
            for layer in self._layers or ()
            if layer not in self._wanted_layers
        ]
        if self._keep & {"vectors", "output"} and self._passes > 1 and self._monitor is None:
            remarks.append(
                f"vectors and output: of the last of {self._passes} passes only. "
                "One pass inside the with has all."
            )
        if "vectors" in self._keep and not run.vectors and run.layers:
            remarks.append(
                "vectors: none. Blocks are known by standing in a list (nn.ModuleList, "
                "nn.Sequential), and none of these holds attention."
            )
        return remarks

    def _unseen(self) -> list[str]:
        found = [
            f"{name or type(self._model).__name__}: computes attention in its own way, and was not "
            "seen. torch.nn.functional.scaled_dot_product_attention in its place can be."
            for name in self._skipped
            if (name or type(self._model).__name__) not in self._records
        ]
        refused = self._hugging_face.refused if self._hugging_face is not None else []
        if not self._records:
            found += [
                f"{name}: transformers computes its attention in a way that cannot be replaced, so "
                "it was not seen."
                for name in refused
            ]
        return list(dict.fromkeys(found))


_watching: list[Watching] = []
_lock = threading.Lock()


def _block_of(name: str) -> str:
    """The block of a model that a module stands in: its name up to the first number."""
    parts = name.split(".")
    for n, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[: n + 1])
    return ".".join(parts[:-1])


def _is_going_back() -> bool:
    """Is this a backward pass, which computes once more what was seen already?"""
    return torch._C._current_graph_task_id() != -1


def _main_tensor(output: Any) -> Tensor | None:
    """The tensor that a module is there for: the first floating one of what it returns."""
    if isinstance(output, Tensor):
        return output.detach().clone() if output.is_floating_point() else None
    values = output.values() if isinstance(output, Mapping) else output
    if not isinstance(values, Iterable):
        return None
    for name in ("logits", "last_hidden_state"):
        found = getattr(output, name, None)
        if isinstance(found, Tensor):
            return found.detach().clone()
    for value in values:
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 0:
            return value.detach().clone()
    return None
