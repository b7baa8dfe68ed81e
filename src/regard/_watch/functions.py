"""Catching PyTorch's own attention: SDPA by any name, and `nn.MultiheadAttention`."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
)

from regard._attention import weights
from regard._watch.call import Call, as_autocast
from regard.run import Options

__all__ = ["Functions"]

_sdpa = F.scaled_dot_product_attention
_mha = F.multi_head_attention_forward
_MHA_SIGNATURE = inspect.signature(_mha)
_SOFTMAX = frozenset(
    (F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax, F.log_softmax)
)


class Functions(TorchFunctionMode):
    """While it is entered, attention that is computed by PyTorch's functions goes to `attend`.

    `is_on` says whether a watched module is running, without which nothing is touched. `attend`
    gets the call, and gives the output and the call as it was computed. `missed` is told of
    attention that only PyTorch can compute, `softmax` of every softmax with three axes or more.
    """

    def __init__(
        self,
        is_on: Callable[[], bool],
        attend: Callable[[Call], tuple[Tensor, Call]],
        missed: Callable[[], None],
        softmax: Callable[[Tensor], None],
    ) -> None:
        super().__init__()
        self._is_on = is_on
        self._attend = attend
        self._missed = missed
        self._softmax = softmax

    def enter(self) -> None:
        _push_mode(self)

    @property
    def is_entered(self) -> bool:
        """In this thread, and not in a backward pass, which knows no modes."""
        return any(mode is self for mode in _get_current_function_mode_stack())

    def leave(self) -> None:
        """Take this mode away, also from under others that were entered later."""
        others: list[TorchFunctionMode] = []
        while torch._C._len_torch_function_stack():
            mode = _pop_mode()
            if mode is self:
                break
            others.append(mode)
        for mode in reversed(others):
            _push_mode(mode)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._is_on():
            return func(*args, **kwargs)
        if func is _sdpa:
            return self._sdpa(*args, **kwargs)
        if func is _mha:
            return self._mha(args, kwargs)
        if func in _SOFTMAX and args and isinstance(args[0], Tensor) and args[0].dim() >= 3:
            self._softmax(args[0])
        return func(*args, **kwargs)

    # ── scaled_dot_product_attention ──────────────────────────────────────────────────────────

    def _sdpa(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        *,
        padding: Tensor | None = None,
        cross: bool | None = None,
        seen: list[Call] | None = None,
    ) -> Tensor:
        call = _call_of(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        if call is None:
            self._missed()
            if padding is not None:
                attn_mask = _merged(attn_mask, padding, is_causal, query, key)
                is_causal = False
            more: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
            return _sdpa(query, key, value, attn_mask, dropout_p, is_causal, **more)
        if padding is not None:
            call = _with_padding(call, padding, cross)
        if cross is not None:
            call = replace(call, cross=cross, said=True)
        out, call = self._attend(call)
        if seen is not None:
            seen.append(call)
        return out.view(*query.shape[:-1], value.shape[-1]) if query.dim() != 4 else out

    # ── nn.MultiheadAttention ─────────────────────────────────────────────────────────────────

    def _mha(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = _MHA_SIGNATURE.bind(*args, **kwargs)
        bound.apply_defaults()
        given: dict[str, Any] = dict(bound.arguments)
        query, key = given["query"], given["key"]
        cross = not (query is key or _is_same(query, key))
        wants_weights, average = given["need_weights"], given["average_attn_weights"]
        padding: Tensor | None = given["key_padding_mask"]
        # PyTorch would merge the two masks into one of (B · H, Nq, Nk).
        apart = padding is not None and given["bias_k"] is None and not given["add_zero_attn"]
        inner: dict[str, Any] = {**given, "need_weights": False}
        if wants_weights or padding is not None:
            inner["is_causal"] = False  # a hint that PyTorch follows only without these
        if padding is not None and apart:
            padding = padding if query.dim() == 3 else padding[None]
            inner["key_padding_mask"] = None
        calls: list[Call] = []

        def ours(*inner_args: Any, **inner_kwargs: Any) -> Tensor:
            extra: dict[str, Any] = {"cross": cross, "seen": calls}
            if apart:
                extra["padding"] = padding
            return self._sdpa(*inner_args, **inner_kwargs, **extra)

        with _sdpa_replaced(ours):
            output, _ = _mha(**inner)
        if not wants_weights:
            return output, None
        graph = torch.is_grad_enabled() and output.requires_grad
        if graph or not calls:
            # Weights that may be trained are PyTorch's own, as they carry its graph.
            return output, _mha(**given)[1]
        call = calls[-1]
        found = weights(call.q, call.k, **call.options.arguments()).to(output.dtype)
        found = found.mean(1) if average else found
        return output, found if query.dim() == 3 else found[0]


class _Replaced(threading.local):
    """What `multi_head_attention_forward` is to call in this thread."""

    def __init__(self) -> None:
        self.by: list[Callable[..., Tensor]] = []


_replaced = _Replaced()
_lock = threading.Lock()
_users = 0


def _chosen(*args: Any, **kwargs: Any) -> Tensor:
    return (_replaced.by[-1] if _replaced.by else _sdpa)(*args, **kwargs)


@contextmanager
def _sdpa_replaced(ours: Callable[..., Tensor]) -> Generator[None]:
    """While it is entered, `multi_head_attention_forward` calls `ours` in this thread."""
    global _users
    with _lock:
        _users += 1
        F.scaled_dot_product_attention = _chosen
    _replaced.by.append(ours)
    try:
        yield
    finally:
        _replaced.by.pop()
        with _lock:
            _users -= 1
            if not _users:
                F.scaled_dot_product_attention = _sdpa


# ── what PyTorch's arguments mean ─────────────────────────────────────────────────────────────


def _call_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Call | None:
    """SDPA's arguments as a call; None for what only PyTorch can do, or refuse."""
    tensors = (query, key, value)
    if any(x.is_nested or x.dim() < 2 or not x.is_floating_point() for x in tensors):
        return None
    axes = query.dim()
    if not (query.dtype == key.dtype == value.dtype) or not (axes == key.dim() == value.dim()):
        return None
    if attn_mask is not None and (is_causal or not 2 <= attn_mask.dim() <= axes):
        return None
    q, k, v = as_autocast(*(_four_axes(x) for x in tensors))
    if k.shape[0] == v.shape[0] == 1 != q.shape[0]:
        k, v = (x.expand(q.shape[0], -1, -1, -1) for x in (k, v))
    if k.shape[:3] != v.shape[:3] or k.shape[3] != q.shape[3] or k.shape[0] != q.shape[0]:
        return None
    if q.shape[1] != k.shape[1] and (not enable_gqa or not k.shape[1] or q.shape[1] % k.shape[1]):
        return None
    mask = bias = None
    if attn_mask is not None:
        given = _mask_axes(attn_mask, query)
        mask, bias = (given, None) if attn_mask.dtype == torch.bool else (None, given)
    options = Options(
        causal=is_causal,
        mask=mask,
        bias=bias,
        scale=scale,
        position=0 if is_causal else None,  # PyTorch's flag is aligned to the first key
    )
    queries, keys = _padding_of(mask, bias, q.shape[0], k.shape[2])
    cross = q.shape[2] != k.shape[2] and not is_causal
    return Call(q, k, v, options, dropout, cross, queries, keys)


def _four_axes(x: Tensor) -> Tensor:
    if x.dim() == 4:
        return x
    if x.dim() == 2:
        return x[None, None]
    if x.dim() == 3:
        return x[:, None]
    return x.flatten(0, -4)


def _mask_axes(mask: Tensor, query: Tensor) -> Tensor:
    """A mask that broadcasts to the scores of `query`, with as many axes as `_four_axes` makes."""
    mask = mask[(None,) * (query.dim() - mask.dim())]
    if query.dim() > 4:
        lead = query.shape[:-3]
        if any(size != 1 for size in mask.shape[: len(lead)]):
            mask = mask.expand(*lead, -1, -1, -1)
    return _four_axes(mask)


def _padding_of(
    mask: Tensor | None, bias: Tensor | None, batch: int, n_keys: int
) -> tuple[Tensor | None, Tensor | None]:
    """Which keys a mask for all queries leaves open, (B, Nk): the others are padding."""
    given = mask if mask is not None else bias
    if given is None or given.shape[2] != 1 or given.shape[3] != n_keys or given.shape[1] != 1:
        return None, None
    open_ = given[:, 0, 0]
    if bias is not None:
        open_ = open_ > torch.finfo(bias.dtype).min / 2
    return None, open_.expand(batch, n_keys)


def _with_padding(call: Call, padding: Tensor, cross: bool | None) -> Call:
    """The call with PyTorch's key_padding_mask (B, Nk): True, or −inf, is padding."""
    if padding.dtype == torch.bool:
        keys = ~padding
        added = keys[:, None, None, :]
        mask = added if call.options.mask is None else call.options.mask & added
        options = replace(call.options, mask=mask)
    else:
        keys = padding > torch.finfo(padding.dtype).min / 2
        added = padding[:, None, None, :]
        bias = added if call.options.bias is None else call.options.bias + added
        options = replace(call.options, bias=bias)
    queries = None
    if not cross and call.q.shape[2] == call.k.shape[2]:
        queries = keys  # of itself: a padded token is a padded query, too
    return replace(call, options=options, keys=keys, queries=queries)


def _merged(
    mask: Tensor | None, padding: Tensor, is_causal: bool, query: Tensor, key: Tensor
) -> Tensor:
    """All masks in one, as SDPA wants them."""
    shape = (query.shape[-2], key.shape[-2])
    whole = padding[:, None, None, :]
    if whole.dtype == torch.bool:
        whole = torch.zeros_like(whole, dtype=query.dtype).masked_fill_(whole, float("-inf"))
    if is_causal:
        causal = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
        whole = whole + torch.zeros(shape, device=query.device).masked_fill_(~causal, float("-inf"))
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
        whole = whole + mask
    return whole


def _is_same(a: Tensor, b: Tensor) -> bool:
    """Do both hold the same numbers?"""
    return a.shape == b.shape and a.device == b.device and torch.equal(a, b)
