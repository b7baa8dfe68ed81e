"""Models of one stack: token ids in, vectors, logits or classes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard._rules.general import Copied, Mean
from regard._steps import StepKind
from regard.nn._hooks import LOGITS, HookPoints, activated, record, transformed
from regard.nn.cache import Cache
from regard.nn.config import (
    EncoderModelConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    SequenceClassifierConfig,
)
from regard.nn.embedding import Embedding, embedding_of
from regard.nn.files import Model
from regard.nn.linear import Linear
from regard.nn.norm import norm_of
from regard.nn.stacks import Decoder, Encoder, check_padding, positions_in

if TYPE_CHECKING:
    from regard.nn.generation import Generated, GenerateOptions, StreamOptions, Tokens


class GeneratingModel(Model):
    """The base of models that have a next token."""

    decoder: Decoder
    head: Linear

    def new_cache(self, batch: int, window: int | None = None) -> Cache:
        """An empty cache for `batch` sequences; `window` tokens are kept, all unless given."""
        return self.decoder.new_cache(batch, window)

    def generate(self, prompts: Tokens, **options: Unpack[GenerateOptions]) -> Generated:
        """New tokens after each prompt, or a target for each source: `regard.nn.generate`."""
        from regard.nn.generation import generate

        return generate(self, prompts, **options)

    def stream(self, prompts: Tokens, **options: Unpack[StreamOptions]) -> Iterator[Any]:
        """The same, each token as soon as it is known: `regard.nn.stream`."""
        from regard.nn.generation import stream

        return stream(self, prompts, **options)

    def hook_points(self) -> HookPoints:
        return {"logits": LOGITS}

    def _logits(self, x: Tensor, mask: Tensor | None, lengths: Tensor | None, last: bool) -> Tensor:
        """What the head makes of x (B, N, width), or of each last real token alone."""
        n = x.shape[1]
        if last and n and (mask is not None or lengths is not None):
            at = torch.full((len(x),), n - 1, device=x.device)
            if mask is not None:
                at = at - mask.flip(1).long().argmax(1)
            if lengths is not None:
                at = torch.minimum(at, lengths.to(x.device).clamp(min=1) - 1)
            x = x[torch.arange(len(x), device=x.device), at][:, None]
        elif last:
            x = x[:, -1:]
        logits = self.head(x)
        record(self, "logits", logits)
        return logits


class LanguageModel(GeneratingModel, config=LanguageModelConfig):
    """The next token: logits = Decoder(Embedding(ids)) W_head, each token from those before it.

    ids (B, N) give (B, N, vocabulary). With `causal=False` in its config each token sees all.

    >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3, layers=2))
    >>> model(torch.tensor([[1, 2, 3, 4, 5]])).shape
    torch.Size([1, 5, 11])
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding_of(config, config.vocabulary)
        self.decoder = Decoder(config, cross=False, causal=config.causal, adds_position=False)
        self.head = Linear(config.width, config.vocabulary, config.head_bias)
        if config.tied:
            self.head.weight = self.embedding.tokens.weight

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        cache: Cache | None = None,
        last: bool = False,
        positions: Tensor | None = None,
    ) -> Tensor:
        """The logits (B, N, vocabulary); with `last` of each last real token alone, (B, 1, …).

        `mask` (B, N) says which tokens are real, on either side; `lengths` (B,) how many are, from
        the left. With a `cache`, ids are the new tokens alone. `positions` (1 or B, N) are where
        the tokens stand, if that is not one behind the other.
        """
        x = self.hidden(ids, mask=mask, lengths=lengths, cache=cache, positions=positions)
        return self._logits(x, mask, lengths, last)

    def hidden(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """The vectors (B, N, width) that the head reads."""
        x, positions = embedded(
            "LanguageModel", self.embedding, ids, mask, lengths, cache, positions=positions
        )
        return self.decoder(x, mask=mask, lengths=lengths, positions=positions, cache=cache)


class EncoderModel(Model, config=EncoderModelConfig):
    """Vectors in context: Y = Encoder(Embedding(ids)).

    ids (B, N) give (B, N, width).

    >>> model = EncoderModel(EncoderModelConfig(vocabulary=11, width=6, heads=3))
    >>> ids = torch.tensor([[1, 2, 3], [4, 5, 0]])
    >>> model(ids, lengths=torch.tensor([3, 2])).shape
    torch.Size([2, 3, 6])
    >>> model.mean(ids, lengths=torch.tensor([3, 2])).shape
    torch.Size([2, 6])
    """

    def __init__(self, config: EncoderModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding_of(config, config.vocabulary, config.segments)
        self.encoder = Encoder(config, adds_position=False)

    def forward(
        self,
        ids: Tensor,
        *,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """The vectors (B, N, width). `mask` (B, N): which tokens are real; `lengths` (B,);
        `positions` (1 or B, N): where they stand."""
        x, positions = embedded(
            "EncoderModel",
            self.embedding,
            ids,
            mask,
            lengths,
            segments=segments,
            positions=positions,
        )
        return self.encoder(x, mask=mask, lengths=lengths, positions=positions)

    def mean(
        self,
        ids: Tensor,
        *,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """One vector (B, width) for each sequence: the mean over its real tokens."""
        x = self(ids, segments=segments, mask=mask, lengths=lengths)
        return _mean(x, mask, lengths)


class MaskedLanguageModel(Model, config=MaskedLanguageModelConfig):
    """The hidden token: logits = Norm(gelu(EncoderModel(ids) W + b)) W_head + b_head.

    ids (B, N), some of them a mask token, give (B, N, vocabulary).

    >>> model = MaskedLanguageModel(MaskedLanguageModelConfig(vocabulary=11, width=6, heads=3))
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 11])
    """

    def __init__(self, config: MaskedLanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.body = EncoderModel(config)
        self.transform = Linear(config.width, config.width)
        self.norm = norm_of(config)
        self.head = Linear(config.width, config.vocabulary)
        if config.tied:
            self.head.weight = self.body.embedding.tokens.weight

    def forward(
        self,
        ids: Tensor,
        *,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """The logits (B, N, vocabulary). `mask` (B, N): which tokens are real; `lengths` (B,)."""
        x = self.body(ids, segments=segments, mask=mask, lengths=lengths)
        x = self.transform(x)
        record(self, "transformed", x)
        x = functional.gelu(x)
        record(self, "activated", x)
        logits = self.head(self.norm(x))
        record(self, "logits", logits)
        return logits

    def hook_points(self) -> HookPoints:
        return {
            "transformed": transformed("T = X W", "transform"),
            "activated": activated("^", "gelu"),
            "logits": LOGITS,
        }


class SequenceClassifier(Model, config=SequenceClassifierConfig):
    """A class for each sequence: logits = pool(EncoderModel(ids)) W + b.

    ids (B, N) give (B, classes). pool takes the mean of the vectors, or the first one; a pooler
    then makes tanh(x W + b) of it.

    >>> config = SequenceClassifierConfig(vocabulary=11, width=6, heads=3, classes=2)
    >>> SequenceClassifier(config)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 2])
    """

    def __init__(self, config: SequenceClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.body = EncoderModel(config)
        self.pooler = Linear(config.width, config.width) if config.pooler else None
        self.dropout = nn.Dropout(config.dropout)
        self.head = Linear(config.width, config.classes)

    def forward(
        self,
        ids: Tensor,
        *,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """The logits (B, classes). `mask` (B, N): which tokens are real; `lengths` (B,)."""
        x = self.body(ids, segments=segments, mask=mask, lengths=lengths)
        if self.config.pooling == "mean":
            x = _mean(x, mask, lengths)
        else:
            first = 0 if mask is None else mask.long().argmax(1)  # that is real
            x = x[torch.arange(len(x), device=x.device), first]
        record(self, "pooled", x)
        if self.pooler is not None:
            x = self.pooler(x)
            record(self, "pooler", x)
            x = x.tanh()
            record(self, "activated", x)
        logits = self.head(self.dropout(x))
        record(self, "logits", logits)
        return logits

    def hook_points(self) -> HookPoints:
        rule, formula = Mean("^"), "C = mean of {name}"
        if self.config.pooling == "first":
            rule, formula = Copied("^", 0), "C = {name}, first token"
        meaning = "One vector that stands for the whole sequence."
        return {
            "pooled": StepKind("Pooled", formula, meaning, rule),
            "pooler": transformed("T = C W", "pooler"),
            "activated": activated("^", "tanh"),
            "logits": LOGITS,
        }


def embedded(
    call: str,
    embedding: Embedding,
    ids: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    cache: Cache | None = None,
    segments: Tensor | None = None,
    positions: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The embeddings (B, N, width) of new tokens, and their positions (1 or B, N), if not given.

    Raises TypeError or ValueError for wrong inputs.
    """
    embedding.check(ids)
    check_padding(call, (ids.shape[0], ids.shape[1]), mask, lengths)
    if cache is not None:
        cache.check(ids.shape[0], len(cache.layers))
    if positions is None:
        positions = positions_in(ids.shape[1], mask, ids.device, cache)
    elif tuple(positions.shape) not in {(1, ids.shape[1]), tuple(ids.shape)}:
        raise ValueError(
            f"{call}: positions must be (1 or B, N), with (B, N) = {tuple(ids.shape)}; got "
            f"{tuple(positions.shape)}. They are where the tokens stand, whole numbers from 0 on."
        )
    return embedding(ids, positions, segments), positions


def _mean(x: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
    """The mean over real tokens, (B, width); 0 where there is none."""
    n = x.shape[1]
    real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
    if lengths is not None:
        real = real & (torch.arange(n, device=x.device) < lengths.to(x.device)[:, None])
    count = real.sum(1, keepdim=True).clamp(min=1)
    return x.masked_fill(~real[..., None], 0.0).sum(1) / count
