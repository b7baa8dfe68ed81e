"""Models of every kind for tests of traces: prime sizes, float64, no parameter 0 or 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from regard import Trace, trace
from regard.nn import (
    ALiBi,
    Decoder,
    DecoderLayer,
    Embedding,
    Encoder,
    EncoderLayer,
    EncoderModel,
    EncoderModelConfig,
    FeedForward,
    LanguageModel,
    LanguageModelConfig,
    LayerNorm,
    Learned,
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
    MultiHeadAttention,
    NotesNorm,
    PostNorm,
    PreNorm,
    RelativeBias,
    RMSNorm,
    Rotary,
    SelfAttention,
    SequenceClassifier,
    SequenceClassifierConfig,
    Sinusoidal,
    StackConfig,
    Transformer,
    TransformerConfig,
)

__all__ = ["MADE", "made", "settle", "traced"]

N, M, WIDTH, VOCABULARY = 5, 3, 7, 17
IDS = [11, 2, 16, 2, 0]
TARGET = [1, 13, 4]

# width 7 in 6 heads of 4, two key heads, values of 5: no two sizes are the same.
SIZES: dict[str, Any] = {
    **{"width": WIDTH, "heads": 6, "kv_heads": 2, "head_width": 4},
    **{"value_width": 5, "hidden": 13},
}
TOKENS: dict[str, Any] = SIZES | {"vocabulary": VOCABULARY}


def settle(model: nn.Module) -> nn.Module:
    """float64, and every parameter a random number, so that biases and norms do something."""
    generator = torch.Generator().manual_seed(7)
    for parameter in model.parameters():
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.data = values * 0.5 + 0.1
    return model.double()


def _x(n: int = N, width: int = WIDTH) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, width, generator=generator, dtype=torch.float64)


def _stack(**options: Any) -> StackConfig:
    return StackConfig(**SIZES | options)


# name: (the model, what it is given, what else)
MADE: dict[str, Callable[[], tuple[nn.Module, Any, dict[str, Any]]]] = {
    "one head": lambda: (SelfAttention(WIDTH, head_width=3, value_width=2), _x(), {}),
    "one head, causal": lambda: (SelfAttention(WIDTH, head_width=3), _x(), {"causal": True}),
    "scaled otherwise": lambda: (SelfAttention(WIDTH, head_width=3, scale=0.37), _x(), {}),
    "one token": lambda: (MultiHeadAttention(6, heads=3), _x(1, 6), {"causal": True}),
    "heads": lambda: (MultiHeadAttention(6, heads=3), _x(width=6), {}),
    "heads without bias": lambda: (MultiHeadAttention(6, heads=3, bias=False), _x(width=6), {}),
    "grouped": lambda: (
        MultiHeadAttention(WIDTH, heads=6, kv_heads=2, head_width=4, value_width=5),
        _x(),
        {},
    ),
    "cross": lambda: (
        MultiHeadAttention(WIDTH, heads=3, head_width=4, context_width=11),
        _x(),
        {"context": _x(M, 11), "context_tokens": ["un", "deux", "trois"]},
    ),
    "slices": lambda: (
        MultiHeadAttention(6, heads=3, head_width=4, value_width=5, split="slices"),
        _x(width=6),
        {},
    ),
    "low-rank value": lambda: (
        MultiHeadAttention(WIDTH, heads=6, kv_heads=2, head_width=4, value_width=5, value_rank=3),
        _x(),
        {},
    ),
    "low-rank value of slices": lambda: (
        MultiHeadAttention(6, heads=3, value_width=5, value_rank=2, split="slices"),
        _x(width=6),
        {},
    ),
    "rotary halves": lambda: (
        MultiHeadAttention(WIDTH, heads=3, head_width=6, position=Rotary()),
        _x(),
        {},
    ),
    "rotary neighbours, some": lambda: (
        MultiHeadAttention(
            WIDTH,
            heads=2,
            kv_heads=1,
            head_width=7,
            position=Rotary(pairing="neighbours", width=4, base=100.0),
        ),
        _x(),
        {"causal": True},
    ),
    "ALiBi": lambda: (
        MultiHeadAttention(WIDTH, heads=3, head_width=4, position=ALiBi()),
        _x(),
        {"causal": True},
    ),
    "relative bias": lambda: (
        MultiHeadAttention(
            WIDTH, heads=3, head_width=4, position=RelativeBias(buckets=8, distance=5)
        ),
        _x(),
        {},
    ),
    "post-norm": lambda: (EncoderLayer(_stack(residual=PostNorm(), activation="relu")), _x(), {}),
    "pre-norm": lambda: (EncoderLayer(_stack(residual=PreNorm(), norm="rms")), _x(), {}),
    "notes' norm": lambda: (EncoderLayer(_stack(residual=NotesNorm())), _x(), {}),
    "window": lambda: (EncoderLayer(_stack(window=2, activation="gelu_tanh")), _x(), {}),
    "decoder layer": lambda: (
        DecoderLayer(_stack(residual=PostNorm(), activation="silu")),
        _x(),
        {"context": _x(M)},
    ),
    "decoder layer alone": lambda: (
        DecoderLayer(_stack(activation="swiglu", bias=False), cross=False),
        _x(),
        {},
    ),
    "notes' decoder": lambda: (
        DecoderLayer(_stack(residual=NotesNorm())),
        _x(),
        {"context": _x(M)},
    ),
    "encoder": lambda: (
        Encoder(_stack(layers=2, position=Sinusoidal(), residual=NotesNorm())),
        _x(),
        {},
    ),
    "encoder, halves of waves": lambda: (
        Encoder(_stack(position=Sinusoidal(layout="halves", base=100.0))),
        _x(),
        {},
    ),
    "decoder": lambda: (
        Decoder(_stack(layers=2, position=RelativeBias(buckets=8, distance=5), window=3)),
        _x(),
        {"context": _x(M)},
    ),
    "decoder, learned": lambda: (Decoder(_stack(position=Learned(7)), cross=False), _x(), {}),
    "embedding": lambda: (Embedding(_stack(), vocabulary=VOCABULARY), IDS, {}),
    "feed-forward": lambda: (FeedForward(WIDTH, hidden=13, activation="swiglu"), _x(), {}),
    "layer norm": lambda: (LayerNorm(WIDTH), _x(), {}),
    "RMS norm": lambda: (RMSNorm(WIDTH), _x(), {}),
    "language model": lambda: (
        LanguageModel(
            LanguageModelConfig(
                **TOKENS, layers=2, position=Rotary(), norm="rms", activation="swiglu", bias=False
            )
        ),
        IDS,
        {"tokens": ["I", "love", "apple", "love", "phones"]},
    ),
    "language model with ALiBi": lambda: (
        LanguageModel(LanguageModelConfig(**TOKENS, position=ALiBi(), tied=False, head_bias=True)),
        IDS,
        {},
    ),
    "encoder model": lambda: (
        EncoderModel(
            EncoderModelConfig(**TOKENS, segments=2, embedding_norm=True, position=Learned(7))
        ),
        IDS,
        {},
    ),
    "masked language model": lambda: (
        MaskedLanguageModel(
            MaskedLanguageModelConfig(**TOKENS, embedding_scale=True, position=Sinusoidal())
        ),
        IDS,
        {},
    ),
    "classifier, mean": lambda: (
        SequenceClassifier(SequenceClassifierConfig(**TOKENS, classes=2)),
        IDS,
        {},
    ),
    "classifier, first": lambda: (
        SequenceClassifier(
            SequenceClassifierConfig(**TOKENS, classes=2, pooling="first", pooler=True)
        ),
        IDS,
        {},
    ),
    "transformer": lambda: (
        Transformer(
            TransformerConfig(
                **TOKENS,
                layers=2,
                decoder_layers=1,
                residual=PostNorm(),
                position=Sinusoidal(),
                embedding_scale=True,
                target_vocabulary=19,
            )
        ),
        IDS,
        {"target": TARGET},
    ),
}


def made(name: str) -> tuple[nn.Module, Any, dict[str, Any]]:
    """The model of that name, what it is given, and the options of its trace."""
    model, given, options = MADE[name]()
    return settle(model), given, options


@cache
def traced(name: str) -> Trace:
    """The trace of the model of that name; tests only read it."""
    model, given, options = made(name)
    return trace(given, model=model, **options)
