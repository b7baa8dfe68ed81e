"""Small models of every kind, for the tests that save and load them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn import (
    ALiBi,
    EncoderModel,
    EncoderModelConfig,
    LanguageModel,
    LanguageModelConfig,
    Learned,
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
    Model,
    NotesNorm,
    PostNorm,
    RelativeBias,
    Rotary,
    SequenceClassifier,
    SequenceClassifierConfig,
    Sinusoidal,
    Transformer,
    TransformerConfig,
)

IDS = torch.tensor([[1, 5, 2, 7, 3], [4, 0, 10, 6, 8]])
SMALL: dict[str, Any] = {"vocabulary": 11, "width": 12, "heads": 3, "hidden": 7}


def models() -> dict[str, Model]:
    torch.manual_seed(3)
    return {
        "language": LanguageModel(
            LanguageModelConfig(**SMALL, layers=2, kv_heads=1, position=Rotary(), norm="rms")
        ),
        "untied": LanguageModel(
            LanguageModelConfig(**SMALL, tied=False, head_bias=True, position=ALiBi(), window=3)
        ),
        "sliced": LanguageModel(
            LanguageModelConfig(**SMALL, split="slices", value_rank=2, activation="swiglu")
        ),
        "encoder": EncoderModel(
            EncoderModelConfig(
                **SMALL, segments=2, position=Learned(13), residual=PostNorm(), embedding_norm=True
            )
        ),
        "masked": MaskedLanguageModel(
            MaskedLanguageModelConfig(**SMALL, position=RelativeBias(8, 16), dropout=0.25)
        ),
        "classifier": SequenceClassifier(
            SequenceClassifierConfig(
                **SMALL, classes=5, pooler=True, pooling="first", residual=NotesNorm()
            )
        ),
        "transformer": Transformer(
            TransformerConfig(**SMALL, decoder_layers=2, position=Sinusoidal())
        ),
        "two vocabularies": Transformer(TransformerConfig(**SMALL, target_vocabulary=13)),
    }


MODELS = models()


def output(model: nn.Module) -> Tensor:
    with torch.no_grad():
        return model(IDS, IDS[:, :3]) if isinstance(model, Transformer) else model(IDS)


def content(folder: Path) -> dict[str, bytes]:
    """All files in and below a folder."""
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
