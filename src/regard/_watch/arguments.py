"""What the arguments of attention functions mean, as a `Call`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard._attention import Options
from regard._attention.checks import check, check_dropout, check_see, position_of
from regard._attention.eager import PLAIN, is_causal_bias
from regard._watch.call import Call
from regard._watch.masks import read_masks
from regard.observation import See

_SDPA = "scaled_dot_product_attention()"


def sdpa_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout: float,
    is_causal: bool,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    padding: Tensor | None = None,
    cross: bool | None = None,
) -> Call | None:
    """SDPA's arguments as a call; None for what only PyTorch can do, or refuse.

    `padding` (B, Nk) is PyTorch's key_padding_mask: True, or −inf, is padding. `cross` says whether
    the keys are of another sequence; None: it is not known.
    """
    query, key, value = tensors = as_autocast(query, key, value)
    if type(is_causal) is not bool or type(enable_gqa) is not bool:
        return None
    position = 0  # PyTorch's flag is aligned to the first key
    if is_causal_bias(attn_mask) and not is_causal:
        position = position_of(_SDPA, "attn_mask", attn_mask, query.shape[-2], key.shape[-2])
        is_causal, attn_mask = True, None
    if any(type(x) not in PLAIN for x in (*tensors, attn_mask) if x is not None):
        return None
    if any(x.is_nested or x.dim() < 2 or not x.is_floating_point() for x in tensors):
        return None
    lead = leading(query, key, value, enable_gqa)
    if not (query.dtype == key.dtype == value.dtype) or lead is None:
        return None
    if attn_mask is not None and (is_causal or not 2 <= attn_mask.dim() <= len(lead) + 2):
        return None
    if attn_mask is not None and not takes_mask(query, attn_mask):
        return None
    if key.shape[-2] != value.shape[-2] or key.shape[-1] != query.shape[-1]:
        return None
    query = query.expand(*lead, -1, -1)
    if len(lead) < 2:
        key, value = (x.expand(*lead, -1, -1) for x in (key, value))
    else:  # one head of keys and values may be for all
        heads = {x.shape[-3] if x.dim() > 2 else 1 for x in (key, value)}
        shared = max(heads)
        if (len(heads) > 1 and enable_gqa) or not _are_grouped(lead[-1], shared, enable_gqa):
            return None
        key, value = (x.expand(*lead[:-1], shared, -1, -1) for x in (key, value))
    q, k, v = (_four_axes(x) for x in (query, key, value))
    mask = bias = None
    if attn_mask is not None:
        given = _mask_axes(attn_mask, query)
        mask, bias = (given, None) if attn_mask.dtype == torch.bool else (None, given)
    options = Options(
        causal=is_causal,
        mask=mask,
        bias=bias,
        scale=scale,
        position=position if is_causal else None,
    )
    call = Call(q, k, v, options, dropout, bool(cross), cross is not None)
    call = read_masks(call)
    if padding is None:
        return call
    options, padding = call.options, padding[:, None, None, :]
    if padding.dtype == torch.bool:
        mask = ~padding if options.mask is None else options.mask & ~padding
        options = replace(options, mask=mask)
    else:
        bias = padding if options.bias is None else options.bias + padding
        options = replace(options, bias=bias)
    return read_masks(replace(call, options=options))


def as_autocast(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What autocast makes of the arguments of attention."""
    kind = q.device.type
    if not torch.is_autocast_enabled(kind):
        return q, k, v
    dtype = torch.get_autocast_dtype(kind)
    q, k, v = (x if x.dtype == torch.float64 else x.to(dtype) for x in (q, k, v))
    return q, k, v


def leading(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> torch.Size | None:
    """The axes of SDPA's output before the last two, to which those of all are broadcast."""
    shapes = [x.shape[:-2] for x in (query, key, value)]
    if enable_gqa:  # heads are for the query to say
        if not all(shapes):
            return None
        shapes[1:] = [torch.Size((*shape[:-1], 1)) for shape in shapes[1:]]
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return None


def takes_mask(query: Tensor, mask: Tensor) -> bool:
    """Is a mask of this type one that SDPA takes?"""
    if torch.is_autocast_enabled(query.device.type) and mask.is_floating_point():
        return True
    return mask.dtype in (torch.bool, torch.float32, query.dtype)


def _are_grouped(heads: int, kv_heads: int, enable_gqa: bool) -> bool:
    """May so many heads share so few keys? PyTorch broadcasts a single one unasked."""
    if kv_heads in (1, heads):
        return True
    return enable_gqa and kv_heads > 0 and heads % kv_heads == 0


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
    problem = check(name, {"q": q, "k": k, "v": v}, Options(**options))
    if see is not None:
        check_see(name, see, q)
    dropout = check_dropout(name, dropout)
    return read_masks(Call(q, k, v, problem.options, dropout, backend=backend))


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
    if mask.dim() < query.dim():
        mask = mask[(None,) * (query.dim() - mask.dim())]
    if query.dim() > 4:
        lead = query.shape[:-3]
        if any(size != 1 for size in mask.shape[: len(lead)]):
            mask = mask.expand(*lead, -1, -1, -1)
    return _four_axes(mask)
