"""Encoder and decoder together: one sequence to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from torch import Tensor

from regard.nn._checks import same_numbers
from regard.nn.cache import Cache, Memory
from regard.nn.config import TransformerConfig
from regard.nn.embedding import embedding_of
from regard.nn.linear import Linear
from regard.nn.models import GeneratingModel, embedded
from regard.nn.stacks import Decoder, Encoder

if TYPE_CHECKING:
    from regard.nn.generation import Generated, GenerateOptions, StreamOptions, Tokens


class Transformer(GeneratingModel, config=TransformerConfig):
    """logits = Decoder(Embedding(target), Encoder(Embedding(source))) W_head (Vaswani).

    source (B, M) and target (B, N), token ids, give (B, N, vocabulary): token n of the target's
    logits follow from the whole source, and from the target up to n.

    >>> import torch
    >>> model = Transformer(TransformerConfig(vocabulary=11, width=6, heads=3, layers=2))
    >>> model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])).shape
    torch.Size([1, 2, 11])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding_of(config, config.vocabulary)
        self.encoder = Encoder(config, adds_position=False)
        vocabulary = config.target_vocabulary or config.vocabulary
        self.target_embedding = embedding_of(config, vocabulary)
        self.decoder = Decoder(replace(config, layers=config.decoder_layers), adds_position=False)
        self.head = Linear(config.width, vocabulary, config.head_bias)
        if not config.target_vocabulary:
            self.target_embedding.tokens.weight = self.embedding.tokens.weight
        if config.tied:
            self.head.weight = self.target_embedding.tokens.weight

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        source_lengths: Tensor | None = None,
        target_mask: Tensor | None = None,
        target_lengths: Tensor | None = None,
        cache: Cache | None = None,
        last: bool = False,
    ) -> Tensor:
        """The logits (B, N, vocabulary); with `last` those of the last token alone.

        Masks (B, tokens) say which tokens are real, `…_lengths` (B,) how many are, from the left.
        With a `cache` target holds the new tokens alone, and the source is encoded once.
        """
        self.target_embedding.check(target)
        if target.shape[0] != source.shape[0]:
            raise ValueError(
                f"Transformer: target must be of {source.shape[0]} sequences, as source is; got "
                f"{target.shape[0]}."
            )
        if cache is not None:
            cache.check(target.shape[0], self.config.decoder_layers)
        memory = self._remembered(source, source_mask, source_lengths, cache)
        logits = self.decode(
            target,
            memory.hidden_states,
            mask=target_mask,
            lengths=target_lengths,
            memory_mask=memory.mask,
            memory_lengths=memory.lengths,
            cache=cache,
            last=last,
        )
        if cache is not None:
            cache.memory = memory
        return logits

    def _remembered(
        self, source: Tensor, mask: Tensor | None, lengths: Tensor | None, cache: Cache | None
    ) -> Memory:
        """What the encoder makes of the source, or has made of it: the cache keeps that."""
        known = None if cache is None else cache.memory
        if known is not None:
            given = ((source, known.source), (mask, known.mask), (lengths, known.lengths))
            if not all(new is None or same_numbers(new, old) for new, old in given):
                raise ValueError(
                    "Transformer: source must be the one that the cache has been given, padded as "
                    "it was; got another. Make a new cache for it with model.new_cache()."
                )
            return known
        hidden_states = self.encode(source, mask=mask, lengths=lengths)
        if cache is None:
            return Memory(hidden_states, source, mask, lengths)
        # Copies: the caller may write the next source into the same tensors.
        kept = (None if given is None else given.clone() for given in (mask, lengths))
        return Memory(hidden_states, source.clone(), *kept)

    def encode(
        self, source: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """What the encoder makes of the source: (B, M, width)."""
        x, positions = embedded("Transformer", self.embedding, source, mask, lengths)
        return self.encoder(x, mask=mask, lengths=lengths, positions=positions)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        memory_mask: Tensor | None = None,
        memory_lengths: Tensor | None = None,
        cache: Cache | None = None,
        last: bool = False,
    ) -> Tensor:
        """The logits (B, N, vocabulary) of the target; with `last` of its last token alone.

        With a `cache` target holds the new tokens alone, and the memory is looked at once: it must
        stay the one that the cache was given first.
        """
        table = self.target_embedding
        x, positions = embedded("Transformer", table, target, mask, lengths, cache)
        x = self.decoder(
            x,
            memory=memory,
            mask=mask,
            lengths=lengths,
            memory_mask=memory_mask,
            memory_lengths=memory_lengths,
            positions=positions,
            cache=cache,
        )
        return self._logits(x, mask, lengths, last)

    def generate(  # pyright: ignore[reportIncompatibleMethodOverride]: a source, by its name
        self, source: Tokens, **options: Unpack[GenerateOptions]
    ) -> Generated:
        """A target for each source: `regard.nn.generate`, which says what may be asked."""
        return super().generate(source, **options)

    def stream(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, source: Tokens, **options: Unpack[StreamOptions]
    ) -> Iterator[Any]:
        """The same, each token as soon as it is known: `regard.nn.stream`."""
        return super().stream(source, **options)
