"""Attention as people write it by hand, in many ways, and families of transformers that do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["CAUSAL", "FAMILIES", "PADDED", "WAYS", "HandWritten", "family"]

H, D = 3, 5
WIDTH = H * D


class HandWritten(nn.Module):
    """One layer of attention. `weights` are those of the last call, before dropout."""

    def __init__(self, way: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.way = way
        self.n_head = H
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.weights: Tensor | None = None
        self.ablated: tuple[int, ...] = ()  # what an intervention is to come to
        self.blocked: tuple[tuple[int, int, int], ...] = ()

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, H, D).permute(2, 0, 3, 1, 4)
        heads = WAYS[self.way](self, q, k, v, padding)
        return self.out(heads.transpose(1, 2).flatten(2))

    def seen(self, weights: Tensor) -> Tensor:
        """Weights (B, H, N, N), before dropout and after."""
        self.weights = weights.detach()
        weights = self.dropout(weights)
        for head in self.ablated:
            weights = weights * (torch.arange(H) != head)[:, None, None]
        return weights

    def masked(self, scores: Tensor) -> Tensor:
        for head, query, key in self.blocked:
            scores = scores.clone()
            scores[:, head, query, key] = -math.inf
        return scores


Way = Callable[[HandWritten, Tensor, Tensor, Tensor, Tensor | None], Tensor]


def _nano(self: HandWritten, q: Tensor, k: Tensor, v: Tensor, _: Tensor | None) -> Tensor:
    """As in nanoGPT: causal, −inf."""
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(D))
    ahead = torch.ones(q.shape[2], q.shape[2]).tril() == 0
    scores = self.masked(scores.masked_fill(ahead, -math.inf))
    return self.seen(F.softmax(scores, dim=-1)) @ v


def _annotated(
    self: HandWritten, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None
) -> Tensor:
    """As in the Annotated Transformer: −1e9 at padding."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(D)
    if padding is not None:
        scores = scores.masked_fill(~padding[:, None, None, :], -1e9)
    return torch.matmul(self.seen(self.masked(scores).softmax(dim=-1)), v)


def _old(self: HandWritten, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
    """As in the first BERT: −10,000 is added."""
    scores = torch.matmul(q / math.sqrt(D), k.mT)
    if padding is not None:
        scores += (1.0 - padding[:, None, None, :].to(scores.dtype)) * -10_000.0
    weights = nn.Softmax(dim=-1)(self.masked(scores)).type_as(scores)
    return torch.matmul(self.seen(weights), v)


def _flat(self: HandWritten, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
    """As in fairseq: sequences and heads in one axis, bmm."""
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)) * D**-0.5
    batch, length = len(q) // H, q.shape[1]
    if padding is not None:
        scores = scores.view(batch, H, length, length)
        scores = scores.masked_fill(~padding[:, None, None], -math.inf).flatten(0, 1)
    scores = self.masked(scores.unflatten(0, (batch, H))).flatten(0, 1)
    weights = F.softmax(scores, dim=-1)
    weights = self.seen(weights.view(batch, H, length, length)).view(-1, length, length)
    return torch.bmm(weights, v).view(batch, H, length, D)


def _einsum(self: HandWritten, q: Tensor, k: Tensor, v: Tensor, _: Tensor | None) -> Tensor:
    """Tokens first, capped, in float64 in between."""
    q, k, v = (x.permute(2, 0, 1, 3) for x in (q, k, v))
    scores = torch.einsum("i b n d, j b n d -> b n i j", q, k)
    scores = 4.0 * torch.tanh(scores / 4.0)
    weights = torch.softmax(self.masked(scores), dim=3, dtype=torch.float64).type_as(v)
    return torch.einsum("bnij,jbnd->ibnd", self.seen(weights), v).permute(1, 2, 0, 3)


def _turned(self: HandWritten, q: Tensor, k: Tensor, v: Tensor, _: Tensor | None) -> Tensor:
    """As in the autoencoders of diffusion models: values times weights, both transposed."""
    weights = self.seen(self.masked(torch.einsum("...qd,...kd->...qk", q, k)).softmax(-1))
    return (v.mT @ weights.transpose(-1, -2)).mT


def _biased(self: HandWritten, q: Tensor, k: Tensor, v: Tensor, _: Tensor | None) -> Tensor:
    """As in BLOOM: baddbmm; and a bias for each distance; where, not masked_fill."""
    batch, length = q.shape[0], q.shape[2]
    place = torch.arange(length)
    slopes = torch.tensor([0.5, 0.25, 0.125], dtype=q.dtype).repeat(batch)
    alibi = slopes[:, None, None] * place.to(q.dtype)
    scores = alibi.baddbmm(batch1=q.flatten(0, 1), batch2=k.flatten(0, 1).mT, beta=1.0, alpha=0.4)
    scores = scores.view(batch, H, length, length)
    least = torch.full((), torch.finfo(q.dtype).min, dtype=q.dtype)
    scores = self.masked(torch.where(place[:, None] >= place, scores, least))
    weights = self.seen(F.softmax(scores, dim=-1)) * torch.ones(1, H, 1, 1, dtype=q.dtype)
    return torch.bmm(weights.flatten(0, 1), v.flatten(0, 1)).view(batch, H, length, D)


def _zeroed(self: HandWritten, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
    """Weights at padding are zeroed once more, after the softmax."""
    scores = q @ k.mT
    if padding is not None:
        scores = scores.masked_fill(~padding[:, None, None, :], -1e9)
    weights = F.softmax(self.masked(scores), -1)
    if padding is not None:
        weights = weights.masked_fill(~padding[:, None, None, :], 0.0)
    return self.seen(weights) @ v


WAYS: dict[str, Way] = {
    "nano": _nano,
    "annotated": _annotated,
    "old": _old,
    "flat": _flat,
    "einsum": _einsum,
    "turned": _turned,
    "biased": _biased,
    "zeroed": _zeroed,
}
CAUSAL = ("nano", "biased")
PADDED = ("annotated", "old", "flat", "zeroed")


# ── families of transformers ──────────────────────────────────────────────────────────────────

_SIZES: dict[str, Any] = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2}
_GPT: dict[str, Any] = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32, "rotary_dim": 4}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gptj": ("GPTJForCausalLM", _GPT | {"vocab_size": 61}),
    "codegen": ("CodeGenForCausalLM", _GPT | {"vocab_size": 61, "n_ctx": 32, "n_head": 4}),
    "bloom": ("BloomForCausalLM", {"vocab_size": 61, "hidden_size": 24, "n_layer": 2, "n_head": 3}),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        {
            "vocab_size": 61,
            "hidden_size": 24,
            "num_layers": 2,
            "num_heads": 3,
            "window_size": 3,
            "attention_types": [[["global", "local"], 1]],
        },
    ),
    "falcon": (
        "FalconForCausalLM",
        _SIZES | {"num_attention_heads": 3, "attn_implementation": "eager"},
    ),
    "deberta": (
        "DebertaModel",
        _SIZES
        | {
            "num_attention_heads": 3,
            "intermediate_size": 29,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "max_relative_positions": 8,
        },
    ),
    "deberta-v2": (
        "DebertaV2Model",
        _SIZES
        | {
            "num_attention_heads": 3,
            "intermediate_size": 29,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "position_buckets": 4,
            "max_relative_positions": 8,
        },
    ),
    "mpnet": ("MPNetModel", _SIZES | {"num_attention_heads": 3, "intermediate_size": 29}),
    "xlnet": (
        "XLNetModel",
        {"vocab_size": 61, "d_model": 24, "n_layer": 2, "n_head": 3, "d_inner": 29},
    ),
}


def family(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """A small model of transformers whose attention is its own, in evaluation mode."""
    import transformers

    model, sizes = FAMILIES[name]
    kind: Any = getattr(transformers, model)
    torch.manual_seed(7)
    made = kind(kind.config_class(**sizes)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() >= 2:
                parameter.uniform_(-0.4, 0.4)
    return made.to(dtype)
