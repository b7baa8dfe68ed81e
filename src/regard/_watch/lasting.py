"""What is installed: whom our attention serves outside a watch, and which weights it gives out."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from regard._watch.call import Call

NAME = "regard"  # of the implementation, as transformers knows it


@dataclass
class Installed:
    """`weights`: of each layer by number, the heads whose weights are given out, None: all; without
    it, those of all heads of all layers."""

    weights: Mapping[int, tuple[int, ...] | None] | None = None
    # The configurations of models that were given our attention.
    _configs: Any = field(default_factory=WeakIdKeyDictionary)
    # Modules that do not know their number: by configuration and class, in the order of their runs.
    _numbers: Any = field(default_factory=WeakIdKeyDictionary)
    _lock: Any = field(default_factory=threading.Lock)

    def with_weights(self, weights: Mapping[int, tuple[int, ...] | None] | None) -> Installed:
        """The same, with other weights that are given out."""
        return replace(self, weights=weights)

    def remember(self, config: Any, is_ours: bool) -> None:
        if is_ours:
            self._configs[config] = True
        else:
            self._configs.pop(config, None)

    def serves(self, module: nn.Module, kind: str) -> bool:
        """Was the model of this module given our attention, though its configuration says another?

        Whisper writes "eager" there while it generates, to have weights.
        """
        return kind == "eager" and getattr(module, "config", None) in self._configs

    def number_of(self, module: nn.Module) -> int:
        """Which layer a module is in."""
        said = getattr(module, "layer_idx", None)
        if isinstance(said, int):
            return said
        with self._lock:
            config = getattr(module, "config", module)
            modules = self._numbers.setdefault(config, WeakIdKeyDictionary())
            if module not in modules:
                modules[module] = sum(type(each) is type(module) for each in modules)
            return modules[module]

    def weights_of(self, module: nn.Module, call: Call) -> Tensor | None:
        """The weights (B, H, Nq, Nk) that a caller gets who asks for them: NaN in heads that were
        not asked for, None if none was."""
        if self.weights is None:
            return call.weights()
        number, n_heads = self.number_of(module), call.q.shape[1]
        if number not in self.weights:
            return None
        heads = self.weights[number]
        if heads is None:
            return call.weights()
        wrong = [head for head in heads if head >= n_heads]
        if wrong:
            raise ValueError(
                f"install(): heads of layer {number} must be from 0 to {n_heads - 1}; got "
                f"{wrong[0]}. It has {n_heads} of them."
            )
        every = call.q.new_full((), torch.nan).expand(
            len(call.q), 1, call.q.shape[2], call.k.shape[2]
        )
        found = [_of_head(call, head) if head in heads else every for head in range(n_heads)]
        return torch.cat(found, 1) if found else None


def _of_head(call: Call, head: int) -> Tensor:
    """The weights (B, 1, Nq, Nk) of one head."""
    group = head // (call.q.shape[1] // call.k.shape[1])
    links = {
        query: [(0 if at == head else at, row, key) for at, row, key in some if at in (head, _ALL)]
        for query, some in call.links.items()
    }
    one = replace(
        call,
        q=call.q[:, head : head + 1],
        k=call.k[:, group : group + 1],
        v=call.v[:, :1],
        options=call.options.head(head),
        links={query: some for query, some in links.items() if some},
    )
    return one.weights()


_ALL = slice(None)


class NotAsked(Tensor):
    """Weights that were not asked for, where transformers takes no None: NaN, without memory."""

    @classmethod
    def of(cls, call: Call) -> NotAsked:
        shape = (*call.q.shape[:3], call.k.shape[2])
        return call.q.new_full((), torch.nan).detach().expand(shape).as_subclass(cls)


class _Collected(list[Any]):
    """What transformers collects of its modules: None for what was not asked for."""

    def append(self, x: Any) -> None:
        super().append(None if isinstance(x, NotAsked) else x)


def not_asked(call: Call) -> NotAsked | None:
    """What a module is to give out instead of weights that were not asked for."""
    collected = collector()
    if collected is None:
        return None
    # It would leave out a None, and so shift the layers behind it.
    for name, found in collected.items():
        if "attentions" in name and type(found) is list:
            collected[name] = _Collected(found)
    return NotAsked.of(call)


def collector() -> dict[str, Any] | None:
    """What transformers collects in this pass, if it does by hooks."""
    capturing = sys.modules.get("transformers.utils.output_capturing")
    return None if capturing is None else capturing._active_collector.get()


installed: Installed | None = None


def now() -> Installed | None:
    """What is installed."""
    return installed


def set_installed(new: Installed | None) -> None:
    global installed
    installed = new
