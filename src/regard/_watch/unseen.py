"""`Unseen`: the modules of a watched model that attend in a way which nobody can see."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable

import torch
from torch import Tensor, nn

from regard._watch.mixers import Mixers
from regard._watch.modules import Modules, Running

_ATTENTION = re.compile("attention|attn")
_LAYER = re.compile("(layer|block|model|encoder|decoder)$")
# They choose experts, or keys, or make one key of several.
_ROUTER = re.compile("(router|gating|gate|experts?|indexer|compressor)( |$)", re.IGNORECASE)


class Open:
    """How many things are open of each module, in all threads together."""

    def __init__(self) -> None:
        self._counts = Counter[Running]()
        self._lock = threading.Lock()

    def add(self, running: Running, number: int) -> None:
        with self._lock:
            self._counts[running] += number

    @property
    def left(self) -> Iterable[Running]:
        return +self._counts


class Unseen:
    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._mixers = Mixers(modules)
        self._softmaxes = Open()  # of which it is not known what they are
        self._own: dict[str, nn.Module] = {}  # those that attend in a way of their own
        self._only_torch: dict[str, str] = {}  # what was given to PyTorch, which alone can do it
        self._in_part: dict[str, str] = {}  # of modules that may be seen otherwise, what was not

    def add(self, running: Running) -> None:
        self._own[running.name] = running.module

    def add_part(self, running: Running, what: str) -> None:
        """Some of what a module computes, though the rest of it is seen."""
        self._in_part[running.name] = what

    def add_softmax(self, x: Tensor) -> bool:
        """Is a softmax of x attention, by its shape or by the names of the modules around it? Then
        it is to be resolved, if it was seen after all.

        A model of transformers says by its names alone which of its modules attend. A layer around
        them may be called so for what else is in it, and a router chooses experts.
        """
        stack = self._modules.stack.running
        running = stack[-1]
        is_named = False
        *around, innermost = [type(each.module).__name__.lower() for each in stack]
        if not _ROUTER.search(f"{running.name} {innermost}"):
            others = (name for name in around if not _LAYER.search(name))
            is_named = any(_ATTENTION.search(name) for name in (innermost, *others))
        is_square = x.dim() == 3 and x.shape[-1] == x.shape[-2]
        is_said = type(running.module).__module__.startswith("transformers.")
        looks_so = not is_said and (x.dim() >= 4 or is_square) and x.shape[-1] >= 2
        is_mixer = self._mixers.is_inside(running.name)
        if not (looks_so or is_named) or is_mixer:
            return False
        self._softmaxes.add(running, 1)
        return True

    def resolve(self, running: Running) -> None:
        """A softmax of this module was seen."""
        self._softmaxes.add(running, -1)

    def add_sdpa(self, given: Iterable[Tensor]) -> None:
        """Attention of q, k and v that only PyTorch can compute."""
        kinds = [f"{'nested' if x.is_nested else tuple(x.shape)} {x.dtype}" for x in given]
        what = ", ".join(f"{name} {kind}" for name, kind in zip("qkv", kinds, strict=False))
        self._only_torch[self._modules.stack.running[-1].name] = what

    def sentences(self, seen: Collection[str]) -> list[str]:
        """What is to be said, modules that were seen after all aside."""
        self._own |= {each.name: each.module for each in self._softmaxes.left}
        kinds: dict[type[nn.Module], list[str]] = {}
        for name, module in self._own.items():
            if name not in seen:
                kinds.setdefault(type(module), []).append(name)
        found: list[str] = []
        for kind, names in kinds.items():
            several = len(names) > 1
            which = f"{names[0]} and {len(names) - 1:,} more" if several else names[0]
            if kind.__module__.startswith("transformers."):
                found.append(
                    f"{which}: {type(self._modules.model).__name__} of transformers computes "
                    "attention in its own way here, and cannot be seen."
                )
            else:
                does = "compute attention in their own way, and were" if several else ""
                found.append(
                    f"{which}: {does or 'computes attention in its own way, and was'} not seen. "
                    "torch.nn.functional.scaled_dot_product_attention in its place can be."
                )
        found += [
            f"{name}: attention of {what} was not seen, as only PyTorch computes it. Tensors that "
            "are dense, floating and broadcast to (B, H, N, D) can be."
            for name, what in self._only_torch.items()
            if name not in seen
        ]
        parts: dict[str, list[str]] = {}
        for name, what in self._in_part.items():
            parts.setdefault(what, []).append(name)
        found += [f"{', '.join(names)}: {what}" for what, names in parts.items()]
        scripted: list[str] = []
        for running in self._modules.by_id.values():
            name, module = running.name, running.module
            if isinstance(module, torch.jit.ScriptModule) and not name.startswith(tuple(scripted)):
                scripted.append(f"{name}.")
                try:
                    graph = str(module.inlined_graph)
                except (AttributeError, RuntimeError):
                    graph = "softmax"  # for all that is known
                if "softmax" in graph or "scaled_dot_product_attention" in graph:
                    found.append(
                        f"{name}: is TorchScript, which cannot be watched, so attention inside it "
                        "was not seen. The module that it was made from can be."
                    )
        return found + self._mixers.sentences({*seen, *self._own, *self._only_torch})
