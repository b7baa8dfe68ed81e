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
from torch.overrides import TorchFunctionMode

from regard._attention import weights
from regard._watch.call import Call
from regard.run import Options

__all__ = ["Functions"]

# Calls attention, and takes what it computes: (call, module's own way) -> output (B, H, Nq, Dv).
Attend = Callable[[Call], Tensor]

_sdpa = F.scaled_dot_product_attention
_mha = F.multi_head_attention_forward
_MHA_SIGNATURE = inspect.signature(_mha)
_SOFTMAX = frozenset((F.softmax, torch.softmax, Tensor.softmax))
_patching = threading.Lock()


class Functions(TorchFunctionMode):
    """While it is entered, attention that is computed by PyTorch's functions goes to `attend`.

    `attend` gets the call, and returns None if nobody is watched just now. `softmax` is told of
    every softmax with three axes or more.
    """

    def __init__(
        self, attend: Callable[[Call], Tensor | None], softmax: Callable[[Tensor], None]
    ) -> None:
        super().__init__()
        self._attend = attend
        self._softmax = softmax

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
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
        call = _call_of(query, key, value, attn_mask, dropout_p, is_causal, scale)
        out = None
        if call is not None:
            if padding is not None:
                call = _with_padding(call, padding)
            if cross is not None:
                call = replace(call, cross=cross)
            if seen is not None:
                seen.append(call)
            out = self._attend(call)
        if out is None:
            if padding is not None:
                attn_mask = _merged(attn_mask, padding, is_causal, query, key)
                is_causal = False
            return _sdpa(
                query,
                key,
                value,
                attn_mask,
                dropout_p,
                is_causal,
                scale=scale,
                enable_gqa=enable_gqa,
            )
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
        # Its documentation calls is_causal a hint that goes with attn_mask, which then is dropped.
        inner: dict[str, Any] = {**given, "need_weights": False}
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


@contextmanager
def _sdpa_replaced(ours: Callable[..., Tensor]) -> Generator[None]:
    """What `multi_head_attention_forward` calls in this thread is `ours`."""
    thread = threading.get_ident()
    with _patching:
        before = F.scaled_dot_product_attention

        def chosen(*args: Any, **kwargs: Any) -> Tensor:
            if threading.get_ident() == thread:
                return ours(*args, **kwargs)
            return before(*args, **kwargs)

        F.scaled_dot_product_attention = chosen
        try:
            yield
        finally:
            F.scaled_dot_product_attention = before


# ── what PyTorch's arguments mean ─────────────────────────────────────────────────────────────


def _call_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout: float,
    is_causal: bool,
    scale: float | None,
) -> Call | None:
    """SDPA's arguments as a call; None for what only PyTorch can do, or refuse."""
    tensors = (query, key, value)
    if any(x.is_nested or x.dim() < 2 or not x.is_floating_point() for x in tensors):
        return None
    if not (query.dtype == key.dtype == value.dtype) or query.dim() != key.dim() != value.dim():
        return None
    if attn_mask is not None and (is_causal or attn_mask.dim() < 2):
        return None
    q, k, v = (_four_axes(x) for x in tensors)
    if k.shape[:3] != v.shape[:3] or k.shape[3] != q.shape[3] or k.shape[0] != q.shape[0]:
        return None
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        return None
    mask = bias = None
    if attn_mask is not None:
        attn_mask = _four_axes(attn_mask) if attn_mask.dim() != 4 else attn_mask
        if attn_mask.dtype == torch.bool:
            mask = attn_mask
        else:
            bias = attn_mask
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


def _with_padding(call: Call, padding: Tensor) -> Call:
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
    if not call.cross and call.q.shape[2] == call.k.shape[2]:
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
    """Do both show the same memory in the same way?"""
    return (
        a.shape == b.shape
        and a.stride() == b.stride()
        and a.data_ptr() == b.data_ptr()
        and a.device == b.device
    )
