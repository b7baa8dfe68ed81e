"""PyTorch's own modules and functions of attention, with every mask and on every fast path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.varlen import varlen_attn

from families.packages.models import Trial, mask_of

N = 11
AHEAD = torch.ones(N, N, dtype=torch.bool).triu(1)


def multi_head_attention() -> Iterator[Trial]:
    x, other, real = torch.randn(2, N, 24), torch.randn(2, 7, 24), mask_of(N, 7)
    kinds: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "fast path": ({}, {"need_weights": False}),
        "weights": ({}, {}),
        "weights by head": ({}, {"average_attn_weights": False}),
        "causal": ({}, {"attn_mask": AHEAD, "is_causal": True, "need_weights": False}),
        "a mask": ({}, {"attn_mask": AHEAD.T}),
        "a bias": ({}, {"attn_mask": torch.randn(N, N), "need_weights": False}),
        "a bias by head": ({}, {"attn_mask": torch.randn(8, N, N)}),
        "padding": ({}, {"key_padding_mask": ~real, "need_weights": False}),
        "padding and a mask": ({}, {"key_padding_mask": ~real, "attn_mask": AHEAD}),
        "odd heads": ({"num_heads": 3}, {}),
        "the batch second": ({"batch_first": False}, {}),
        "keys that are none": ({"add_bias_kv": True, "add_zero_attn": True}, {}),
    }
    for name, (made, given) in kinds.items():
        options: dict[str, Any] = {"num_heads": 4, "batch_first": True} | made
        y = x if options["batch_first"] else x.transpose(0, 1)
        padded = real if "key_padding_mask" in given else None
        model = nn.MultiheadAttention(24, **options)
        yield Trial(f"MultiheadAttention, {name}", model, (y, y, y), given, padded)
    model = nn.MultiheadAttention(24, 4, batch_first=True)
    yield Trial("MultiheadAttention, across", model, (x, other, other))
    model = nn.MultiheadAttention(24, 4, kdim=6, vdim=5, batch_first=True)
    narrow = torch.randn(2, 7, 6), torch.randn(2, 7, 5)
    yield Trial("MultiheadAttention, narrow keys", model, (x, *narrow))
    model = nn.MultiheadAttention(24, 4)
    yield Trial("MultiheadAttention, no batch", model, (x[0], x[0], x[0]))


def transformers() -> Iterator[Trial]:
    x, other, real = torch.randn(2, N, 24), torch.randn(2, 7, 24), mask_of(N, 7)
    for first in (False, True):
        for given in ({}, {"mask": AHEAD, "is_causal": True}, {"src_key_padding_mask": ~real}):
            layer = nn.TransformerEncoderLayer(24, 4, 32, norm_first=first, batch_first=True)
            model = nn.TransformerEncoder(
                layer, 2, nn.LayerNorm(24), enable_nested_tensor=not first
            )
            words = [*(["norm first"] if first else []), *(given or ["fast path"])]
            padded = real if "src_key_padding_mask" in given else None
            yield Trial(f"TransformerEncoder, {', '.join(words)}", model, (x,), given, padded)
    masks = {"tgt_mask": AHEAD, "tgt_is_causal": True, "memory_key_padding_mask": ~mask_of(7, 5)}
    layer = nn.TransformerDecoderLayer(24, 4, 32, batch_first=True)
    for given in ({}, masks):
        model = nn.TransformerDecoder(layer, 2)
        words = ", ".join(given) or "no mask"
        yield Trial(f"TransformerDecoder, {words}", model, (x, other), given)
    model = nn.Transformer(24, 4, 2, 2, 32, batch_first=True)
    yield Trial("Transformer", model, (other, x), {"tgt_mask": AHEAD, "tgt_is_causal": True})


class _Flex(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        attend: Any = flex.flex_attention
        return attend(q, k, v, enable_gqa=True, **self.options)


def flex_attention() -> Iterator[Trial]:
    q = torch.randn(2, 6, N, 5)
    k, v = torch.randn(2, 3, N, 5), torch.randn(2, 3, N, 5)
    documents, slopes = torch.arange(N) // 4, torch.rand(6)
    causal = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, N, N, device="cpu")
    packed = flex.create_block_mask(
        lambda b, h, i, j: documents[i] == documents[j], None, None, N, N, device="cpu"
    )
    kinds: dict[str, dict[str, Any]] = {
        "nothing": {},
        "causal": {"block_mask": causal},
        "documents": {"block_mask": packed},
        "ALiBi": {"score_mod": lambda s, b, h, i, j: s + slopes[h] * (j - i)},
        "softcap": {"score_mod": lambda s, b, h, i, j: 3 * torch.tanh(s / 3), "block_mask": causal},
    }
    for name, options in kinds.items():
        yield Trial(f"flex_attention, {name}", _Flex(**options), (q, k, v))


class _Packed(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
        out = varlen_attn(q, k, v, starts, starts, 7, 7)
        assert isinstance(out, Tensor)
        return out


def varlen() -> Iterator[Trial]:
    x, starts = torch.randn(N, 3, 8), torch.tensor([0, 4, N], dtype=torch.int32)
    yield Trial("varlen_attn", _Packed(), (x, x, x, starts))
