"""Modules say what they compute, step by step, to whoever listens; usually nobody does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

_lock = threading.RLock()  # a signal handler may come in the middle
# Who listens, and in which thread. Replaced, never changed: who goes through it in one thread is
# not disturbed by another.
_listeners: tuple[tuple[int, Callable[[nn.Module, str, Tensor], None]], ...] = ()


@dataclass(frozen=True, eq=False)
class Told:
    """One step: which module, by its name in the model and itself; the step's name; its numbers."""

    path: str  # "" is the model itself
    module: nn.Module
    name: str
    tensor: Tensor


def tell(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Say that `module` has computed `tensor`, its step `name`. Costs nothing if nobody listens."""
    if _listeners:
        for thread, listener in _listeners:
            if thread == threading.get_ident():
                listener(module, name, tensor)


def is_heard() -> bool:
    """Does anybody listen in this thread? For what is worth computing only then."""
    if not _listeners:
        return False
    return any(thread == threading.get_ident() for thread, _ in _listeners)


@contextmanager
def listening(model: nn.Module) -> Generator[list[Told]]:
    """Inside the `with`, the list grows by every step that a module of `model` computes.

    The tensors are copies without gradient. Only what the thread that listens computes is heard.

    >>> import torch
    >>> from regard.nn import FeedForward
    >>> layer = FeedForward(3, hidden=5)
    >>> with listening(layer) as told:
    ...     _ = layer(torch.zeros(1, 2, 3))
    >>> [step.name for step in told]
    ['input', 'hidden', 'activated', 'output']
    """
    names = {id(module): name for name, module in model.named_modules()}
    told: list[Told] = []

    def listen(module: nn.Module, name: str, tensor: Tensor) -> None:
        path = names.get(id(module))
        if path is not None:
            told.append(Told(path, module, name, tensor.detach().clone()))

    global _listeners
    with _lock:
        _listeners = (*_listeners, (threading.get_ident(), listen))
    try:
        yield told
    finally:
        with _lock:
            _listeners = tuple(each for each in _listeners if each[1] is not listen)
