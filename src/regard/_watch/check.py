"""`Check`: every call of a watched model is run unwatched first, and its outputs are compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from regard._watch.call import Call
from regard._watch.compare import Distance, distance, largest, leaves, mean
from regard._watch.copies import Copies
from regard._watch.modules import Function, Modules, Running

_FLOAT32 = 2e-5  # relative: how far a watched output may lie from a blind one


class Check:
    """Stands around every module. A call of one while no other runs is run twice: by itself on
    copies of what it may change, with nothing of the watch in place, and then watched."""

    def __init__(self, modules: Modules, away: Callable[[], AbstractContextManager[None]]) -> None:
        self._modules = modules
        self._away = away
        self.real: list[Tensor] = []  # (B, Nq): which queries of an attention are no padding
        self._is_on = False
        self._calls = self._others = self._empty = 0
        self._worst = 0.0
        self._failed = ""

    def around(self, run: Function, module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        if self._modules.stack.running or torch._C._current_graph_task_id() != -1:
            return run(module, *args, **kwargs)  # inside a call, or computed again for gradients
        if self._is_on:
            self._others += 1  # of another thread
            return run(module, *args, **kwargs)
        self._is_on = True
        try:
            first = Copies.of(module, args, kwargs)
            second = first.again()
            versions = {name: x._version for name, x in _parameters(module)}
            expected = self._blind(module, first)
            for name, x in _parameters(module):
                if versions.get(name) != x._version:
                    raise RuntimeError(
                        "watch(): check=True must be of a model that does not write into its "
                        f"parameters; {name} of {type(module).__name__} was written into, and "
                        "holds what the call unwatched has made of it. Watch it without check."
                    )
            self.real.clear()
            output = run(module, *args, **kwargs)
            self._compare(module, second, expected, dict(leaves(output)))
            return output
        finally:
            self._is_on = False

    def refuse(self, running: Running, call: Call) -> None:
        """An attention that cannot be compared."""
        if call.dropout and not (call.as_pytorch and call.q.device.type == "cpu"):
            raise RuntimeError(
                f"watch(): check=True must be of attention without dropout; {running.name} drops "
                f"{call.dropout:g} of its weights, and draws others than unwatched. model.eval() "
                "turns dropout off, or set that of attention alone to 0."
            )

    def notes(self) -> list[str]:
        """What was compared, and what was not."""
        if self._failed:
            return [f"check: {self._failed}"]
        several = "1 call was" if self._calls == 1 else f"{self._calls:,} calls were"
        found = [
            f"check: {several} run unwatched, too. The outputs are at most {self._worst:.1e} "
            "apart, relative to their largest number."
        ]
        if self._empty:
            found.append(
                f"check: the output of {self._empty:,} holds no tensors in lists, tuples, "
                "dictionaries or dataclasses, so nothing was compared."
            )
        if self._others:
            found.append(
                f"check: {self._others:,} of other threads ran during one that was compared, and "
                "were not. Calls one after the other are."
            )
        return found

    # ── one call ──────────────────────────────────────────────────────────────────────────────

    def _blind(self, module: nn.Module, copies: Copies) -> dict[str, Tensor]:
        with self._away(), copies.in_place() as (args, kwargs):
            return {name: x.detach() for name, x in leaves(module(*args, **kwargs))}

    def _compare(
        self,
        module: nn.Module,
        again: Copies,
        expected: dict[str, Tensor],
        found: dict[str, Tensor],
    ) -> None:
        self._calls += 1
        self._empty += not expected and not found
        dtype = _coarsest(module, again, expected)
        step = torch.finfo(dtype).eps
        is_half = step > torch.finfo(torch.float32).eps
        limit = step / 2 if is_half else _FLOAT32 * step / torch.finfo(torch.float32).eps
        worst = distance(found, expected, self.real)
        size = mean if is_half else largest
        if distance(found, expected, self.real, size).apart > limit:
            floor = limit if is_half else 0.0
            if not self._is_as_near(module, again, expected, found, dtype, floor):
                self._failed = _message(worst, found, expected, dtype, limit)
                raise RuntimeError(self._failed)
        self._worst = max(self._worst, worst.apart)

    def _is_as_near(
        self,
        module: nn.Module,
        again: Copies,
        expected: dict[str, Tensor],
        found: dict[str, Tensor],
        dtype: torch.dtype,
        floor: float,
    ) -> bool:
        """Is the output at most twice as far as the blind one from what the model computes in a
        wider type? Then rounding explains it, of which the model makes much."""
        if dtype == torch.float64 or found.keys() != expected.keys():
            return False
        is_half = floor > 0
        wider, size = (torch.float32, mean) if is_half else (torch.float64, largest)
        device = next((x.device.type for x in expected.values()), "cpu")
        try:
            with torch.autocast(device, enabled=False):
                exact = self._blind(module, again.again(wider))
        except Exception:  # noqa: BLE001 — the model itself cannot, in this type
            return False
        own = max(distance(expected, exact, self.real, size).apart, floor)
        apart = distance(found, exact, self.real, size).apart
        return math.isfinite(own) and apart <= 2 * own


def _parameters(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, x) for name, x in module.named_parameters() if not x.is_inference()]


def _coarsest(module: nn.Module, copies: Copies, output: dict[str, Tensor]) -> torch.dtype:
    """The floating type that rounds the most of those that a call may compute in."""
    (args, kwargs), found = copies.given, {torch.float64}
    given = (x for _, x in leaves([args, kwargs]))
    for x in (*module.parameters(), *given, *output.values()):
        found.add(x.dtype)
        if torch.is_autocast_enabled(x.device.type):
            found.add(torch.get_autocast_dtype(x.device.type))
    return max((x for x in found if x.is_floating_point), key=lambda x: torch.finfo(x).eps)


def _message(
    worst: Distance,
    found: dict[str, Tensor],
    expected: dict[str, Tensor],
    dtype: torch.dtype,
    limit: float,
) -> str:
    name = worst.name or "the output"
    text = f"watch(): {name} must be what the model computes unwatched"
    if found.keys() != expected.keys():
        by = "unwatched" if expected.keys() - found.keys() else "watched"
        got = f"is there {by} only"
    elif found[worst.name].shape != expected[worst.name].shape:
        shapes = tuple(found[worst.name].shape), tuple(expected[worst.name].shape)
        got = f"is {shapes[0]} watched, and {shapes[1]} unwatched"
    else:
        a, b = worst.numbers
        got = f"differs by {worst.largest:.3g} at {list(worst.at)}: {a:g} watched, {b:g} unwatched"
        text += f", within {limit:.1e} of its size in {str(dtype).removeprefix('torch.')}"
    return (
        f"{text}; it {got}. What was seen is in the run, but the model computes otherwise when it "
        "is watched: a fault of regard, or of a model that asks whether it is."
    )
