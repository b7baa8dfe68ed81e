"""`regard.scaled_dot_product_attention`: PyTorch's signature and meaning, on this kernel."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor
from torch.jit._builtins import _register_builtin
from torch.overrides import handle_torch_function

from regard._arguments import WrongType, WrongValue, flag
from regard._attention.attend import attend
from regard._attention.checks import check_dense
from regard._attention.eager import (
    PLAIN,
    has_function_mode,
    is_any_autocast_enabled,
    is_autocast_enabled,
    is_causal_bias,
    is_plain,
    with_function_of_their_own,
)
from regard._attention.options import Options, broadcasts
from regard._attention.short import short_attention

# Looked up once: the smallest call is measured in microseconds.
_flash_enabled = torch._C._get_flash_sdp_enabled
_is_compiling = torch.compiler.is_compiling

_sdpa: Any = torch._C._nn.scaled_dot_product_attention  # pyright: ignore[reportAttributeAccessIssue]


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
    boolean, True = attend, or a float that is added to the scores. A query that is masked from
    every key gets 0. It may be PyTorch's CausalBias, too. Dropout drops on a CPU what PyTorch's
    drops for the same seed, unless a compiler, a tracer or a dispatch mode looks on. The output
    lies in memory as PyTorch's does. Under torch.autocast, query, key, value and a float mask are
    cast to its type, unless they are float64. All this is as in PyTorch.

    Unlike PyTorch's:

    - scores and softmax are computed in float32 at least, also under torch.autocast
    - a NaN or an infinity in a key or value that is masked has no effect
    - `attn_mask` and `is_causal` exclude each other, as PyTorch's documentation says: its fused
      kernel for the CPU lets both pass
    - a `dropout_p` of 1, or less than 0, is refused, and so are fewer values than keys
    - there are gradients, once: double backward (create_graph=True), torch.func.grad and its
      relatives, and forward-mode derivatives are refused
    - nested tensors are refused

    >>> x = torch.randn(2, 3, 5, 7)
    >>> expected = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    >>> torch.allclose(scaled_dot_product_attention(x, x, x, is_causal=True), expected, atol=1e-5)
    True
    """
    if (
        attn_mask is None
        and type(dropout_p) is float
        and dropout_p == 0.0
        and (enable_gqa is False or enable_gqa is True)
        and not is_any_autocast_enabled()
        and not _is_compiling()  # which would keep what it learns of the sizes here
        # Four axes and the same heads: nothing is to be broadcast or grouped.
        and type(query) in PLAIN
        and type(key) in PLAIN
        and not query.is_nested
        and not key.is_nested
        and query.dim() == key.dim() == 4
        and query.shape[:2] == key.shape[:2]
        # To be aligned to the start and to the end means the same.
        and (is_causal is False or (is_causal is True and query.shape[2] == key.shape[2]))
    ):
        layout = "query" if _flash_enabled() else "contiguous"
        done = short_attention(query, key, value, is_causal, scale, layout=layout)
        if done is not None:
            return done[0]
    given = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    others = with_function_of_their_own(query, key, value, attn_mask)
    if others or has_function_mode():
        return handle_torch_function(scaled_dot_product_attention, others, *given)
    try:
        q, k, v, options, _, layout, axes = read_sdpa(*given)
        call = "scaled_dot_product_attention()"
        out = attend(call, q, k, v, options, dropout_p, layout=layout, as_pytorch=True)
    except (WrongType, WrongValue) as refused:
        raise _in_words_of_pytorch(refused, given) from None
    assert isinstance(out, Tensor)
    return out if len(axes) == 2 else out.reshape(*axes, *out.shape[2:])


def _in_words_of_pytorch(
    refused: WrongType | WrongValue, given: tuple[Any, ...]
) -> WrongType | WrongValue:
    """The same refusal with what PyTorch says of these arguments, if it refuses them, too.

    It is asked about tensors that have no numbers: nothing is computed, and nothing drawn.
    """
    tensors = [x for x in given if isinstance(x, Tensor) and not is_causal_bias(x)]
    is_dense = all(x.layout == torch.strided and not x.is_nested for x in tensors)
    if not is_plain(tensors) or not is_dense or is_any_autocast_enabled():
        return refused
    with_causal_bias = is_causal_bias(given[3])
    *first, scale, enable_gqa = (
        x.to("meta") if isinstance(x, Tensor) and not is_causal_bias(x) else x for x in given
    )
    ask = type(given[3])._dispatch if with_causal_bias else _sdpa
    try:
        ask(*first, scale=scale, enable_gqa=enable_gqa)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        kind = WrongType if isinstance(error, TypeError) else type(refused)
        return kind(f"{refused} (PyTorch: {str(error).strip()})")
    return refused


def read_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Options, float, str, tuple[int, ...]]:
    """q, k and v of four axes, the options and the dropout; how the output is to lie in memory, and
    its axes before the last two."""
    call = "scaled_dot_product_attention()"
    named: dict[str, object] = {"query": query, "key": key, "value": value}
    for name, tensor in named.items():
        check_dense(call, name, tensor)
        assert isinstance(tensor, Tensor)
        if tensor.dim() < 2:
            raise WrongValue(
                f"{call}: {name} must be (…, N, D), two axes or more; got {tuple(tensor.shape)}. "
                f"{name}[None] adds an axis in front."
            )
    flag(call, "is_causal", is_causal)
    flag(call, "enable_gqa", enable_gqa)
    if attn_mask is not None and is_causal:
        raise WrongValue(
            f"{call}: attn_mask must be None with is_causal=True; got both. "
            "regard.attention takes both: mask=… and causal=True."
        )
    query, key, value, attn_mask = as_autocast(query, key, value, attn_mask)
    layout = sdpa_layout(query, key, value, attn_mask, dropout_p, enable_gqa)
    heads, key, value = _heads(call, query, key, value, enable_gqa)
    batch = tuple(query.shape[:-3])
    try:
        if not batch == key.shape[:-3] == value.shape[:-3]:  # asking takes its time
            batch = tuple(torch.broadcast_shapes(batch, key.shape[:-3], value.shape[:-3]))
    except RuntimeError:
        shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
        raise WrongValue(
            f"{call}: the leading axes of query, key and value must broadcast; got {shapes}. "
            "Each of them must be of equal length, or 1."
        ) from None
    axes = (*batch, heads) if max(query.dim(), key.dim(), value.dim()) > 2 else batch
    mask, bias = None, None
    if attn_mask is not None:
        scores = (*axes, query.shape[-2], key.shape[-2])
        mask, bias = _mask_or_bias(call, attn_mask, query.dtype, batch, scores)
    # A position also where it makes no difference: what is traced may be called with other lengths.
    position = 0 if is_causal else None
    return (
        _four_axes(query, batch, heads),
        _four_axes(key, batch),
        _four_axes(value, batch),
        Options(is_causal, mask=mask, bias=bias, scale=scale, position=position),
        dropout_p,
        layout,
        axes,
    )


def as_autocast(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """As an operator of lower precision gets them: in autocast's type, if it is at work.

    That goes for all floats on the device but those of float64.
    """
    kind = query.device.type
    if not is_autocast_enabled(query.device):
        return query, key, value, mask
    dtype = torch.get_autocast_dtype(kind)

    def lower(x: Tensor) -> Tensor:
        may = x.is_floating_point() and x.dtype != torch.float64 and x.device.type == kind
        return x.to(dtype) if may else x

    if isinstance(mask, Tensor) and not is_causal_bias(mask):  # what is no tensor is refused later
        mask = lower(mask)
    return lower(query), lower(key), lower(value), mask


def sdpa_layout(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: object,
    enable_gqa: bool,
) -> str:
    """How PyTorch's output lies in memory: as `query` does, where its fused kernel serves."""
    tensors = (query, key, value)
    if query.device.type != "cpu":
        return "joined"
    if any(x.dim() != 4 for x in tensors) or isinstance(dropout_p, Tensor) or dropout_p != 0:
        return "contiguous"
    batch, heads, n_queries, width = query.shape
    kv_heads, n_keys = key.shape[1:3]
    shared = kv_heads > 0 and heads % kv_heads == 0 if enable_gqa else heads == kv_heads
    fused = (
        _flash_enabled()
        and shared
        and key.shape == value.shape == (batch, kv_heads, n_keys, width)
        and n_queries > 0
        and n_keys > 0
        and all(x.stride(3) == 1 for x in tensors)
    )
    if fused and attn_mask is not None and not is_causal_bias(attn_mask):
        # Not one of three axes, and not one that wants a gradient.
        axes = attn_mask.dim()
        fused = not attn_mask.requires_grad and (axes == 2 or axes == 4)
    return "query" if fused else "contiguous"


def _heads(
    call: str, query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool
) -> tuple[int, Tensor, Tensor]:
    """H, and key and value with the same number of heads, as few as may be."""
    sizes = [x.shape[-3] if x.dim() > 2 else 1 for x in (query, key, value)]
    heads, of_key, of_value = sizes
    got = f"got query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}. "
    if enable_gqa:
        if min(query.dim(), key.dim(), value.dim()) < 3:
            raise WrongValue(
                f"{call}: query, key and value must have heads with enable_gqa=True; {got}"
                "They need three axes or more."
            )
        if any(heads % size if size else heads for size in (of_key, of_value)):
            raise WrongValue(
                f"{call}: the heads of key and value must divide query's; {got}"
                "Consecutive query heads share a key head, in groups of equal size."
            )
        if of_key != of_value:
            key, value = (x.repeat_interleave(heads // x.shape[-3], dim=-3) for x in (key, value))
        return heads, key, value
    heads = next((size for size in sizes if size != 1), 1)
    if any(size != 1 and size != heads for size in sizes):
        raise WrongValue(
            f"{call}: query, key and value must have the same number of heads, or 1; {got}"
            "enable_gqa=True allows fewer for key and value."
        )
    if of_key != of_value:
        key, value = (x.expand(*x.shape[:-3], heads, *x.shape[-2:]) for x in (key, value))
    return heads, key, value


def _four_axes(x: Tensor, batch: tuple[int, ...], heads: int | None = None) -> Tensor:
    """(…, heads, N, D) as (B, heads, N, D): a view wherever there is one."""
    if heads is None:
        heads = x.shape[-3] if x.dim() > 2 else 1
    return x.expand(*batch, heads, *x.shape[-2:]).reshape(math.prod(batch), heads, *x.shape[-2:])


def _mask_or_bias(
    call: str,
    attn_mask: object,
    dtype: torch.dtype,
    batch: tuple[int, ...],
    scores: tuple[int, ...],
) -> tuple[Tensor | None, Tensor | None]:
    """attn_mask as mask or as bias, if it broadcasts to the shape of the scores."""
    if is_causal_bias(attn_mask):
        return None, cast(Tensor, attn_mask)
    check_dense(call, "attn_mask", attn_mask)
    assert isinstance(attn_mask, Tensor)
    if attn_mask.dtype not in (torch.bool, torch.float32, dtype):
        raise WrongType(
            f"{call}: attn_mask must be boolean, float32 or of query's type {dtype}; "
            f"got {attn_mask.dtype}. attn_mask.bool() or .to(query.dtype) makes it so."
        )
    found = tuple(attn_mask.shape)
    if not broadcasts(found, scores):
        raise WrongValue(
            f"{call}: attn_mask must broadcast to (…, H, Nq, Nk) = {scores}; got {found}. "
            "Each axis, from the last, must be of that length or 1."
        )
    if len(batch) > 1 and attn_mask.dim() > 3:
        attn_mask = _four_axes(attn_mask, batch)
    return (attn_mask, None) if attn_mask.dtype == torch.bool else (None, attn_mask)


# What torch.jit.script finds in the place of a call, as the source is more than it can read.
_NAME = "regard::scaled_dot_product_attention"
torch.library.define(
    _NAME,
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
    "bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor",
)
torch.library.impl(_NAME, "CompositeImplicitAutograd")(scaled_dot_product_attention)
_register_builtin(scaled_dot_product_attention, _NAME)
