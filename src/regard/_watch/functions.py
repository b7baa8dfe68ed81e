"""Catching attention functions: SDPA by any name, `nn.MultiheadAttention`, `regard.attention`.

All other operations go by `ByHand`, which finds attention that is written out.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import _GeneratorContextManager, contextmanager
from dataclasses import replace
from types import FunctionType, TracebackType
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode_temporarily,
)

from regard._arguments import WrongType, WrongValue
from regard._attention import Options, attention, scaled_dot_product_attention
from regard._attention.checks import check, check_dropout, check_see
from regard._attention.eager import PLAIN, is_causal_bias
from regard._attention.sdpa import read_sdpa
from regard._watch.by_hand import ByHand
from regard._watch.call import Call
from regard._watch.flex import flex_call, flex_output
from regard._watch.hugging_face_masks import Pattern, made_whole
from regard._watch.masks import read_masks
from regard._watch.modules import Attend, Modules
from regard._watch.unseen import Unseen
from regard.observation import See

# PyTorch's own, whatever is installed in its place.
_sdpa: Any = torch._C._nn.scaled_dot_product_attention  # pyright: ignore[reportAttributeAccessIssue]
_mha = F.multi_head_attention_forward
_MHA_SIGNATURE = inspect.signature(_mha)
# PyTorch's stack of modes in this thread.
_size, _at = torch._C._len_torch_function_stack, torch._C._get_function_stack_at
_pop, _push = torch._C._pop_torch_function_stack, torch._C._push_on_torch_function_stack
_TAKES_AWAY = inspect.unwrap(_pop_mode_temporarily).__code__
_T = TypeVar("_T")
# What is called below PyTorch's functions: flex_attention comes by here, too.
_OPERATORS = (OpOverload, OpOverloadPacket, HigherOrderOperator)
_SDPA = {_sdpa, scaled_dot_product_attention}
_CAUGHT = {
    *(_mha, attention),
    *(F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax, F.log_softmax),
}


class Functions(TorchFunctionMode):
    """While it is entered, attention that is computed by known functions goes to `attend`.

    Nothing is touched unless a watched module is running. `unseen` gets attention that only PyTorch
    can compute, and every softmax with two axes or more.
    """

    def __init__(self, modules: Modules, attend: Attend, unseen: Unseen) -> None:
        super().__init__()
        self._modules = modules
        self._attend = attend
        self._unseen = unseen
        self.by_hand = ByHand(modules, attend, unseen)
        self._ordinary: set[Any] = set()  # functions that are none of those above

    def enter(self) -> None:
        _push(self)

    @property
    def is_entered(self) -> bool:
        """In this thread, and not in a backward pass, which knows no modes."""
        return any(mode is self for mode in _get_current_function_mode_stack())

    def aside(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Compute what is the work of a watch, which every mode of ours lets pass; and without this
        mode, which, if it is on top, would be asked about every step."""
        before, size = _work.depth, _size()
        is_on_top = size > 0 and _at(size - 1) is self
        try:
            _work.depth = before + 1
            if is_on_top:
                _pop()
            return function(*args, **kwargs)
        finally:
            if is_on_top and _size() < size:
                _push(self)
            _work.depth = before

    def leave(self) -> None:
        """Take this mode away, also from under others that were entered later."""
        others = [mode for mode in _get_current_function_mode_stack() if mode is not self]
        if len(others) == _size():
            return
        try:
            _put(others)
        finally:
            if _get_current_function_mode_stack() != others:  # an interrupt came in between
                _put(others)

    @contextmanager
    def away(self) -> Generator[None]:
        """Inside, this mode is not entered; then all are where they were."""
        before = _get_current_function_mode_stack()
        try:
            self.leave()
            yield
        finally:
            _put(before)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given: dict[str, Any] = kwargs or {}
        if _work.depth or not self._modules.stack.running:
            return func(*args, **given)
        # A step of a generation has thousands of these.
        if func in self._ordinary and func is not F.scaled_dot_product_attention:
            return self.by_hand.follow(func, args, given)
        is_sdpa = func in _SDPA or func is F.scaled_dot_product_attention  # what is installed there
        if not is_sdpa and func not in _CAUGHT:
            if isinstance(func, _OPERATORS) and "attention" in str(func):
                if str(func) == "flex_attention" and len(args) >= 7:
                    return self._flex(func, *args, **given)
                if not str(func).startswith("aten.scaled_dot_product_attention"):
                    self._unseen.add(self._modules.stack.running[-1])
                    return func(*args, **given)
                return self._sdpa(func, *args, **given)
            self._ordinary.add(func)
            return self.by_hand.follow(func, args, given)
        if Pattern in types:
            args, given = made_whole(args), made_whole(given)
        if is_sdpa:
            return self._sdpa(func, *args, **given)
        if func is _mha:
            return self.aside(self._multi_head_attention, *args, **given)
        if func is attention:
            return self._attention(*args, **given)
        if args and isinstance(args[0], Tensor) and args[0].dim() >= 2:
            return self.by_hand.softmax(func, args, given)
        return func(*args, **given)

    def _sdpa(self, function: Callable[..., Tensor], *given: Any, **named: Any) -> Tensor:
        found = _sdpa_call(given, named)
        if found is None:
            tensors = [x for x in (*given, *named.values()) if isinstance(x, Tensor)]
            self._unseen.add_sdpa(tensors[:3])
            return function(*given, **named)
        call, layout, axes = found
        out, _ = self._attend(self._modules.stack.running[-1], call)
        if len(axes) != 2:
            return out.view(*axes, *out.shape[2:]).contiguous()
        if layout == "query":
            as_query = torch.empty_like(call.q, requires_grad=False)
            return out if out.stride() == as_query.stride() else as_query.copy_(out)
        return out.contiguous() if layout == "contiguous" else out

    def _flex(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        running = self._modules.stack.running[-1]
        call = self.aside(flex_call, *given, **named) if not named else None
        if call is None:
            self._unseen.add(running)
            return function(*given, **named)
        out, call = self._attend(running, call)
        return self.aside(flex_output, given[0], out, call, given[6])

    def _attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        dropout: float = 0.0,
        see: See | None = None,
        backend: str | None = None,
        **given: Any,
    ) -> Any:
        name = "attention()"
        options = check(name, {"q": q, "k": k, "v": v}, Options(**given))
        if see is not None:
            check_see(name, see, q, k)
        call = Call(q, k, v, options, check_dropout(name, dropout), backend=backend)
        out, call = self._attend(self._modules.stack.running[-1], read_masks(call))
        if see is None:
            return out
        with torch.no_grad():  # the caller's look is his own: other queries, other sizes
            call = replace(call, dropout=0.0, queries=None, cross=False)
            return out, self.aside(call.compute, see)[1]

    def _multi_head_attention(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """What `nn.MultiheadAttention` computes, with our attention between its projections."""
        bound = _MHA_SIGNATURE.bind(*args, **kwargs)
        bound.apply_defaults()
        given: dict[str, Any] = dict(bound.arguments)
        query, key, padding = given["query"], given["key"], given["key_padding_mask"]
        is_same = query is key or (
            query.shape == key.shape and query.device == key.device and torch.equal(query, key)
        )
        more_keys = (given["bias_k"] is not None) + bool(given["add_zero_attn"])
        inner: dict[str, Any] = {**given, "need_weights": False}
        if (given["need_weights"] or padding is not None) and given["attn_mask"] is not None:
            inner["is_causal"] = False  # a hint that PyTorch follows only without these
        if padding is not None:
            # PyTorch would merge the two masks into one of (B · H, Nq, Nk).
            padding = F.pad(padding if query.dim() == 3 else padding[None], (0, more_keys))
            inner["key_padding_mask"] = None
        calls: list[Call] = []

        def ours(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
            found = _sdpa_call((query, key, value, *others), {}, padding, cross=not is_same)
            if found is None:
                self._unseen.add_sdpa((query, key, value))
                raise _OnlyTorch
            call = found[0]
            if more_keys and is_same:
                # Behind the tokens there are keys that are none: query i stands where key i does.
                options = call.options
                options = options if options.causal else replace(options, position=0)
                real = None if call.keys is None else call.keys[:, : call.q.shape[2]]
                call = replace(call, options=options, queries=real)
            out, call = self._attend(self._modules.stack.running[-1], call)
            calls.append(call)
            return out

        # PyTorch's function with another SDPA, under the name by which it hands itself to modes.
        names: dict[str, Any] = {**_mha.__globals__, "scaled_dot_product_attention": ours}
        function = FunctionType(_mha.__code__, names, _mha.__name__, _mha.__defaults__)
        names[_mha.__name__] = function
        try:
            output, _ = function(**inner)
        except _OnlyTorch:
            return _mha(**given)
        if not given["need_weights"]:
            return output, None
        weights = calls[-1].weights().to(output.dtype)
        weights = weights.mean(1) if given["average_attn_weights"] else weights
        return output, weights if query.dim() == 3 else weights[0]


class _OnlyTorch(Exception):
    """This is attention that only PyTorch can compute."""


def _sdpa_call(
    given: tuple[Any, ...],
    named: dict[str, Any],
    padding: Tensor | None = None,
    cross: bool | None = None,
) -> tuple[Call, str, tuple[int, ...]] | None:
    """SDPA's arguments as a call, how its output lies in memory, and its axes before the last two.
    None for what only PyTorch can do, or refuse.

    `padding` (B, Nk) is PyTorch's key_padding_mask: True, or −inf, is padding. `cross` says whether
    the keys are of another sequence; None: it is not known.
    """
    for x in (*given, *named.values()):
        if isinstance(x, Tensor) and type(x) not in PLAIN and not is_causal_bias(x):
            return None
    mask = given[3] if len(given) > 3 else named.get("attn_mask")
    if isinstance(mask, Tensor) and mask.dim() < 2:  # which PyTorch refuses
        return None
    try:
        q, k, v, options, dropout, layout, axes = read_sdpa(*given, **named)
        name = "scaled_dot_product_attention()"
        options = check(name, {"q": q, "k": k, "v": v}, options)
    except (WrongType, WrongValue):
        return None
    if len(axes) == 1 and k.shape[1] in (1, q.shape[1]):  # of sequences, not of heads
        q, k, v = (x.expand(-1, q.shape[1], -1, -1).transpose(0, 1) for x in (q, k, v))
        masks = {"mask": options.mask, "bias": options.bias}
        masks = {name: x.transpose(0, 1) for name, x in masks.items() if x is not None}
        options = replace(options, **masks)
    call = Call(q, k, v, options, dropout, bool(cross), cross is not None, as_pytorch=True)
    call = read_masks(call)
    if padding is not None:
        options, padding = call.options, padding[:, None, None, :]
        if padding.dtype == torch.bool:
            mask = ~padding if options.mask is None else options.mask & ~padding
            options = replace(options, mask=mask)
        else:
            bias = padding if options.bias is None else options.bias + padding
            options = replace(options, bias=bias)
        call = read_masks(replace(call, options=options))
    return call, layout, axes


# ── the mode, and the work of a watch ─────────────────────────────────────────────────────────


def settle(trace: TracebackType | None) -> None:
    """Let functions of PyTorch that an error came through put their modes back now.

    They take a mode away by a generator. If an interrupt came as that was entered or left, it
    would go on only when the traceback is let go of, and enter the mode again.
    """
    while trace is not None:
        manager = trace.tb_frame.f_locals.get("self")
        if isinstance(manager, _GeneratorContextManager):
            generator = getattr(manager, "gen", None)
            if generator is not None and generator.gi_code is _TAKES_AWAY:
                generator.close()
        trace = trace.tb_next


def _put(modes: list[TorchFunctionMode]) -> None:
    """Have these modes entered in this thread, and no others."""
    while _size():
        _pop()
    for mode in modes:
        _push(mode)


class _Work(threading.local):
    """How deep this thread is in the work of a watch, which no watch is to look at."""

    depth = 0


_work = _Work()


def off_work() -> None:
    """Nobody watches any more: what an interrupt has left of `aside` in this thread is over."""
    _work.depth = 0
