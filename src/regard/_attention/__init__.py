"""Attention: one contract, two backends. What each file does is in docs/map.md."""

from __future__ import annotations

from regard._attention.attend import attention
from regard._attention.dispatch import Backend, backends
from regard._attention.options import Options
from regard._attention.sdpa import scaled_dot_product_attention
from regard._attention.tiles import pooled, weights

__all__ = [
    "Backend",
    "Options",
    "attention",
    "backends",
    "pooled",
    "scaled_dot_product_attention",
    "weights",
]
