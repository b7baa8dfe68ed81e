"""What the arguments of attention functions mean, as a `Call`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard._arguments import WrongType, WrongValue
from regard._attention import Options
from regard._attention.checks import check, check_dropout, check_see
from regard._attention.eager import PLAIN, is_causal_bias
from regard._attention.sdpa import read_sdpa
from regard._watch.call import Call
from regard._watch.masks import read_masks
from regard.observation import See


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
    checked = check(name, {"q": q, "k": k, "v": v}, Options(**options))
    if see is not None:
        check_see(name, see, q)
    return read_masks(Call(q, k, v, checked, check_dropout(name, dropout), backend=backend))


def sdpa_call(
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
    tensors = (x for x in (*given, *named.values()) if isinstance(x, Tensor))
    if any(type(x) not in PLAIN and not is_causal_bias(x) for x in tensors):
        return None
    try:
        q, k, v, options, dropout, layout, axes = read_sdpa(*given, **named)
        options = check("scaled_dot_product_attention()", {"q": q, "k": k, "v": v}, options)
    except (WrongType, WrongValue):
        return None
    if len(axes) == 1 and k.shape[1] in (1, q.shape[1]):  # of sequences, not of heads
        q, k, v = (x.expand(-1, q.shape[1], -1, -1).transpose(0, 1) for x in (q, k, v))
        masks = {"mask": options.mask, "bias": options.bias}
        masks = {name: x.transpose(0, 1) for name, x in masks.items() if x is not None}
        options = replace(options, **masks)
    call = read_masks(Call(q, k, v, options, dropout, bool(cross), cross is not None))
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
