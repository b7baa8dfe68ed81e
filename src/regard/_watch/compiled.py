"""Compiled modules and functions run uncompiled while a model is watched."""

from __future__ import annotations

import sys
import threading
from typing import Any

import torch

__all__ = ["Uncompiled"]


class Uncompiled:
    """While one of them is entered, nothing that was compiled runs as such."""

    _lock = threading.Lock()
    _users = 0
    _stance: Any = None  # of PyTorch, and how to put it back

    def __init__(self) -> None:
        self._is_entered = False

    def enter(self) -> None:
        """Also called again, as long as nothing has been compiled: importing dynamo takes long."""
        if self._is_entered or "torch._dynamo" not in sys.modules:
            return
        with self._lock:
            self._is_entered = True
            if not Uncompiled._users:
                Uncompiled._stance = torch.compiler.set_stance("force_eager")
            Uncompiled._users += 1

    def leave(self) -> None:
        if not self._is_entered:
            return
        with self._lock:
            self._is_entered = False
            Uncompiled._users -= 1
            if not Uncompiled._users:
                Uncompiled._stance.__exit__(None, None, None)
                Uncompiled._stance = None
