"""`regard.scaled_dot_product_attention`: PyTorch's signature and meaning, on this kernel."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard._attention import native
from regard._attention.attend import attend

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What `torch.nn.functional.scaled_dot_product_attention` computes, and takes its place.

    `query` (…, H, Nq, D), `key` (…, H, Nk, D), `value` (…, H, Nk, Dv) with leading axes that
    broadcast, or none; with `enable_gqa`, key and value may have fewer heads, which divide H.
    `is_causal` is aligned to the **start**: query i attends to keys up to i. `attn_mask` is
    boolean, True = attend, or a float that is added to the scores; it and `is_causal` exclude each
    other, as PyTorch's documentation says (its fused CPU kernel lets both pass).

    A query that is masked from every key gets 0, as in PyTorch. Unlike PyTorch's, a NaN in a key or
    value that is masked has no effect, and a `dropout_p` of 1 or less than 0 is refused.

    >>> x = torch.randn(2, 3, 5, 7)
    >>> expected = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    >>> torch.allclose(scaled_dot_product_attention(x, x, x, is_causal=True), expected, atol=1e-5)
    True
    """
    call = "scaled_dot_product_attention()"
    given: dict[str, object] = {"query": query, "key": key, "value": value}
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{call}: {name} must be a torch.Tensor; got {type(tensor).__name__}. "
                f"torch.as_tensor({name}) makes one of numbers."
            )
        if tensor.dim() < 2:
            raise ValueError(
                f"{call}: {name} must be (…, N, D), two axes or more; got {tuple(tensor.shape)}. "
                f"{name}[None] adds an axis in front."
            )
    if attn_mask is not None and is_causal:
        raise ValueError(
            f"{call}: attn_mask must be None with is_causal=True; got both. "
            "regard.attention takes both: mask=… and causal=True."
        )
    position = 0 if is_causal and query.shape[-2] != key.shape[-2] else None
    if attn_mask is None and position is None and dropout_p == 0.0 and _alike(query, key):
        out = native.plain_attention(query, key, value, is_causal, scale)
        if out is not None:
            return out
    heads, key, value = _heads(call, query, key, value, enable_gqa)
    batch = _batch(call, query, key, value)
    mask, bias = _mask_or_bias(call, attn_mask, query.dtype, batch)
    out = attend(
        call,
        _four_axes(query, batch, heads),
        _four_axes(key, batch),
        _four_axes(value, batch),
        mask=mask,
        bias=bias,
        causal=is_causal,
        scale=scale,
        dropout=dropout_p,
        position=position,
    )
    assert isinstance(out, Tensor)
    has_heads = max(query.dim(), key.dim(), value.dim()) > 2
    return out.reshape(*batch, *([heads] if has_heads else []), *out.shape[2:])


def _alike(query: Tensor, key: Tensor) -> bool:
    """Have they four axes and the same heads, so that nothing is to be broadcast or grouped?"""
    return query.dim() == 4 and query.shape[:2] == key.shape[:2]


def _heads(
    call: str, query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool
) -> tuple[int, Tensor, Tensor]:
    """H, and key and value with the same number of heads, as few as may be."""
    sizes = [x.shape[-3] if x.dim() > 2 else 1 for x in (query, key, value)]
    heads, of_key, of_value = sizes
    got = f"got query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}. "
    if enable_gqa:
        if min(query.dim(), key.dim(), value.dim()) < 3:
            raise ValueError(
                f"{call}: query, key and value must have heads with enable_gqa=True; {got}"
                "They need three axes or more."
            )
        if any(heads % size if size else heads for size in (of_key, of_value)):
            raise ValueError(
                f"{call}: the heads of key and value must divide query's; {got}"
                "Consecutive query heads share a key head, in groups of equal size."
            )
        if of_key != of_value:
            key, value = (x.repeat_interleave(heads // x.shape[-3], dim=-3) for x in (key, value))
        return heads, key, value
    heads = next((size for size in sizes if size != 1), 1)
    if any(size not in (1, heads) for size in sizes):
        raise ValueError(
            f"{call}: query, key and value must have the same number of heads, or 1; {got}"
            "enable_gqa=True allows fewer for key and value."
        )
    if of_key != of_value:
        key, value = (x.expand(*x.shape[:-3], heads, *x.shape[-2:]) for x in (key, value))
    return heads, key, value


def _batch(call: str, *tensors: Tensor) -> tuple[int, ...]:
    try:
        return tuple(torch.broadcast_shapes(*(x.shape[:-3] for x in tensors)))
    except RuntimeError:
        shapes = ", ".join(str(tuple(x.shape)) for x in tensors)
        raise ValueError(
            f"{call}: the leading axes of query, key and value must broadcast; got {shapes}. "
            "Each of them must be of equal length, or 1."
        ) from None


def _four_axes(x: Tensor, batch: tuple[int, ...], heads: int | None = None) -> Tensor:
    """(…, heads, N, D) as (B, heads, N, D): a view wherever there is one."""
    if heads is None:
        heads = x.shape[-3] if x.dim() > 2 else 1
    return x.expand(*batch, heads, *x.shape[-2:]).reshape(math.prod(batch), heads, *x.shape[-2:])


def _mask_or_bias(
    call: str, attn_mask: object, dtype: torch.dtype, batch: tuple[int, ...]
) -> tuple[Tensor | None, Tensor | None]:
    if attn_mask is None:
        return None, None
    if not isinstance(attn_mask, Tensor):
        raise TypeError(
            f"{call}: attn_mask must be a torch.Tensor; got {type(attn_mask).__name__}. "
            "torch.as_tensor(attn_mask) makes one of numbers."
        )
    if attn_mask.dtype not in (torch.bool, torch.float32, dtype):
        raise TypeError(
            f"{call}: attn_mask must be boolean, float32 or of query's type {dtype}; "
            f"got {attn_mask.dtype}. attn_mask.bool() or .to(query.dtype) makes it so."
        )
    if len(batch) > 1 and attn_mask.dim() > 3:
        attn_mask = _four_axes(attn_mask, batch)
    return (attn_mask, None) if attn_mask.dtype == torch.bool else (None, attn_mask)
