"""Small models whose tokens vary, for tests of generation."""

from __future__ import annotations

from typing import Any

import torch

from regard.nn import (
    LanguageModel,
    LanguageModelConfig,
    Position,
    Rotary,
    Sinusoidal,
    Transformer,
    TransformerConfig,
)


def language_model(
    position: Position | None = None, vocabulary: int = 13, **options: Any
) -> LanguageModel:
    torch.manual_seed(17)
    config = LanguageModelConfig(
        vocabulary=vocabulary,
        width=12,
        heads=3,
        layers=2,
        position=Rotary() if position is None else position,
        tied=False,
        **options,
    )
    return varied(LanguageModel(config))


def transformer(position: Position | None = None) -> Transformer:
    torch.manual_seed(19)
    config = TransformerConfig(
        vocabulary=13,
        target_vocabulary=11,
        width=12,
        heads=3,
        layers=2,
        decoder_layers=1,
        position=Sinusoidal() if position is None else position,
        tied=False,
    )
    return varied(Transformer(config))


def varied(model: Any) -> Any:
    """The model with greater matrices, so that each token depends on those before it."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.9)
    return model.double().eval()
