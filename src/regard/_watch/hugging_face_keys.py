"""Which keys the arguments of a transformers model mean: packed, chosen, compressed, free ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard._attention.options import part
from regard._attention.segments import ids_of, key_lists, spans_of
from regard._watch.call import Call
from regard.run import Options

# How packed sequences are said to flash attention.
PACKED = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


def with_sets(options: Options, q: Tensor, k: Tensor, given: dict[str, Any]) -> Options:
    """The options with what arguments say of the keys: sequences that are packed into one, and keys
    that an indexer has chosen for each query."""
    n_queries, n_keys = q.shape[2], k.shape[2]
    queries, keys = (given.get(name) for name in PACKED[:2])
    is_packed = len(q) == 1 and options.segments is None
    if is_packed and isinstance(queries, Tensor) and isinstance(keys, Tensor):
        packed = spans_of(ids_of(queries, n_queries), ids_of(keys, n_keys), None)
        options = replace(options, segments=packed)
    indices = given.get("indices")
    if isinstance(indices, Tensor):
        options = replace(options, indices=key_lists(indices, n_queries, n_keys))
    return options


def spans_of_keys(compressor: nn.Module, q: Tensor, k: Tensor) -> Tensor | None:
    """The tokens [first, end) that each key stands for, (Nk, 2), where keys for blocks of tokens
    follow those of the tokens; None where a cache hides which these are.

    As DeepSeek-V4 makes them: of every `compress_rate` tokens one, or, if it also chooses among
    them, one of these and of as many before.
    """
    rate, n_tokens = getattr(compressor, "compress_rate", 0), q.shape[2]
    if not rate or k.shape[2] != n_tokens + n_tokens // rate:
        return None
    token = torch.arange(n_tokens, device=k.device)
    block = torch.arange(n_tokens // rate, device=k.device) * rate
    before = rate if hasattr(compressor, "indexer") else 0
    first, end = (
        torch.cat([token, (block - before).clamp(min=0)]),
        torch.cat([token + 1, block + rate]),
    )
    return torch.stack([first, end], 1)


def without_last(call: Call, count: int) -> Call:
    """The call without so many of its keys."""
    left = slice(call.k.shape[2] - count)
    mask, bias = (part(x, slice(None), left) for x in (call.options.mask, call.options.bias))
    keys, queries, indices = call.keys, call.queries, call.options.indices
    if indices is not None:
        indices = key_lists(indices, call.q.shape[2], call.k.shape[2] - count)
    if keys is not None:
        keys = keys[:, left]
        if bool(keys.all()):
            keys = queries = None
            mask = None if mask is None or bool(mask.all()) else mask
    return replace(
        call,
        k=call.k[:, :, left],
        v=call.v[:, :, left],
        options=replace(
            call.options, mask=mask, bias=bias, indices=indices, position=call.position
        ),
        keys=keys,
        queries=queries,
    )
