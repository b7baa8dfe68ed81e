"""Which module of a watched model is running: the stack that its hooks keep."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

__all__ = ["Modules", "Running"]

# Arguments under which a module gets the sequence that it looks at, if it is another one.
_OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "memory", "context")


@dataclass
class Running:
    """A module that is being computed."""

    name: str
    module: nn.Module
    cross: bool = False  # it was handed another sequence to look at
    outermost: bool = False
    has_entered: bool = False  # the mode that catches attention, which was not there
    frame: FrameType | None = None  # in which it is called

    @property
    def is_over(self) -> bool:
        """Has the call ended without a word, as an interrupt ends it?"""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is None


class Modules:
    """The modules of a model by name, and which of them are running in each thread."""

    def __init__(self, model: nn.Module) -> None:
        self.root = model
        self.names = {id(module): name for name, module in model.named_modules()}
        self._local = threading.local()
        self._handles: list[RemovableHandle] = []
        self.scripted: dict[str, nn.Module] = {}  # TorchScript, which takes no hooks

    def watch(
        self,
        entered: Callable[[Running, tuple[Any, ...], dict[str, Any]], None],
        left: Callable[[Running, Any], None],
    ) -> None:
        """Hook every module that may compute attention, and those that hold one."""
        for name, module in self.root.named_modules():
            if name and not any(True for _ in module.children()) and _is_builtin(module):
                continue  # a linear layer, a norm, an activation
            if isinstance(module, torch.jit.ScriptModule):
                if not any(name.startswith(f"{other}.") for other in self.scripted):
                    self.scripted[name] = module
                continue
            self._hook(Running(name, module, _is_cross(module)), entered, left)

    def _hook(
        self,
        running: Running,
        entered: Callable[[Running, tuple[Any, ...], dict[str, Any]], None],
        left: Callable[[Running, Any], None],
    ) -> None:
        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            cross = running.cross or _looks_elsewhere(args, kwargs)
            now = Running(running.name, running.module, cross)
            now.frame = sys._getframe(1)
            stack = self._alive()
            now.outermost = not stack
            stack.append(now)
            entered(now, args, kwargs)

        def after(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            stack = self._stack()
            while stack and stack[-1].module is not running.module and stack[-1].is_over:
                stack.pop()
            if stack and stack[-1].module is running.module:
                left(stack.pop(), output)

        module = running.module
        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(after, always_call=True))

    def release(self) -> None:
        """Take every hook away again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _stack(self) -> list[Running]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        stack: list[Running] = self._local.stack
        return stack

    def _alive(self) -> list[Running]:
        """The stack without what an interrupt has left there."""
        stack = self._stack()
        while stack and stack[-1].is_over:
            stack.pop()
        return stack

    def running(self) -> Running | None:
        """The innermost module that is being computed in this thread."""
        stack = self._alive()
        return stack[-1] if stack else None

    def is_in_attention(self) -> bool:
        """Is a module running whose class says that it is attention?"""
        names = (type(each.module).__name__.lower() for each in self._stack())
        return any("attention" in name or "attn" in name for name in names)

    def of(self, module: nn.Module) -> Running | None:
        """The running module that is `module`, or, if it is not on the stack, itself."""
        for each in reversed(self._stack()):
            if each.module is module:
                return each
        name = self.names.get(id(module))
        return None if name is None else Running(name, module, _is_cross(module))


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
