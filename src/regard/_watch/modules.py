"""Which module of a watched model is running: the stack that their calls keep."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

__all__ = ["Modules", "Running"]

# Arguments under which a module gets the sequence that it looks at, if it is another one.
_OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "memory", "context")

_ATTENTION = re.compile("attention|attn")
_LAYER = re.compile("(layer|block|model|encoder|decoder)$")
_ROUTER = re.compile("(router|gating|gate|experts?)( |$)", re.IGNORECASE)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class Running:
    """A module that is being computed."""

    name: str
    module: nn.Module
    cross: bool = False  # it was handed another sequence to look at
    outermost: bool = False
    has_entered: bool = False  # the mode that catches attention, which was not there
    left_out: Tensor | None = None  # (B, N), the places that PyTorch's encoder gives 0 for


class Modules:
    """The modules of a model by name, and which of them are running in each thread.

    Nothing is written into a module, so that a copy of it is a copy of the model alone: while
    somebody watches, `nn.Module.__call__` is ours, and asks whether the module is a watched one.
    """

    _lock = threading.RLock()
    _watched: dict[int, Modules] = {}  # noqa: RUF012

    def __init__(self, model: nn.Module) -> None:
        self.root = model
        self.names = {id(module): name for name, module in model.named_modules()}
        self._local = threading.local()
        self._known: dict[int, Running] = {}
        self._parts: set[int] = set()
        self._norms: set[int] = set()  # of PyTorch's encoders
        self.scripted: dict[str, nn.Module] = {}  # TorchScript, which computes by itself

    def watch(
        self,
        entered: Callable[[Running, tuple[Any, ...], dict[str, Any]], Arguments],
        ended: Callable[[Running], None],
        left: Callable[[Running, Any], None],
    ) -> None:
        """Have `entered` told of every module that may compute attention, or holds one that may,
        when it is called; what it gives is what the module is called with. `ended` is told however
        the call ends, and `left` of what it gave."""
        self._entered, self._ended, self._left = entered, ended, left
        for name, module in self.root.named_modules():
            if name and not any(True for _ in module.children()) and _is_builtin(module):
                continue  # a linear layer, a norm, an activation
            if isinstance(module, torch.jit.ScriptModule):
                if not any(name.startswith(f"{other}.") for other in self.scripted):
                    self.scripted[name] = module
                continue
            self._known[id(module)] = Running(name, module, _is_cross(module))
            if isinstance(module, nn.TransformerEncoder) and module.norm is not None:
                self._norms.add(id(module.norm))
        with self._lock:
            self._watched.update(dict.fromkeys((*self._known, *self._norms), self))
            _open_door()

    def hear(
        self,
        parts: Collection[int],
        heard: Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], None],
    ) -> None:
        """Have `heard` told of what these modules, known by their ids, got and gave."""
        self._parts, self._heard = set(parts), heard
        with self._lock:
            self._watched.update(dict.fromkeys(self._parts, self))

    def release(self) -> None:
        """Look no more. Also called again: an interrupt may have come in between."""
        with self._lock:
            for key in [key for key, each in self._watched.items() if each is self]:
                del self._watched[key]
            if not self._watched:
                _close_door()

    def call(
        self,
        before: Callable[..., Any],
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call a module of the model."""
        if id(module) in self._norms and self._stack():
            args = _emptied(self._stack()[-1], module, args)
        known = self._known.get(id(module))
        if known is None:
            output = before(module, *args, **kwargs)
        else:
            stack = self._stack()
            depth = len(stack)
            cross = known.cross or _looks_elsewhere(args, kwargs)
            running = Running(known.name, module, cross, outermost=not depth)
            try:
                stack.append(running)
                args, kwargs = self._entered(running, args, kwargs)
                output = before(module, *args, **kwargs)
                if running.left_out is not None and cast("Any", module).norm is None:
                    output = output.masked_fill(running.left_out[..., None], 0.0)
            finally:
                del stack[depth:]
                self._ended(running)
            self._left(running, output)
        if id(module) in self._parts:
            self._heard(module, args, kwargs, output)
        return output

    def _stack(self) -> list[Running]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        stack: list[Running] = self._local.stack
        return stack

    def running(self) -> Running | None:
        """The innermost module that is being computed in this thread."""
        stack = self._stack()
        return stack[-1] if stack else None

    def is_in_attention(self) -> bool:
        """Is a module running whose class says that it is attention? A layer around it may be
        called so for what else is in it, and a router chooses experts."""
        stack = self._stack()
        *around, innermost = [type(each.module).__name__.lower() for each in stack]
        if _ROUTER.search(f"{stack[-1].name} {innermost}"):
            return False
        if _ATTENTION.search(innermost):
            return True
        return any(_ATTENTION.search(name) and not _LAYER.search(name) for name in around)

    def of(self, module: nn.Module) -> Running | None:
        """The running module that is `module`, or, if it is not on the stack, itself."""
        for each in reversed(self._stack()):
            if each.module is module:
                return each
        name = self.names.get(id(module))
        return None if name is None else Running(name, module, _is_cross(module))


def _emptied(around: Running, norm: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the last norm of an encoder is to get, which `around` may be."""
    if around.left_out is None or norm is not cast("Any", around.module).norm:
        return args
    return args[0].masked_fill(around.left_out[..., None], 0.0), *args[1:]


def _open_door() -> None:
    if not hasattr(nn.Module.__call__, "before"):
        nn.Module.__call__ = _door(nn.Module.__call__)


def _close_door() -> None:
    door: Any = nn.Module.__call__
    if hasattr(door, "before"):
        nn.Module.__call__ = door.before


def _door(before: Callable[..., Any]) -> Callable[..., Any]:
    """The call of a module, which is asked first whether it is watched."""
    watched = Modules._watched

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        modules = watched.get(id(self))
        if modules is None:
            return before(self, *args, **kwargs)
        return modules.call(before, self, args, kwargs)

    call.before = before  # pyright: ignore[reportFunctionMemberAccess]
    return call


def _is_builtin(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn.") and not isinstance(
        module, nn.MultiheadAttention
    )


def _is_cross(module: nn.Module) -> bool:
    """Does it say of itself that it looks at another sequence?"""
    said = getattr(module, "is_cross_attention", None)
    return said is True or (said is None and "crossattention" in type(module).__name__.lower())


def _looks_elsewhere(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    own = next((x for x in args if isinstance(x, Tensor)), kwargs.get("hidden_states"))
    for name in _OTHER_SEQUENCE:
        other = kwargs.get(name)
        if isinstance(other, torch.Tensor) and other is not own:
            return True
    return False
