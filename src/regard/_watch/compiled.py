"""Compiled modules and functions run uncompiled while a model is watched."""

from __future__ import annotations

import sys
import threading
from typing import Any, ClassVar

import torch

__all__ = ["Uncompiled"]


class Uncompiled:
    """While one of them is entered, nothing that was compiled runs as such."""

    _lock = threading.RLock()
    _users: ClassVar[list[Uncompiled]] = []
    _before: Any = None  # the stance of PyTorch that is to be put back

    def enter(self) -> None:
        """Nothing is compiled as long as dynamo is not imported, which takes long."""
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        if dynamo is None:
            return
        with self._lock:
            if not self._users:
                Uncompiled._before = dynamo._stance
            self._users.append(self)
            torch.compiler.set_stance("force_eager")

    def leave(self) -> None:
        """Also called again: an interrupt may have come in between."""
        with self._lock:
            if self in self._users:
                self._users.remove(self)
            if not self._users and Uncompiled._before is not None:
                sys.modules["torch._dynamo.eval_frame"]._set_stance(Uncompiled._before)
                Uncompiled._before = None
