"""`Recording`: every attention that a watched model computes, and which record it belongs to."""

from __future__ import annotations

import threading
from collections.abc import Container
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from regard._arguments import shown
from regard._watch.call import Call
from regard._watch.interventions import Interventions, LayerName, is_meant
from regard._watch.modules import Running
from regard._watch.monitor import Listener
from regard._watch.record import Record
from regard._watch.retention import Retention
from regard._watch.shares import NAMES
from regard._watch.tokens import Names, TokenIds
from regard.observation import See
from regard.run import Layer, Run


class _Pass(threading.local):
    """What is known of the pass that a thread is in."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}  # of each module
        # Of each block that looked at its own text: where its first query stands there, how many
        # there are, and which of them (B, Nq) are real.
        self.queries: dict[str, tuple[int, int, Tensor | None]] = {}


class Recording:
    def __init__(
        self,
        model: nn.Module,
        see: See,
        keep: frozenset[str],
        layers: tuple[LayerName, ...] | None,
        interventions: Interventions,
        monitor: Listener | None,
        tokenizer: Any,
    ) -> None:
        self.see = see
        self._see_of_step = replace(see, map=None)
        self.keep = keep
        self.interventions = interventions
        self.monitor = monitor
        # What is measured of weights on keys with a name.
        self.shares: tuple[str, ...] = NAMES if monitor is None else monitor.shares
        self._tokenizer = tokenizer
        self._token_ids = TokenIds(model)
        self._retention = Retention(model, keep)
        self._layers = layers
        self._found: set[LayerName] = set()  # those of `layers` that were computed
        self._pass = _Pass()
        self._numbers: dict[tuple[str, int], int] = {}  # of layers: a module, and which call of it
        self._records: list[Record] = []  # in the order of computation
        self._latest: dict[str, dict[int, Record]] = {}  # of each module, by the nth call in a pass
        self._notes: list[str] = []
        self._own: dict[str, None] = {}  # the modules that compute by themselves

    @property
    def is_looking(self) -> bool:
        """Is any layer to be put on record?"""
        return self._layers != () and (self.monitor is None or self.monitor.is_on)

    @property
    def names(self) -> dict[str, None]:
        """The modules that have computed attention, also if nobody looked."""
        return dict.fromkeys(name for name, _ in self._numbers)

    def names_in(self, block: str) -> list[str]:
        """Those of a block, or itself."""
        return [name for name in self.names if name.startswith(f"{block}.") or name == block]

    def by_hand(self) -> list[str]:
        """What is to be said of modules that compute by themselves."""
        names = list(self._own)
        if not names:
            return []
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        return [
            f"{names[0]}{more}: attention is written out here, and was seen from the scores of the "
            "model's own. The memory that N × N of them takes is the model's, too."
        ]

    def leave_out(self, names: Container[str]) -> set[str]:
        """Forget what was seen of those of these modules that compute by themselves: which."""
        own = {each.name for each in self._records if each.is_own and each.name in names}
        self._own = {name: None for name in self._own if name not in own}
        self._numbers = {key: n for key, n in self._numbers.items() if key[0] not in own}
        self._records = [record for record in self._records if record.name not in own]
        return own

    def begin_pass(self) -> None:
        self._pass.calls.clear()
        self._pass.queries.clear()

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A pass of the whole model begins."""
        self._token_ids.take(args, kwargs)
        if self.monitor is not None:
            self._forget()  # what a pass that failed has left
            self.monitor.begin()

    def end(self) -> None:
        """It has ended: what was recorded goes to a monitor, instead of being kept."""
        if self.monitor is not None and self.monitor.is_on and not _is_backward():
            try:
                self.monitor.end(self._close())
            finally:
                self._forget()

    def _forget(self) -> None:
        self._records.clear()
        self._latest.clear()

    # ── one attention ─────────────────────────────────────────────────────────────────────────

    def attend(self, running: Running, call: Call) -> tuple[Tensor, Call]:
        """The output, and the call as it was computed; put on record if it is watched."""
        is_watched = (self.monitor is None or self.monitor.is_on) and not _is_backward()
        name = running.name
        if running.cross and not call.cross:
            # One query is at the end of its own sequence, and has the other before it as a whole.
            causal = call.options.causal and call.q.shape[2] > 1
            options = replace(call.options, causal=causal)
            call = replace(call, cross=True, is_cross_known=True, options=options)
        nth = self._pass.calls.get(name, 0)
        self._pass.calls[name] = nth + 1
        call, record = self._continued(name, nth, call)
        if record is None:
            number = self._numbers.setdefault((name, nth), len(self._numbers))
        else:
            number = record.number
        call, first = self._placed(name, call, record)
        call = self.interventions.apply(name, number, call, first)
        if self._layers is not None:
            meant = [layer for layer in self._layers if is_meant(layer, name, number)]
            self._found.update(meant)
            is_watched = is_watched and bool(meant)
        out, seen = call.compute(self._to_see(record) if is_watched else None)
        if is_watched:
            assert seen is not None
            text = self._token_ids.here.text
            if record is None:
                latest = self._latest.setdefault(name, {})
                if nth in latest and not call.cross and text is not None:
                    text.forget()
                record = Record(name, number, call.cross, self.see, self._retention)
                self._records.append(record)
                latest[nth] = record
            record.text = text
            tokens = None if text is None else text.of(name, call.end)
            record.add(call, call.by_head(out), seen, tokens, self.shares)
            if record.is_own:
                self._own.setdefault(name)
        return out, call

    def _to_see(self, record: Record | None) -> See:
        """What is looked at in a call. A map of a step alone says nothing of the whole."""
        return self.see if record is None else self._see_of_step

    def _continued(self, name: str, nth: int, call: Call) -> tuple[Call, Record | None]:
        """The call, known to be of one sequence or of two, and the record that it continues."""
        others = dict(self._latest.get(name, {}))
        records = [others.pop(nth)] if nth in others else []
        records += reversed(others.values())
        if call.cross and not call.is_cross_known and call.q.shape[2] == 1:
            # One query on more keys than before: a step of a generation, if the keys are the old.
            options = replace(call.options, causal=True, position=None)
            step = replace(call, cross=False, options=options)
            for record in records:
                if record.continues(step):
                    return record.with_known_keys(step), record
        for record in records:
            if record.continues(call):
                return call, record
        return call, None

    def _placed(self, name: str, call: Call, record: Record | None) -> tuple[Call, int]:
        """The call with its padded queries, and where the first query stands in its own text.

        Queries that look at another sequence are those that looked at themselves in the same
        block, if these are as many; else they are counted.
        """
        block, n_queries = _block_of(name), call.q.shape[2]
        if not call.cross:
            first = call.position + call.start
            self._pass.queries[block] = first, n_queries, call.queries
            return call, first
        first, count, real = self._pass.queries.get(block, (0, 0, None))
        if count != n_queries:
            return replace(call, queries=None), 0 if record is None else record.n_queries
        if real is not None and len(real) != len(call.q):
            real = None
        return replace(call, queries=real), first

    # ── all of them ───────────────────────────────────────────────────────────────────────────

    def _close(self) -> dict[str, Layer]:
        """The layers by name. A record that an error or an interrupt came into is left out."""
        self._notes += [
            f"{record.name}: left out, as its pass was stopped while it was looked at."
            for record in self._records
            if not record.is_whole
        ]
        self._records = [record for record in self._records if record.is_whole]
        layers: dict[str, Layer] = {}
        times: dict[str, int] = {}
        for record in self._records:
            n = times[record.name] = times.get(record.name, 0) + 1
            name = record.name if n == 1 else f"{record.name}#{n}"
            layers[name] = record.close(name)
        return layers

    def finish(self, run: Run, is_named: bool) -> None:
        """Put the layers into the run, with the names of their tokens, and notes."""
        if self.monitor is not None:
            self._forget()
        run.layers = self._close()
        ablated = self.interventions.ablated
        numbers = zip(run.layers, (record.number for record in self._records), strict=True)
        run.ablated = {name: ablated[number] for name, number in numbers if number in ablated}
        last = self._token_ids.last
        run.token_ids = None if last is None else last.ids[""]
        run.notes += self._notes
        run.notes += [note for layer in run.layers.values() for note in layer.notes]
        if is_named:
            try:
                self._name_tokens(run, Names(self._tokenizer, run.text, self._token_ids.sequences))
            except Exception as error:  # noqa: BLE001 — it takes nothing with it but the names
                run.notes.append(
                    f"tokens: not named. The tokenizer failed: {type(error).__name__}: {error} "
                    "A fast tokenizer (use_fast=True) can say where its tokens stand in a text."
                )
        run.notes += [
            f"layers: no attention of {layer!r} was computed."
            for layer in self._layers or ()
            if layer not in self._found
        ]

    def _name_tokens(self, run: Run, names: Names) -> None:
        """Name the tokens of the last pass, and of each layer that read others."""
        last = self._token_ids.last
        run.tokens = names.of(last)
        for (key, layer), record in zip(run.layers.items(), self._records, strict=True):
            text = last if record.text is None and self._token_ids.count == 1 else record.text
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


@cache
def _block_of(name: str) -> str:
    """The block that a module is in, which is named up to the first number."""
    parts = name.split(".")
    numbers = (n for n, part in enumerate(parts) if part.isdigit())
    return ".".join(parts[: next(numbers, len(parts) - 2) + 1])


def _is_backward() -> bool:
    """Is this a backward pass, which computes once more what was seen already?"""
    return torch._C._current_graph_task_id() != -1
