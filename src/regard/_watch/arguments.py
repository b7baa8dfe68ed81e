"""What the arguments of attention functions mean, as a `Call`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard._attention.checks import check, check_dropout, check_see
from regard._watch.call import Call, as_autocast
from regard.observation import See
from regard.run import Options

__all__ = ["is_same", "merged_mask", "own_call", "sdpa_call", "with_padding"]


def sdpa_call(
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
    if type(is_causal) is not bool or type(enable_gqa) is not bool:
        return None
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
    cross = q.shape[2] != k.shape[2] and not is_causal
    return Call(q, k, v, options, dropout, cross, *_padding_of(q, k, options))


def own_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    dropout: float = 0.0,
    see: See | None = None,
    backend: str | None = None,
    **options: Any,
) -> Call:
    """The arguments of `regard.attention` as a call; what it refuses is refused."""
    name = "attention()"
    problem = check(name, {"q": q, "k": k, "v": v}, **options)
    if see is not None:
        check_see(name, see, q)
    meant = Options(
        causal=problem.causal,
        window=(problem.left, problem.right),
        mask=problem.mask,
        bias=problem.bias,
        lengths=problem.lengths,
        scale=problem.scale,
        softcap=problem.softcap,
        sinks=problem.sinks,
        position=problem.position,
    )
    cross = q.shape[2] != k.shape[2] and not meant.causal
    padding = _padding_of(q, k, meant)
    dropout = check_dropout(name, dropout)
    return Call(q, k, v, meant, dropout, cross, *padding, backend=backend)


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


def _padding_of(q: Tensor, k: Tensor, options: Options) -> tuple[Tensor | None, Tensor | None]:
    """Which queries (B, Nq) and keys (B, Nk) are real; None: all. Shut keys are padding.

    As many queries as keys are taken for the same tokens.
    """
    batch, n_keys = k.shape[0], k.shape[2]
    keys = None
    if options.lengths is not None:
        keys = torch.arange(n_keys, device=k.device) < options.lengths[:, None]
    for given in (options.mask, options.bias):
        if given is None or given.shape[1:3] != (1, 1) or given.shape[3] != n_keys:
            continue
        open_ = given[:, 0, 0]
        if open_.dtype != torch.bool:
            open_ = open_ > torch.finfo(open_.dtype).min / 2
        open_ = open_.expand(batch, n_keys)
        keys = open_ if keys is None else keys & open_
    return (keys if q.shape[2] == n_keys else None), keys


def with_padding(call: Call, padding: Tensor, cross: bool | None) -> Call:
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


def merged_mask(
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


def is_same(a: Tensor, b: Tensor) -> bool:
    """Do both hold the same numbers?"""
    return a.shape == b.shape and a.device == b.device and torch.equal(a, b)
