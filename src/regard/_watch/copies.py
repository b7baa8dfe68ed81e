"""`Copies`: what a call of a module may change, so that it can be computed once more."""

from __future__ import annotations

import copy
import random
from collections import OrderedDict, deque
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard._attention.eager import PLAIN

_State = list[tuple[nn.Module, dict[str, Any]]]


class Copies:
    """Copies of arguments, and of what modules hold beside their parameters: buffers, and anything
    else. What is one tensor or one memory stays one. With `dtype`, floating ones, parameters too,
    become of that type."""

    def __init__(self, state: _State, given: Any, dtype: torch.dtype | None = None) -> None:
        self._dtype = dtype
        self._known: dict[int, tuple[Any, Any]] = {}  # by id: what it is of, which keeps the id
        self._memories: dict[tuple[int, int], torch.UntypedStorage] = {}
        self._state: _State = []
        self._sources = {id(module): held for module, held in state}
        for module, _ in state:
            self._copied(module)
        self.given = self._copied(given)

    @classmethod
    def of(cls, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Copies:
        return cls([(model, vars(model))], (args, kwargs))

    def again(self, dtype: torch.dtype | None = None) -> Copies:
        """Copies of these copies."""
        return Copies(self._state, self.given, dtype)

    @contextmanager
    def in_place(self) -> Generator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Inside, the modules hold the copies, and these are the arguments; random numbers are
        drawn, and gradients left, without a trace."""
        held = [(module, dict(vars(module))) for module, _ in self._state]
        # A hook that takes itself away does it in here.
        hooks = [
            (x, list(x.items()))
            for _, attributes in held
            for x in attributes.values()
            if isinstance(x, OrderedDict)
        ]
        parameters = {x for _, attributes in held for x in attributes["_parameters"].values()}
        gradients = [(x, x.grad) for x in parameters if x is not None]
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        drawn = random.getstate(), np.random.get_state()  # noqa: NPY002 — what others draw from
        with torch.random.fork_rng(devices=devices):
            try:
                for module, attributes in self._state:
                    vars(module).update(attributes)
                for x, _ in gradients:
                    x.grad = None
                yield self.given
            finally:
                for module, attributes in held:
                    vars(module).clear()
                    vars(module).update(attributes)
                for known, items in hooks:
                    if list(known.items()) != items:
                        known.clear()
                        known.update(items)
                for x, gradient in gradients:
                    x.grad = gradient
                random.setstate(drawn[0])
                np.random.set_state(drawn[1])  # noqa: NPY002

    # ── copying ───────────────────────────────────────────────────────────────────────────────

    def _copied(self, x: Any) -> Any:
        if id(x) in self._known:
            return self._known[id(x)][1]
        if isinstance(x, nn.Module):  # stays what it is, and what it holds is copied
            self._keep(x, x)
            if not isinstance(x, torch.jit.ScriptModule):
                copies: dict[str, Any] = {}
                self._state.append((x, copies))
                for name, value in list(self._sources.get(id(x), vars(x)).items()):
                    copies[name] = self._copied(value)
            return x
        if isinstance(x, Tensor):
            return self._keep(x, self._tensor(x))
        if isinstance(x, torch.Generator):
            return self._keep(x, x.clone_state())
        if isinstance(x, np.ndarray | np.random.Generator | np.random.RandomState | random.Random):
            return self._keep(x, copy.deepcopy(x))
        if isinstance(x, dict | list | set | deque):
            new = self._keep(x, copy.copy(x))
            if not isinstance(x, set):
                for key, value in list(x.items() if isinstance(x, dict) else enumerate(x)):
                    new[key] = self._copied(value)
            return new
        if isinstance(x, tuple):
            values = [self._copied(value) for value in x]
            if all(a is b for a, b in zip(values, x, strict=True)):
                return x
            return self._keep(x, type(x)(*values) if hasattr(x, "_fields") else tuple(values))
        is_plain = type(x).__new__ is object.__new__ and not isinstance(x, type | ModuleType)
        if is_plain and getattr(x, "__dict__", None):
            new = self._keep(
                x, copy.copy(x) if hasattr(x, "__slots__") else object.__new__(type(x))
            )
            vars(new).update({name: self._copied(value) for name, value in vars(x).items()})
            return new
        return x

    def _keep(self, x: Any, new: Any) -> Any:
        self._known[id(x)] = x, new
        return new

    def _tensor(self, x: Tensor) -> Tensor:
        is_other = self._dtype is not None and x.is_floating_point()
        if isinstance(x, nn.Parameter):
            return nn.Parameter(x.detach().to(self._dtype), x.requires_grad) if is_other else x
        is_dense = type(x) in PLAIN and x.layout == torch.strided and not x.is_meta
        if is_other:
            new = x.detach().to(self._dtype, copy=True)
        elif not is_dense or x.is_nested or x.is_conj() or x.is_neg() or x.is_quantized:
            new = x.detach().clone()
        else:
            memory = x.untyped_storage()
            at = memory.data_ptr(), memory.nbytes()
            if at not in self._memories:
                self._memories[at] = memory.clone()
            new = torch.empty(0, dtype=x.dtype, device=x.device)
            new.set_(self._memories[at], x.storage_offset(), x.shape, x.stride())
        if x.requires_grad:
            new.requires_grad_()
            if x.grad_fn is not None:
                new = new.clone()  # into which one may write, as into x
        return new
