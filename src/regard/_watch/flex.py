"""`flex_attention`, called directly: its functions of scores and places as a bias and a mask."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard._attention import Options
from regard._attention.eager import PLAIN
from regard._watch.call import Call
from regard._watch.masks import read_masks
from regard.observation import See

_CELLS = 1 << 22  # of scores that are looked at in one piece


def flex_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: dict[str, Any],
    *buffers: tuple[Any, ...],
) -> Call | None:
    """The arguments of PyTorch's operator as a call; None for what only PyTorch can do.

    What runs uncompiled, as all does under a watch, asks the functions about every cell, blocks
    aside, and holds all scores (B, H, Nq, Nk) for it. Here they are asked about some rows at a
    time, and what they say is held: a mask of one byte a cell, and a bias, of one sequence or head
    where all are alike. Whatever becomes of a score, what it is more is a bias.
    """
    from torch.nn.attention.flex_attention import _identity, noop_mask

    tensors = (query, key, value)
    is_trained = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if (
        any(type(x) not in PLAIN or x.dim() != 4 or not x.numel() for x in tensors)
        or len(query) != len(key)
        or any(buffers)
        or kernel_options.get("OUTPUT_MAX")
        or (kernel_options.get("OUTPUT_LOGSUMEXP") and is_trained)
    ):
        return None
    mask_mod = block_mask[-1]
    mask = bias = None
    if mask_mod is not noop_mask:
        mask = _joined(_asked(mask_mod, query, key, rows) for rows in _rows(query, key))
    if score_mod is not _identity:
        scored = [_Scores(score_mod, query, key, rows, scale, mask) for rows in _rows(query, key)]
        is_sum = all(each.is_sum for each in scored)
        bias = _joined(each.added() if is_sum else each.instead() for each in scored)
    return read_masks(Call(query, key, value, Options(mask=mask, bias=bias, scale=scale)))


def flex_output(query: Tensor, out: Tensor, call: Call, kernel_options: dict[str, Any]) -> Any:
    """What PyTorch's operator gives: the output, its axes in memory as the query's, lse by base 2,
    which is wanted or not, and the largest scores, which are not."""
    order = sorted(range(4), key=query.stride, reverse=True)
    back = sorted(range(4), key=order.__getitem__)
    out, nothing = out.permute(order).contiguous().permute(back), query.new_empty(0)
    if not kernel_options.get("OUTPUT_LOGSUMEXP"):
        return out, nothing, nothing
    seen = call.compute(See())[1]
    assert seen is not None
    return out, seen.lse / math.log(2), nothing


def _rows(query: Tensor, key: Tensor) -> Iterator[slice]:
    n_queries = query.shape[2]
    count = max(_CELLS // max(query.shape[0] * query.shape[1] * key.shape[2], 1), 1)
    return (slice(start, start + count) for start in range(0, n_queries, count))


def _asked(
    function: Callable[..., Tensor], query: Tensor, key: Tensor, rows: slice, *scores: Tensor
) -> Tensor:
    """What a function says of each cell in these rows: (B, H, rows, Nk)."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    sizes = (*query.shape[:3], key.shape[2])
    b, h, m, n = (torch.arange(size, device=query.device) for size in sizes)
    with TransformGetItemToIndex():
        every = _vmap_for_bhqkv(function, prefix=(0,) * len(scores))
        return every(*scores, b, h, m[rows], n).expand(*sizes[:2], len(m[rows]), sizes[3])


class _Scores:
    """Rows of scores (B, H, rows, Nk), what becomes of them, and what would become of 0."""

    def __init__(
        self,
        score_mod: Callable[..., Tensor],
        query: Tensor,
        key: Tensor,
        rows: slice,
        scale: float,
        mask: Tensor | None,
    ) -> None:
        self._mask = None if mask is None else mask[:, :, rows]
        self._given = score_mod, query, key, rows, scale

    def _changed(self) -> tuple[Tensor, Tensor]:
        score_mod, query, key, rows, scale = self._given
        dtype = torch.promote_types(query.dtype, torch.float32)
        keys = key.to(dtype).repeat_interleave(query.shape[1] // key.shape[1], 1)
        scores = query[:, :, rows].to(dtype) @ keys.mT * scale
        return scores, _asked(score_mod, query, key, rows, scores)

    def added(self) -> Tensor:
        """What is added to the scores, if these are no part of it."""
        score_mod, query, key, rows, _ = self._given
        dtype = torch.promote_types(query.dtype, torch.float32)
        zeros = query.new_zeros((), dtype=dtype)
        sizes = (*query.shape[:2], len(range(*rows.indices(query.shape[2]))), key.shape[2])
        return self._counted(_asked(score_mod, query, key, rows, zeros.expand(sizes)))

    def instead(self) -> Tensor:
        """How much more than the scores there is."""
        scores, changed = self._changed()
        return self._counted(changed - scores)

    @property
    def is_sum(self) -> bool:
        with torch.no_grad():
            scores, changed = self._changed()
            expected = scores + self.added()
            least = 8 * torch.finfo(scores.dtype).eps * (scores.abs() + changed.abs())
            is_near = (expected == changed) | ((expected - changed).abs() <= least)
            return bool((is_near if self._mask is None else is_near | ~self._mask).all())

    def _counted(self, x: Tensor) -> Tensor:
        """0 where nobody looks."""
        return x if self._mask is None else torch.where(self._mask, x, 0.0)


def _joined(parts: Iterator[Tensor]) -> Tensor:
    """Rows one after the other, of one sequence and of one head where all are alike."""
    found: list[Tensor] = []
    for part in parts:
        for axis in (0, 1):
            first = part.narrow(axis, 0, 1)
            part = first if part.shape[axis] and bool((part == first).all()) else part
        found.append(part)
    batch, heads = (max(part.shape[axis] for part in found) for axis in (0, 1))
    return torch.cat([part.expand(batch, heads, -1, -1) for part in found], 2)
