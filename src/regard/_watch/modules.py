"""The calls of modules: hooks around them, and the stack of those that are running."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

# Arguments under which a module gets the sequence that it looks at, if it is another one.
_OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "memory", "context")


@dataclass(slots=True)
class ModuleCall:
    """A call of a module, with the hooks around it that have not been asked yet."""

    _call: Callable[..., Any]
    _hooks: tuple[Hook, ...]
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        """What the module returns, with what the hooks inside of this one make of it."""
        if not self._hooks:
            return self._call(self.module, *self.args, **self.kwargs)
        *inner, outer = self._hooks
        self._hooks = tuple(inner)
        return outer(self)


# A hook runs the call that it stands around, and returns what it is to return.
Hook = Callable[[ModuleCall], Any]


class Hooks:
    """Hooks around the calls of modules, the last one outermost.

    Nothing is written into a module, so that a copy of it is a copy of the model alone: while any
    hooks are entered, `nn.Module.__call__` is ours, and looks them up.

    >>> hooks, layer = Hooks(), nn.Identity()
    >>> hooks.add(layer, lambda call: call.run() + 1)
    >>> hooks.enter()
    >>> layer(3)
    4
    >>> hooks.leave()
    >>> layer(3)
    3
    """

    _lock = threading.RLock()
    _entered: ClassVar[list[Hooks]] = []
    _by_module: ClassVar[dict[int, tuple[Hook, ...]]] = {}  # those that are entered, by id

    def __init__(self) -> None:
        self._own: list[tuple[nn.Module, Hook]] = []

    def add(self, module: nn.Module, hook: Hook) -> None:
        self._own.append((module, hook))

    def enter(self) -> None:
        with self._lock:
            self._entered.append(self)
            self._install()

    def leave(self) -> None:
        """Also called again: an interrupt may have come in between."""
        with self._lock:
            if self in self._entered:
                self._entered.remove(self)
            self._install()

    @classmethod
    def _install(cls) -> None:
        found: dict[int, tuple[Hook, ...]] = {}
        for hooks in cls._entered:
            for module, hook in hooks._own:
                found[id(module)] = (*found.get(id(module), ()), hook)
        Hooks._by_module = found
        before: Any = nn.Module.__call__
        if not found:
            nn.Module.__call__ = getattr(before, "before", before)
        elif not hasattr(before, "before"):

            def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
                hooks = Hooks._by_module.get(id(self))
                if hooks is None:
                    return before(self, *args, **kwargs)
                return ModuleCall(before, hooks, self, args, kwargs).run()

            call.before = before  # pyright: ignore[reportFunctionMemberAccess]
            nn.Module.__call__ = call


@contextmanager
def each_block(model: nn.Module, report: Callable[[int, int], None]) -> Generator[None]:
    """While it is entered, `report` gets the number of each block that is done, and of how many.

    Blocks are what stands in the longest list of the model. `report` may raise, which stops it.

    >>> done = []
    >>> model = nn.Module()
    >>> model.blocks = nn.ModuleList([nn.Identity(), nn.Identity()])
    >>> with each_block(model, lambda number, total: done.append((number, total))):
    ...     _ = model.blocks[1](model.blocks[0](torch.zeros(1)))
    >>> done
    [(1, 2), (2, 2)]
    """
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    blocks = list(max(stacks, key=len, default=[]))

    def around(number: int, call: ModuleCall) -> Any:
        output = call.run()
        report(number, len(blocks))
        return output

    hooks = Hooks()
    for number, block in enumerate(blocks, 1):
        hooks.add(block, partial(around, number))
    try:
        hooks.enter()
        yield
    finally:
        hooks.leave()


@dataclass(frozen=True)
class Running:
    """A module that is being computed."""

    name: str
    module: nn.Module
    cross: bool  # it looks at another sequence than its own

    def called(self, call: ModuleCall) -> Running:
        """The same, which its arguments may say to look at another sequence."""
        if self.cross or not call.kwargs:
            return self
        others = [x for name in _OTHER_SEQUENCE if isinstance(x := call.kwargs.get(name), Tensor)]
        if not others:
            return self
        tensors = (x for x in call.args if isinstance(x, Tensor))
        own = next(tensors, call.kwargs.get("hidden_states"))
        return replace(self, cross=any(x is not own for x in others))


class Modules:
    """The modules of a model, and which of them are running in each thread."""

    def __init__(self, model: nn.Module) -> None:
        self._local = threading.local()
        self.by_id: dict[int, Running] = {}
        for name, module in model.named_modules():
            said = getattr(module, "is_cross_attention", None)
            is_named = said is None and "crossattention" in type(module).__name__.lower()
            self.by_id[id(module)] = Running(name, module, said is True or is_named)

    @property
    def stack(self) -> list[Running]:
        """Those that are being computed in this thread, the innermost last."""
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        stack: list[Running] = self._local.stack
        return stack

    def of(self, module: nn.Module) -> Running:
        """The running module that is `module`, or, if it is not on the stack, itself."""
        running = (each for each in reversed(self.stack) if each.module is module)
        return next(running, self.by_id[id(module)])


def may_attend(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules by name that may compute attention, or hold one that may: all but PyTorch's
    linear layers, norms and activations, and TorchScript, which computes by itself."""
    for name, module in model.named_modules():
        is_torchs = type(module).__module__.startswith("torch.nn.")
        is_leaf = next(module.children(), None) is None
        is_plain = is_torchs and is_leaf and not isinstance(module, nn.MultiheadAttention)
        if not (name and is_plain) and not isinstance(module, torch.jit.ScriptModule):
            yield name, module


def main_tensor(x: Any) -> Tensor | None:
    """The tensor that a module is there for: the first floating one of what it returns."""
    if isinstance(x, Tensor):
        return x.detach() if x.is_floating_point() else None
    values = x.values() if isinstance(x, Mapping) else x
    if not isinstance(values, Iterable):
        return None
    named = (getattr(x, name, None) for name in ("logits", "last_hidden_state"))
    for value in (*named, *values):
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 0:
            return value.detach()
    return None
