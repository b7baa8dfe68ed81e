"""Token ids to embeddings: what a token means, what part of the text it is in, where it stands."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard._rules.general import Given, LookedUp
from regard._steps import StepKind
from regard.nn._checks import check_whole
from regard.nn._hooks import HookPoints, placed, positions_point, record
from regard.nn._places import positions_of
from regard.nn.config import EncoderModelConfig, LanguageModelConfig, StackConfig, TransformerConfig
from regard.nn.norm import norm_of
from regard.nn.position import NoPosition


class Embedding(nn.Module):
    """X = Norm(tokens[ids]·√width + segments[kinds] + positions), as far as there are such.

    ids (B, N) give (B, N, width).

    >>> layer = Embedding(StackConfig(width=6, heads=3), vocabulary=11)
    >>> layer(torch.tensor([[1, 10]])).shape
    torch.Size([1, 2, 6])
    >>> layer(torch.tensor([[1, 11]]))
    Traceback (most recent call last):
    ValueError: Embedding: ids must be from 0 to 10, one of the 11 tokens; got 11.
    """

    def __init__(
        self,
        config: StackConfig,
        *,
        vocabulary: int,
        segments: int = 0,
        norm: bool = False,
        scale: bool = False,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.scale = math.sqrt(config.width) if scale else 1.0
        self.tokens = nn.Embedding(vocabulary, config.width)
        self.segments = nn.Embedding(segments, config.width) if segments else None
        added = config.position if config.position.is_added else NoPosition()
        self.positions = positions_of(added, config)
        self.norm = norm_of(config) if norm else None
        self.dropout = nn.Dropout(config.dropout)
        for table in (self.tokens, self.segments):
            if table is not None:
                nn.init.normal_(table.weight, std=config.width**-0.5)

    def forward(
        self, ids: Tensor, positions: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """ids (B, N), at `positions` (1 or B, N), from 0 on unless given.

        `segments` (B, N) says what part of the text a token is in, the first unless given.
        """
        self.check(ids)
        if segments is not None:
            if self.segments is None:
                raise ValueError("Embedding: segments must be left out: the model has none.")
            check_whole(
                "Embedding",
                "segments",
                segments,
                f"(B, N) = {tuple(ids.shape)}, as ids",
                segments.shape == ids.shape,
                self.segments.num_embeddings - 1,
                "Give one for each token.",
                named="{most}, one of the {count} kinds of parts",
            )
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)[None]
        else:
            self.positions.check("Embedding", positions, *ids.shape)
        record(self, "ids", ids)
        x = self.tokens(ids)
        if self.scale != 1.0:
            record(self, "rows", x)
            x = x * self.scale
        record(self, "tokens", x)
        if self.segments is not None:
            part = self.segments(torch.zeros_like(ids) if segments is None else segments)
            record(self, "segments", part)
            x = x + part
        added = self.positions.embed(positions, x.dtype)
        if added is not None:
            record(self, "positions", added)
            x = x + added
        record(self, "output", x)
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)

    def hook_points(self) -> HookPoints:
        formula, rows = "E = table[I]", None
        if self.scale != 1.0:
            formula, rows = f"E = table[I]·√{self.tokens.embedding_dim}", "rows"
        return {
            "ids": StepKind(
                "Token ids",
                "I",
                "The number of each token in the vocabulary.",
                Given("the number of the token"),
                "id",
            ),
            "tokens": StepKind(
                "Token embeddings",
                formula,
                "What each token means by itself: its row of a learned table.",
                LookedUp("tokens.weight", "ids", rows=rows),
            ),
            "segments": StepKind(
                "Segments",
                "G = table[kind]",
                "Which part of the text each token is in.",
                LookedUp("segments.weight", row=0),
            ),
            "positions": positions_point(self.positions),
            "output": placed("X = {sum}", "tokens", "segments|", "positions|"),
        }

    def check(self, ids: Tensor) -> None:
        """Raise TypeError or ValueError if these are no ids (B, N) of the vocabulary."""
        most, named = self.vocabulary - 1, "{most}, one of the {count} tokens"
        check_whole("Embedding", "ids", ids, "(B, N)", ids.dim() == 2, most, named=named)


def embedding_of(
    config: LanguageModelConfig | EncoderModelConfig | TransformerConfig,
    vocabulary: int,
    segments: int = 0,
) -> Embedding:
    """The embeddings of a model."""
    return Embedding(
        config,
        vocabulary=vocabulary,
        segments=segments,
        norm=config.embedding_norm,
        scale=config.embedding_scale,
    )
