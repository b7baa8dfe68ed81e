"""`Watching`: a model that is being watched, from the `with` to the finished `Run`."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard._arguments import shown
from regard._attention.eager import is_transformed
from regard._watch.call import Call
from regard._watch.compiled import Uncompiled
from regard._watch.fast import left_out, without_hint
from regard._watch.functions import Functions, at_work, off_work, settle
from regard._watch.hugging_face import HuggingFace
from regard._watch.interventions import Interventions, LayerName, is_meant
from regard._watch.modules import Modules, Running
from regard._watch.monitor import Monitor
from regard._watch.record import Record
from regard._watch.residual_stream import ResidualStream
from regard._watch.retention import Copies, Owned
from regard._watch.tokens import Names, TokenIds
from regard.observation import See
from regard.run import Layer, Run

__all__ = ["Watching"]


class _Pass(threading.local):
    """What is known of the pass that a thread is in."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}  # of each module
        self.queries: dict[str, Tensor | None] = {}  # the real ones of each block
        self.places: dict[str, tuple[int, int]] = {}  # the first of them, and how many there are


class Watching:
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
        is_usual: bool,
    ) -> None:
        self._model = model
        self._see = see
        self._keep = keep
        self._layers = layers
        self._tokenizer = tokenizer
        self._interventions = interventions
        self._monitor = monitor
        self._is_usual = is_usual  # what is looked at, as nothing was asked for
        self._modules = Modules(model)
        self._owned = Owned(model)
        self._copies = Copies()
        names = {name for name, _ in model.named_modules(remove_duplicate=False)}
        interventions.check_names({name or type(model).__name__ for name in names})
        self._ids = TokenIds(model, names)
        self._pass = _Pass()
        self._records: list[Record] = []  # in the order of computation
        self._latest: dict[str, dict[int, Record]] = {}  # of each module, by the nth call in a pass
        self._numbers: dict[tuple[str, int], int] = {}  # of layers: a module, and which call of it
        self._skipped: dict[str, nn.Module] = {}  # modules that computed a softmax of their own
        self._alone: dict[str, str] = {}  # and those with attention that only PyTorch can compute
        self._hidden_states: dict[str, Tensor] = {}
        self._residual_stream = ResidualStream()
        self._output: Tensor | None = None
        self._mode = Functions(
            self._is_running, self._from_function, self._missed, self._saw_softmax
        )
        self._passes = 0
        self._has_run = False  # any module of it
        self._wanted_layers: set[LayerName] = set()  # those asked for that were found
        self._hugging_face: HuggingFace | None = None
        self._uncompiled = Uncompiled()
        self._entered = self._released = False
        self._run = Run(model=type(model).__name__, text=text, see=see)

    # ── in and out ────────────────────────────────────────────────────────────────────────────

    def enter(self) -> Run:
        if self._entered:
            raise RuntimeError(
                "watch(): each one can be entered once; got a second time. Call watch(…) again."
            )
        self._entered = True
        try:
            self._set_up()
            return self._run
        except BaseException:
            self._put_back()
            raise

    def _set_up(self) -> None:
        with _lock:
            for other in _watching:
                if other._modules.names.keys() & self._modules.names.keys():
                    raise RuntimeError(
                        "watch(): a module can be watched by one at a time; it is being watched "
                        "already. Leave the other with first."
                    )
            _watching.append(self)
        if HuggingFace.is_needed(self._model):
            self._hugging_face = HuggingFace(self._model, self._from_hugging_face, self._missed_in)
            self._hugging_face.enter()
        self._uncompiled.enter()
        self._modules.watch(self._enter_module, self._end_module, self._leave_module)
        if "hidden_states" in self._keep:
            self._modules.hear(
                self._residual_stream.parts_of(self._model), self._residual_stream.hear
            )
        self._mode.enter()

    def leave(self, error: BaseException | None) -> None:
        """Look no more, and finish the run; in silence, if an error is on its way."""
        try:
            settle(None if error is None else error.__traceback__)
        finally:
            self._put_back()
        self._close(quiet=error is not None)

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
        with _lock:
            if self in _watching:
                _watching.remove(self)
            if not _watching:
                off_work()
        self._modules.release()
        self._uncompiled.leave()
        if self._hugging_face is not None:
            self._hugging_face.leave()
        self._released = True

    # ── while the model runs ──────────────────────────────────────────────────────────────────

    def _enter_module(
        self, running: Running, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self._has_run = True
        if running.outermost and not self._mode.is_entered:
            # Another thread, or what is computed once more on the way back.
            running.has_entered = True
            self._mode.enter()
        if running.outermost:
            self._pass.calls.clear()
            self._pass.places.clear()
        if "hidden_states" in self._keep and _is_block(running.name):
            self._residual_stream.enter(running.name, args, kwargs)
        if running.module is self._model:
            self._passes += 1
            self._ids.take(args, kwargs)
            if self._monitor is not None:
                self._monitor.begin()
        if isinstance(running.module, nn.MultiheadAttention | nn.TransformerEncoderLayer):
            return without_hint(running.module, args, kwargs, self._mode)
        if isinstance(running.module, nn.TransformerEncoder):
            padding = running.left_out = left_out(running.module, args, kwargs, self._mode)
            if padding is not None:
                return (*args[:1],), {
                    **({} if args else {"src": kwargs["src"]}),
                    "src_key_padding_mask": padding,
                }
        return args, kwargs

    def _end_module(self, running: Running) -> None:
        if running.has_entered:
            self._mode.leave()

    def _leave_module(self, running: Running, output: Any) -> None:
        if running.module is self._model:
            if "output" in self._keep:
                self._output = _main_tensor(output)
            if self._monitor is not None and self._monitor.is_on and not _is_going_back():
                try:
                    self._monitor.end(self._closed())
                finally:
                    self._records.clear()
                    self._latest.clear()
        if "hidden_states" in self._keep and _is_block(running.name):
            vector = _main_tensor(output)
            if vector is not None and vector.dim() == 3:
                self._hidden_states[running.name] = vector
                self._residual_stream.leave(running.name, vector, self._attended(running.name))

    def _attended(self, block: str) -> list[str]:
        """The modules of a block, or itself, that computed attention, also if nobody looked."""
        names = dict.fromkeys(name for name, _ in self._numbers)
        return [name for name in names if name.startswith(f"{block}.") or name == block]

    def _is_running(self) -> bool:
        return self._modules.running() is not None

    def _from_function(self, call: Call) -> tuple[Tensor, Call]:
        running = self._modules.running()
        assert running is not None
        return self._attend(running, call)

    def _missed(self, *given: Tensor) -> None:
        running = self._modules.running()
        if running is not None:
            what = [f"{'nested' if x.is_nested else tuple(x.shape)} {x.dtype}" for x in given]
            self._alone[running.name] = f"q {what[0]}, k {what[1]}, v {what[2]}"

    def _missed_in(self, module: nn.Module) -> None:
        self._skipped[self._modules.names[id(module)]] = module

    def _from_hugging_face(self, module: nn.Module, call: Call) -> tuple[Tensor, Call] | None:
        running = self._modules.of(module)
        if running is None:
            return None
        if not self._mode.is_on_top:
            return self._attend(running, call)
        return self._mode.aside(lambda: self._attend(running, call))

    def _saw_softmax(self, x: Tensor) -> None:
        running = self._modules.running()
        if running is None or x.shape[-1] < 2:
            return
        is_square = x.dim() == 3 and x.shape[-1] == x.shape[-2]
        # A model of transformers says by its names which of its modules attend.
        is_said = type(running.module).__module__.startswith("transformers.")
        looks_so = not is_said and (x.dim() >= 4 or is_square)
        if looks_so or self._modules.is_in_attention():
            self._skipped[running.name] = running.module

    def _attend(self, running: Running, call: Call) -> tuple[Tensor, Call]:
        """The output, and the call as it was computed."""
        if is_transformed():
            raise RuntimeError(
                "watch(): torch.func transforms (vmap, grad) of a watched model are not "
                "implemented. Call the model itself."
            )
        return at_work(lambda: self._look(running, call))

    def _look(self, running: Running, call: Call) -> tuple[Tensor, Call]:
        name = running.name or type(running.module).__name__
        if running.cross and not call.cross:
            # One query is at the end of its own sequence, and has the other before it as a whole.
            causal = call.options.causal and call.q.shape[2] > 1
            options = replace(call.options, causal=causal)
            call = replace(call, cross=True, said=True, options=options)
        nth = self._pass.calls.get(name, 0)
        self._pass.calls[name] = nth + 1
        call, record = self._told_apart(name, nth, call)
        if record is None:
            number = self._numbers.setdefault((name, nth), len(self._numbers))
        else:
            number = record.number
        first = self._first_query(name, call, record)
        call, heads = self._interventions.apply(name, number, call, first)
        wanted = self._is_wanted(name, number) and not _is_going_back()
        if self._monitor is not None and not self._monitor.is_on:
            wanted = False
        out, seen = call.compute(self._see if wanted else None)
        if heads:
            alive = torch.ones(call.q.shape[1], dtype=torch.bool, device=out.device)
            alive[list(heads)] = False
            out = torch.where(alive[:, None, None], out, 0.0)
        if wanted:
            assert seen is not None
            if record is None:
                record = self._opened(name, nth, number, call)
            record.text = self._ids.current
            tokens = self._ids.of(name, call.start + call.k.shape[2])
            record.add(call, out, seen, tokens, shares=self._monitor is None)
        return out, call

    def _told_apart(self, name: str, nth: int, call: Call) -> tuple[Call, Record | None]:
        """The call, known to be of one sequence or of two, and with its padded queries; and the
        record that it goes on, if it does."""
        latest = self._latest.get(name, {})
        records = [latest[nth]] if nth in latest else []
        records += [record for n, record in reversed(latest.items()) if n != nth]
        if call.cross and not call.said and call.q.shape[2] == 1:
            # One query on more keys than before: a step of a generation, if the keys are the old.
            step = replace(
                call,
                cross=False,
                options=replace(call.options, causal=True, position=call.k.shape[2] - 1),
            )
            for record in records:
                if record.continues(step):
                    self._pass.places[_block_of(name)] = step.position + step.start, 1
                    return record.with_known_keys(step), record
        queries = self._pass.queries
        block = _block_of(name)
        if call.cross:
            own = queries.get(block)  # of the same tokens, when they looked at themselves
            fits = own is not None and own.shape == (call.q.shape[0], call.q.shape[2])
            call = replace(call, queries=own if fits else None)
        else:
            queries[block] = call.queries
            self._pass.places[block] = call.position + call.start, call.q.shape[2]
        return call, next((record for record in records if record.continues(call)), None)

    def _first_query(self, name: str, call: Call, record: Record | None) -> int:
        """Where the first query stands in its own text. One that looks at another sequence stands
        where it stood when it looked at itself; else they are counted."""
        if not call.cross:
            return call.position + call.start
        first, count = self._pass.places.get(_block_of(name), (0, 0))
        if count == call.q.shape[2]:
            return first
        return 0 if record is None else record.n_queries

    def _is_wanted(self, name: str, index: int) -> bool:
        if self._layers is None:
            return True
        found = [layer for layer in self._layers if is_meant(layer, name, index)]
        self._wanted_layers.update(found)
        return bool(found)

    def _opened(self, name: str, nth: int, number: int, call: Call) -> Record:
        """A record of its own for a call that goes on with none."""
        latest = self._latest.setdefault(name, {})
        text = self._ids.current
        if nth in latest and not call.cross and text is not None:
            text.forget()
        keep = frozenset(self._keep & {"q", "k", "v", "output"})
        record = Record(
            name, call.cross, self._see, self._owned, self._copies, keep, number, nth,
            is_asked=not self._is_usual,
        )  # fmt: skip
        self._records.append(record)
        latest[nth] = record
        return record

    # ── when it ends ──────────────────────────────────────────────────────────────────────────

    def _closed(self) -> dict[str, Layer]:
        layers: dict[str, Layer] = {}
        times: dict[str, int] = {}
        self._drop_what_is_not_whole()
        for record in self._records:
            n = times[record.name] = times.get(record.name, 0) + 1
            unique = record.name if n == 1 else f"{record.name}#{n}"
            layers[unique] = record.close(unique)
        return layers

    def _drop_what_is_not_whole(self) -> None:
        """Let go of records that an error or an interrupt came into."""
        broken = [record for record in self._records if not record.is_whole]
        self._records = [record for record in self._records if record.is_whole]
        for record in broken:
            self._run.notes.append(
                f"{record.name}: left out, as its pass was stopped while it was looked at."
            )

    def _close(self, quiet: bool) -> None:
        run = self._run
        run.layers = self._closed()
        last = self._ids.last
        run.token_ids = None if last is None else last.ids
        run.output = self._output
        run.hidden_states = {
            name: vector for name, vector in self._hidden_states.items() if self._attended(name)
        }
        run.between = {
            name: x
            for name, x in self._residual_stream.between.items()
            if name in run.hidden_states
        }
        if run.between and self._residual_stream.first is not None:
            run.between = {"embedding": self._residual_stream.first, **run.between}
        run.notes += [note for layer in run.layers.values() for note in layer.notes]
        if self._monitor is not None:
            self._monitor.close()
        if not quiet:
            self._try_to_name_tokens(run)
        run.notes += self._remarks(run)
        run.unseen = self._unseen()
        problems = [*run.unseen, *run.notes, *self._interventions.unused()]
        if self._monitor is not None:
            if not self._monitor.lines:
                problems.append(
                    "nothing was reported: no attention was computed in a step of the model that "
                    "was looked at. A step is one call of the model that is watched."
                )
        elif not self._numbers and not run.unseen:
            problems.append(
                "no attention was computed inside the with"
                + (", or none that can be seen." if self._has_run else ". Call the model there.")
            )
        if problems and not quiet:
            warnings.warn("watch(): " + "\n".join(problems), stacklevel=4)

    def _try_to_name_tokens(self, run: Run) -> None:
        """A tokenizer that fails takes nothing with it but the names."""
        try:
            self._name_tokens(run)
        except Exception as error:  # noqa: BLE001 — whatever it is, it is told
            run.notes.append(
                f"tokens: not named. The tokenizer failed: {type(error).__name__}: {error} "
                "A fast tokenizer (use_fast=True) can say where its tokens stand in a text."
            )

    def _name_tokens(self, run: Run) -> None:
        """The tokens of the last pass, and of each layer that read others."""
        names = Names(self._tokenizer, run.text, self._ids.sequences)
        last = self._ids.last
        run.tokens = names.of(last)
        for (key, layer), record in zip(run.layers.items(), self._records, strict=True):
            text = last if record.text is None and self._ids.count == 1 else record.text
            part = "" if text is None else text.part(record.name)
            if text is last and not part:
                continue
            tokens = names.of(text, part) if text is not None else None
            if tokens != run.tokens:
                run.layers[key] = replace(layer, tokens=tokens or [])
        wrong = names.not_read
        if wrong:
            run.notes.append(
                f"text: it is not what the model read. The tokens of {shown(wrong[0])} are not "
                "among the ids that it got, so its tokens are named by these alone."
            )
            run.text = None
        elif isinstance(run.text, list):
            run.text = names.texts_of(last)

    def _remarks(self, run: Run) -> list[str]:
        """What was asked for and is not there."""
        remarks = [
            f"layers: no attention of {layer!r} was computed."
            for layer in self._layers or ()
            if layer not in self._wanted_layers
        ]
        if self._keep & {"hidden_states", "output"} and self._passes > 1 and self._monitor is None:
            remarks.append(
                f"hidden_states and output: of the last of {self._passes} passes only. "
                "One pass inside the with has all."
            )
        if "hidden_states" in self._keep and not run.hidden_states and run.layers:
            remarks.append(
                "hidden_states: none. Blocks are known by standing in a list (nn.ModuleList, "
                "nn.Sequential), and none of these holds attention."
            )
        return remarks

    def _unseen(self) -> list[str]:
        seen = {name for name, _ in self._numbers}
        kinds: dict[type[nn.Module], list[str]] = {}
        for name, module in self._skipped.items():
            name = name or type(self._model).__name__
            if name not in seen:
                kinds.setdefault(type(module), []).append(name)
        found = [_of_its_own(type(self._model).__name__, *each) for each in kinds.items()]
        found += [
            f"{name or type(self._model).__name__}: attention of {what} was not seen, as only "
            "PyTorch computes it. Tensors that are dense, floating and broadcast to (B, H, N, D) "
            "can be."
            for name, what in self._alone.items()
            if (name or type(self._model).__name__) not in seen
        ]
        found += [
            f"{name or type(self._model).__name__}: is TorchScript, which cannot be watched, so "
            "attention inside it was not seen. The module that it was made from can be."
            for name, module in self._modules.scripted.items()
            if _may_attend(module)
        ]
        if not found and not self._numbers and self._hugging_face is not None:
            found = [
                f"{name}: transformers computes its attention in a way that cannot be replaced, so "
                "it was not seen."
                for name in dict.fromkeys(self._hugging_face.refused)
            ]
        return found


def _of_its_own(model: str, kind: type[nn.Module], names: list[str]) -> str:
    """That modules of one kind compute attention by themselves."""
    several = len(names) > 1
    which = f"{names[0]} and {len(names) - 1:,} more" if several else names[0]
    if kind.__module__.startswith("transformers."):
        return (
            f"{which}: {model} of transformers computes attention in its own way here, and cannot "
            "be seen."
        )
    does = "compute attention in their own way, and were" if several else ""
    return (
        f"{which}: {does or 'computes attention in its own way, and was'} not seen. "
        "torch.nn.functional.scaled_dot_product_attention in its place can be."
    )


_watching: list[Watching] = []
_lock = threading.RLock()


def _may_attend(scripted: nn.Module) -> bool:
    """Is there anything like attention in a module of TorchScript?"""
    try:
        text = str(scripted.inlined_graph)
    except (AttributeError, RuntimeError):
        return True
    return "softmax" in text or "scaled_dot_product_attention" in text


def _block_of(name: str) -> str:
    """The block of a model that a module stands in: its name up to the first number."""
    parts = name.split(".")
    for n, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[: n + 1])
    return ".".join(parts[:-1])


def _is_block(name: str) -> bool:
    """Does a module stand in a list?"""
    return name.rpartition(".")[2].isdigit()


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
