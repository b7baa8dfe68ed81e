"""The calls of modules: hooks around them, and the stack of those that are running."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard._watch.call import Call

# Arguments under which a module gets the sequence that it looks at, if it is another one.
OTHER_SEQUENCE = frozenset(("key_value_states", "encoder_hidden_states", "memory", "context"))

Function = Callable[..., Any]
# A module, and what is called instead of it: hook(run, module, *args, **kwargs), `run` being what
# the hook stands around. Of several for one module the last is the outermost.
Hook = tuple[nn.Module, Function]


class _Calls:
    """`nn.Module.__call__` as long as there are hooks, which it looks up.

    Nothing is written into a module, so that a copy of it is a copy of the model alone.
    """

    def __init__(self) -> None:
        before = self.before = nn.Module.__call__
        around = self.around = dict[int, Function]()  # by the id of the module

        def call(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            return around.get(id(module), before)(module, *args, **kwargs)

        self.call = call


_calls: _Calls | None = None


def install(hooks: Iterable[Hook]) -> None:
    """Have these hooks around the calls of modules, and no others. It can be done twice.

    >>> layer = nn.Identity()
    >>> install([(layer, lambda run, module, x: run(module, x) + 1)])
    >>> layer(3)
    4
    >>> install([])
    >>> layer(3)
    3
    """
    global _calls
    calls = _calls or _Calls()
    found: dict[int, Function] = {}
    for module, hook in hooks:
        found[id(module)] = partial(hook, found.get(id(module), calls.before))
    for gone in calls.around.keys() - found.keys():
        del calls.around[gone]
    calls.around.update(found)
    if not found:
        if nn.Module.__call__ is calls.call:
            nn.Module.__call__ = calls.before
        _calls = None
    elif _calls is None:
        _calls, nn.Module.__call__ = calls, calls.call


@dataclass(frozen=True)
class Running:
    """A module that is being computed."""

    name: str  # of the model itself: that of its class
    module: nn.Module
    cross: bool  # it looks at another sequence than its own

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Running:
        """The same, which its arguments may say to look at another sequence."""
        others = [x for name in OTHER_SEQUENCE if isinstance(x := kwargs.get(name), Tensor)]
        if self.cross or not others:
            return self
        own = next((x for x in args if isinstance(x, Tensor)), kwargs.get("hidden_states"))
        return replace(self, cross=any(x is not own for x in others))


# Computes a call of a module: the output, and the call as it was computed.
Attend = Callable[[Running, Call], tuple[Tensor, Call]]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.running: list[Running] = []
        self.given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []  # what they were called with


class Modules:
    """The modules of a model, and which of them are running in each thread."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.stack = _Stack()  # those that are being computed in this thread, the innermost last
        self.have_run = set[str]()  # the names of those that were computed
        self.by_id: dict[int, Running] = {}
        for name, module in model.named_modules():
            said = getattr(module, "is_cross_attention", None)
            is_named = said is None and "crossattention" in type(module).__name__.lower()
            known = Running(name or type(module).__name__, module, said is True or is_named)
            self.by_id[id(module)] = known

    def of(self, module: nn.Module) -> Running:
        """The running module that is `module`, or, if it is not on the stack, itself."""
        running = (each for each in reversed(self.stack.running) if each.module is module)
        return next(running, self.by_id[id(module)])

    def may_attend(self) -> Iterator[Running]:
        """Those that may compute attention, or hold one that may: all but PyTorch's linear layers,
        norms and activations, and TorchScript, which computes by itself."""
        for each in self.by_id.values():
            module = each.module
            is_torchs = type(module).__module__.startswith("torch.nn.")
            is_leaf = next(module.children(), None) is None
            is_plain = is_torchs and is_leaf and not isinstance(module, nn.MultiheadAttention)
            is_left_out = is_plain and module is not self.model
            if not is_left_out and not isinstance(module, torch.jit.ScriptModule):
                yield each


def main_tensor(x: Any) -> Tensor | None:
    """The tensor that a module is there for, detached; None if there is none."""
    found = output_of(x)
    return None if found is None else found.detach()


def output_of(x: Any) -> Tensor | None:
    """The tensor that a module is there for: the first floating one of what it returns."""
    if isinstance(x, Tensor):
        return x if x.is_floating_point() else None
    values = x.values() if isinstance(x, Mapping) else x
    if not isinstance(values, Iterable):
        return None
    named = (getattr(x, name, None) for name in ("logits", "last_hidden_state"))
    for value in (*named, *values):
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 0:
            return value
    return None
