"""A model of `regard.nn` in the form of one of transformers: what opens theirs opens ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.models.own_format import roles_of
from regard.nn import LanguageModel, Learned, Model, Transformer
from regard.nn import load as load_own

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class OwnConfig:
    """What is asked of a config of transformers, by the names that it has there."""

    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int | None
    is_encoder_decoder: bool
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int = 0

    def get_text_config(self) -> OwnConfig:
        return self


class OwnModel(nn.Module):
    """A model of `regard.nn`, called as those of transformers are: `model(input_ids=…)`."""

    def __init__(self, model: Model, start: int | None = None, stop: int | None = None) -> None:
        super().__init__()
        self.model = model
        config: Any = model.config
        self.config = self.generation_config = OwnConfig(
            config.layers,
            config.heads,
            positions_of(config.position),
            isinstance(model, Transformer),
            start,
            stop,
        )

    @property
    def base_model(self) -> nn.Module:
        return self.model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        own: Any = self.model
        return own(input_ids, lengths=_lengths(attention_mask))

    def get_input_embeddings(self) -> nn.Module:
        own: Any = getattr(self.model, "body", self.model)
        return own.embedding.tokens

    def get_output_embeddings(self) -> nn.Module | None:
        """What makes logits of tokens; None of a model that gives vectors or classes."""
        own: Any = self.model
        head = getattr(own, "head", None)
        return head if head is not None and not hasattr(own.config, "classes") else None


class OwnWriter(OwnModel):
    """The same, of a model that reads one text and writes another."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]: as theirs are called
        self, input_ids: Tensor, decoder_input_ids: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        return self.model(input_ids, decoder_input_ids, source_lengths=_lengths(attention_mask))

    def get_decoder(self) -> nn.Module:
        own: Any = self.model
        return own.decoder

    def generate(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any
    ) -> Tensor:
        """What it writes for one text, the likeliest token each time, from start to stop."""
        start, stop = self.config.bos_token_id, self.config.eos_token_id
        if start is None or stop is None:
            raise ValueError(
                "see(): the tokenizer must have <start> and <stop> for a model that writes; it has "
                "not. Say target=…, the ids it is given."
            )
        assert isinstance(self.model, Transformer)
        found = self.model.generate(
            input_ids, start=start, stop=stop, max_new_tokens=options["max_new_tokens"]
        )
        return torch.tensor([[start, *found.tokens[0]]])


def own_model(folder: Path, tokenizer: Tokenizer | None, *, allow_not_finite: bool) -> OwnModel:
    """The model that `model.save(folder)` wrote."""
    model = load_own(folder, allow_not_finite=allow_not_finite).float().eval()
    roles = roles_of(tokenizer)
    names = (roles.get("bos_token"), roles.get("eos_token"))
    ids = (
        None if tokenizer is None or name is None else tokenizer.token_to_id(name) for name in names
    )
    kind = OwnWriter if isinstance(model, Transformer) else OwnModel
    return kind(model, *ids).eval()


def class_name(model: nn.Module) -> str:
    """What a model is, whatever it is wrapped in."""
    return type(model.model if isinstance(model, OwnModel) else model).__name__


def reads_forward(model: OwnModel) -> bool:
    """Does each token see only those before it, and is there one text alone?"""
    own = model.model
    return isinstance(own, LanguageModel) and own.config.causal


def positions_of(position: object) -> int | None:
    """How many tokens a model takes; None is any number."""
    return position.length if isinstance(position, Learned) else None


def _lengths(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.long().sum(-1)
